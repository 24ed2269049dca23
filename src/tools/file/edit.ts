import { normalize } from 'node:path';
import * as z from 'zod';
import { ToolError } from '../../base/errors.ts';
import { nearestTo } from '../edit/closest-lines.ts';
import { unifiedDiff } from '../edit/diff.ts';
import { Document, type EditOperation, SearchError } from '../edit/document.ts';
import { bytesOf, EDITABLE, textOf } from '../edit/text.ts';
import { NO_BACKUP, UTF8 } from '../file-spellings.ts';
import { rare } from '../rare-parameters.ts';
import { respelled } from '../spellings.ts';
import { defineTool, type ToolContext, workspacePath } from '../tool.ts';

const OPERATIONS_MAX = 1000;
/** The most characters of a text in an operation; a file can't hold more. */
const TEXT_CHARS_MAX = 10 * 1024 * 1024;
const LINE_MAX = 100_000_000;

const text = (description: string) => z.string().max(TEXT_CHARS_MAX).describe(description);
const line = (description: string) => z.int().min(1).max(LINE_MAX).describe(description);

const operation = z.discriminatedUnion('type', [
  z.strictObject({
    type: z.literal('replace'),
    search: text('Exact text; there once, unless all.').min(1),
    replace: text('The new text.'),
    all: z.boolean().default(false).describe('Replace every match.'),
  }),
  z.strictObject({
    type: z.literal('insert'),
    line: line('Number that the first new line will have.'),
    content: text('The new lines.'),
  }),
  z.strictObject({
    type: z.literal('delete'),
    startLine: line('First line, from 1.'),
    endLine: line('Last line, inclusive.'),
  }),
]);

/** Converts a replacement in other editors' form, which has no `type`. */
function asOperation(item: Readonly<Record<string, unknown>>): unknown {
  const names = { oldText: 'search', oldString: 'search', newText: 'replace', newString: 'replace', replaceAll: 'all' };
  const { type, ...rest } = item;
  if (type !== undefined && type !== 'replace') return item;
  const own = respelled(rest, { search: 1, replace: 1, all: 1 }, { names }) as Record<string, unknown>;
  return type === 'replace' || 'search' in own ? { type: 'replace', ...own } : item;
}

const input = z.strictObject({
  path: workspacePath('File.'),
  operations: z.array(operation).min(1).max(OPERATIONS_MAX).describe('Applied in order; all or none.'),
  ifHash: rare(
    z
      .string()
      .regex(/^sha256:[0-9a-f]{64}$/)
      .optional()
      .describe('Refuse unless the file has this hash.'),
  ),
  encoding: rare(
    z.enum(EDITABLE).default('utf-8').describe('Of the file; bytes outside of the edits stay as they are.'),
  ),
  preview: z.boolean().default(false).describe('Only show the diff.'),
});
const asEdit = z.strictObject({
  filePath: input.shape.path,
  oldString: text('Exact text, which may span lines; it must be there once, unless replaceAll is true.').min(1),
  newString: text('What stands there instead.'),
  replaceAll: z.boolean().default(false).describe('Replace every match.'),
});
const replacement = z.strictObject({ oldText: asEdit.shape.oldString, newText: asEdit.shape.newString });
/** One replacement or several; MCP's file system server calls them `edits`. */
const asEditFile = input.extend({
  operations: input.shape.operations.optional(),
  edits: z.array(replacement).min(1).max(OPERATIONS_MAX).optional().describe('Replacements, applied in order.'),
  oldString: asEdit.shape.oldString.optional(),
  newString: asEdit.shape.newString.optional(),
  replaceAll: asEdit.shape.replaceAll,
});
type Input = z.output<typeof input>;

export default defineTool({
  name: 'file_edit',
  title: 'Edit a file',
  summary:
    'Change parts of a text file: replace exact text, insert or delete lines, in one step. Gives the diff. Text that is not ' +
    'there, or more than once, is an error that shows the nearest lines.',
  dependencies: ['file_read'],
  notes:
    'BOM, final newline and permissions are kept; in files with CRLF, text with plain newlines is found too. At most 10 MB. ' +
    'A replacement may also be `{oldText, newText}` or `{oldString, newString, replaceAll}`, without a type.',
  capabilities: [
    { action: 'replace', description: 'Replaces exact text in a file.' },
    { action: 'insert', description: 'Inserts lines into a file.' },
    { action: 'delete', description: 'Removes lines from a file.' },
  ],
  category: 'filesystem',
  tier: 'write',
  destructive: true,
  effects: ({ path }) => [
    { kind: 'read', target: path },
    { kind: 'write', target: path },
  ],
  input,
  output: z.strictObject({
    path: z.string().optional().describe('The file that was changed, if a link led to it.'),
    diff: z.string().optional().describe('Unified; absent if the change is too large to compare.'),
    appliedOperations: z.int().nonnegative(),
    inexact: z
      .int()
      .positive()
      .optional()
      .describe('Replacements whose text stands there with other quotes, spaces or accents, and only once.'),
    hash: z.string().describe('sha256: and 64 hex digits, of the new content, with preview too.'),
  }),
  examples: [
    {
      input: { path: 'notes.txt', operations: [{ type: 'replace', search: 'second', replace: '2nd' }] },
      output: {
        appliedOperations: 1,
        diff: '--- a/notes.txt\n+++ b/notes.txt\n@@ -1,3 +1,3 @@\n first line\n-second line\n+2nd line\n third line\n',
      },
    },
    {
      input: {
        path: 'notes.txt',
        operations: [
          { type: 'insert', line: 4, content: 'fourth line' },
          { type: 'delete', startLine: 1, endLine: 2 },
        ],
      },
      output: { appliedOperations: 2 },
    },
    {
      input: { path: 'notes.txt', operations: [{ type: 'replace', search: 'fifth line', replace: '' }] },
      error: 'NOT_FOUND',
    },
    { input: { path: 'notes.txt', operations: [{ type: 'replace', search: 'line', replace: '' }] }, error: 'CONFLICT' },
    { input: { path: 'docs', operations: [{ type: 'delete', startLine: 1, endLine: 1 }] }, error: 'UNSUPPORTED' },
  ],
  spellings: {
    names: { filePath: 'path', oldText: 'oldString', newText: 'newString' },
    values: { encoding: UTF8 },
    items: { operations: asOperation },
    ignored: NO_BACKUP,
  },
  aliases: [
    { name: 'edit_file', input: asEditFile, spellings: { names: { dryRun: 'preview' } }, toInput: fromEditFile },
    {
      name: 'edit',
      input: asEdit,
      spellings: { names: { path: 'filePath', oldText: 'oldString', newText: 'newString' } },
      toInput: ({ filePath, oldString, newString, replaceAll }) => ({
        path: filePath,
        operations: [{ type: 'replace', search: oldString, replace: newString, all: replaceAll }],
      }),
    },
  ],

  async preview(wanted, ctx) {
    const { path, before, shown } = await edited(wanted, ctx);
    const diff = await unifiedDiff(path, shown, ctx.limits);
    return { diff, preImages: [{ path, hash: ctx.hashOf(before) }] };
  },

  async run(wanted, ctx) {
    const { operations, ifHash, preview } = wanted;
    const { path, before, after, shown, inexact } = await edited(wanted, ctx);
    const hash = ctx.hashOf(before);
    if (ifHash !== undefined && hash !== ifHash) {
      throw new ToolError('CONFLICT', `\`${path}\` is ${hash}, not ${ifHash} as ifHash says`, {
        suggestion: 'Read the file again, then decide.',
        details: { hash },
      });
    }
    const diff = await unifiedDiff(path, shown, ctx.limits);
    if (!preview) {
      using target = ctx.target(path, { createDirs: false, declared: wanted.path });
      target.replace(after, { overwrite: true, ifHash: hash });
    }
    return {
      ...(path !== wanted.path && { path }),
      diff,
      appliedOperations: operations.length,
      ...(inexact > 0 && { inexact }),
      hash: ctx.hashOf(after),
    };
  },
});

/** Throws ZodError unless exactly one of the three forms is given. */
function fromEditFile(given: Record<string, unknown>): z.input<typeof input> {
  const { operations, edits = [], oldString, newString, replaceAll, ...rest } = given as z.output<typeof asEditFile>;
  const replacements = [
    ...edits.map(({ oldText, newText }) => ({ search: oldText, replace: newText, all: false })),
    ...(oldString === undefined ? [] : [{ search: oldString, replace: newString, all: replaceAll }]),
  ].map((it) => ({ type: 'replace', ...it }));
  const forms = [operations, given.edits, oldString].filter((it) => it !== undefined).length;
  if (forms > 1) {
    const message = 'takes one of operations, edits, and oldString with newString';
    throw new z.ZodError([{ code: 'custom', path: [], message, input: undefined }]);
  }
  return input.parse({ ...rest, operations: operations ?? (forms === 0 ? undefined : replacements) });
}

interface Edited {
  /** The given path, or where its links lead. */
  readonly path: string;
  readonly before: Buffer;
  readonly after: Buffer;
  /** Both in UTF-8. */
  readonly shown: { readonly before: Buffer; readonly after: Buffer };
  /** How many replacements matched a text in another form. */
  readonly inexact: number;
}

/** The present content and the edited content. */
async function edited({ path: given, operations, encoding }: Input, ctx: ToolContext): Promise<Edited> {
  using file = ctx.open(given);
  const path = normalize(given) === file.realPath ? given : file.realPath;
  const before = file.bytes();
  const text = textOf(path, before, encoding);
  const document = new Document(text, ctx.limits.fileBytesMax);
  for (const [at, operation] of operations.entries()) {
    if (at > 0) await ctx.breathe();
    applyTo(document, operation, { path, number: at + 1 });
  }
  const after = bytesOf(path, document.text, ctx.limits.fileBytesMax, encoding);
  const shown =
    encoding === 'utf-8' ? { before, after } : { before: Buffer.from(text), after: Buffer.from(document.text) };
  return { path, before, after, shown, inexact: document.inexact };
}

function applyTo(
  document: Document,
  operation: EditOperation,
  { path, number }: { path: string; number: number },
): void {
  try {
    document.apply(operation);
  } catch (error) {
    if (error instanceof SearchError && operation.type === 'replace')
      throw error.matches === 0
        ? notThere(document, operation.search, { path, number })
        : severalTimes(error, { path, number });
    if (!(error instanceof ToolError)) throw error;
    throw new ToolError(error.code, `operation ${number} on \`${path}\`: ${error.message}`, error.extras);
  }
}

interface EditPosition {
  readonly path: string;
  readonly number: number;
}

function notThere(document: Document, search: string, { path, number }: EditPosition): ToolError {
  const nearest = nearestTo(search.replaceAll('\r\n', '\n'), document.flat);
  const what = `search of operation ${number} is not in \`${path}\``;
  if (!nearest) {
    const suggestion = 'Nothing there is much like it; read the file again.';
    return new ToolError('NOT_FOUND', what, { suggestion, details: { operation: number } });
  }
  const { startLine, endLine, percent, hint, onlySpace } = nearest;
  const lines = startLine === endLine ? `line ${startLine} is` : `lines ${startLine} to ${endLine} are`;
  const how = onlySpace ? 'differ in spaces, tabs or line breaks only' : `${percent} % alike`;
  return new ToolError('NOT_FOUND', `${what}; ${lines} the nearest (${how})`, {
    suggestion: 'details.nearest.hint shows what differs: - as searched for, + as it stands there.',
    details: { operation: number, nearest: { startLine, endLine, hint } },
  });
}

function severalTimes({ matches, lines }: SearchError, { path, number }: EditPosition): ToolError {
  const lineList = `${lines.join(', ')}${matches > lines.length ? ' …' : ''}`;
  return new ToolError(
    'CONFLICT',
    `search of operation ${number} matches ${matches} times in \`${path}\`, at lines ${lineList}`,
    {
      suggestion: 'Include more of the surrounding text in search, or set all: true.',
      details: { operation: number, matches, lines: [...lines] },
    },
  );
}
