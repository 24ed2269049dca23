/**
 * Refactors TypeScript and JavaScript, and renames in Python, Go and Rust, which is a command. Which files a rename changes is known only after the language server answered,
 * and the policy decides before anything runs: so a rename and a move ask to write anywhere in the workspace, and rules
 * about single files are kept when they are written. The server answers in the read_only host (`plan`); this host gets
 * edits, and writes them if the files are still the same.
 */
import * as z from 'zod';
import { ToolError } from '../../base/errors.ts';
import { type ChangedFile, ChangedFiles } from '../edit/changed-files.ts';
import { bytesOf } from '../edit/text.ts';
import { assertSearch, searchHealth } from '../search-program.ts';
import {
  REFACTORED_FILES_MAX,
  type RefactorPlan,
  type RefactorQuery,
  refactorPlan,
  typeProblem,
} from '../source/typescript.ts';
import { defineTool, type ToolContext, workspacePath } from '../tool.ts';
import { edited, plainPath, sameText } from './planned-changes.ts';
import { APPLY, applyByCommand, planByServer, servedBy } from './servers/rename.ts';

const OPERATIONS = ['rename', 'move_file', 'organize_imports', 'remove_unused_imports', 'add_missing_imports'] as const;
/** For operations that other editors have. */
const BY_HAND = 'to extract or inline, edit the file with file_edit, then check it with code_type_check';
const operation = z.enum(OPERATIONS, { error: `must be one of ${OPERATIONS.join(', ')}; ${BY_HAND}` });

const spot = z.int().min(1).max(10_000_000);
const name = z.string().min(1).max(256);

const input = z.strictObject({
  operation: operation.describe('What to do.'),
  path: workspacePath('The source file; for move_file also a directory.'),
  symbol: name.optional().describe('rename: the name; with line or alone if the file has only one such symbol.'),
  line: spot.optional().describe('rename: line of the name.'),
  column: spot.optional().describe('rename: column of the name, from 1 in UTF-16 units.'),
  newName: name.optional().describe('rename: the new name.'),
  to: workspacePath('move_file: the new path.').optional(),
  preview: z.boolean().default(false).describe('Only return the diffs and new errors; write nothing.'),
});
type Input = z.output<typeof input>;

const byTransformation = z.strictObject({
  path: workspacePath('The source file.'),
  transformation: z
    .union([z.enum(OPERATIONS), z.looseObject({ operation: z.enum(OPERATIONS) })], {
      error: `must be one of ${OPERATIONS.join(', ')}, or { operation, … } with one of them and its parameters; ${BY_HAND}`,
    })
    .describe('An operation of code_refactor, or { operation, … } with its parameters.'),
});

export default defineTool({
  name: 'code_refactor',
  title: 'Refactor code',
  summary:
    'Rename a symbol with all its uses, move a file or directory with all imports of it, organize, clean and complete ' +
    'imports, in TypeScript and JavaScript; rename in Python, Go and Rust, too, where a language server is installed. All files are changed or none. Refused if the files would have errors that they do not have now, or if a name would mean something else.',
  notes:
    'A rename begins at the definition, wherever the name was given. One undo takes all files back. To extract or inline, ' +
    'edit the file with file_edit, then check it with code_type_check.',
  version: '1.1.0',
  isExtra: true,
  capabilities: [
    { action: 'rename', description: 'Renames a symbol and all its uses.' },
    { action: 'move', description: 'Moves a source file or a directory and changes the imports of it.' },
    { action: 'imports', description: 'Organizes, removes and adds imports of a file.' },
  ],
  category: 'code_analysis',
  tier: 'execute',
  tiers: { of: (it) => (serverOf(it) ? 'execute' : it.preview ? 'read_only' : 'write'), least: 'read_only' },
  commandOf: (it) => (serverOf(it) ? { command: commandsOf(it).join('; '), cwd: '.', env: {} } : undefined),
  timeoutMs: (it) => (serverOf(it) ? SERVER_TIMEOUT_MS : undefined),
  runs: { in: 'host', readsUnchecked: () => true },
  destructive: true,
  initialize: assertSearch,
  healthCheck: searchHealth,
  effects: (it) => [
    { kind: 'read', target: '.' },
    { kind: 'read', target: it.path },
    ...(it.preview ? [] : writesOf(it)),
    ...commandsOf(it).map((target) => ({ kind: 'exec' as const, target })),
  ],
  input,
  output: z.strictObject({
    files: z.array(
      z.strictObject({
        path: z.string(),
        replacements: z.int().nonnegative(),
        diff: z.string().optional().describe('Unified; absent if too large.'),
      }),
    ),
    moved: z.strictObject({ from: z.string(), to: z.string() }).optional(),
    newErrors: z.array(typeProblem).describe('With preview: what would refuse the change.'),
    checkedFiles: z.int().nonnegative().describe('Files whose errors were compared.'),
    truncated: z.boolean().describe('Whether some projects or files were not looked at.'),
    unresolved: z
      .array(z.strictObject({ name: z.string(), choices: z.array(z.string()) }))
      .optional()
      .describe('add_missing_imports: names without an import, or with several to choose from.'),
  }),
  examples: [
    {
      input: { operation: 'rename', path: 'lib/main.ts', symbol: 'greet', newName: 'welcome' },
      output: { newErrors: [], checkedFiles: 2, truncated: false },
    },
    {
      input: { operation: 'move_file', path: 'lib/hello.ts', to: 'lib/hi.ts' },
      output: { moved: { from: 'lib/hello.ts', to: 'lib/hi.ts' }, newErrors: [] },
    },
    { input: { operation: 'rename', path: 'lib/main.ts', symbol: 'greet', newName: 'class' }, error: 'INPUT_INVALID' },
    { input: { operation: 'rename', path: 'lib/main.ts', symbol: 'nobody', newName: 'x' }, error: 'NOT_FOUND' },
    { input: { operation: 'move_file', path: 'lib/hello.ts', to: 'lib/main.ts' }, error: 'ALREADY_EXISTS' },
    { input: { operation: 'inline' as never, path: 'lib/main.ts' }, error: 'INPUT_INVALID' },
    { input: { operation: 'organize_imports', path: 'notes.txt' }, error: 'UNSUPPORTED' },
    { input: { operation: 'move_file', path: 'lib/hello.ts', to: '../hello.ts' }, error: 'ACCESS_DENIED' },
  ],
  spellings: { opened: ['params'] },
  aliases: [
    {
      name: 'refactor_code',
      input: byTransformation,
      toInput: (it) => {
        const { path, transformation } = byTransformation.parse(it);
        return typeof transformation === 'string' ? { path, operation: transformation } : { ...transformation, path };
      },
    },
  ],

  async preview(wanted, ctx) {
    // The language server is a command: it may not run before the call is allowed.
    if (serverOf(wanted)) return { preImages: [] };
    const plan = await planOf(wanted, ctx);
    const { move } = plan;
    const files = changedBy(plan, ctx);
    const { diff, preImages } = await files.preview(ctx);
    if (!move) return { diff, preImages };
    const present = await ctx.changes.state(move.from);
    // What moves is written under its new name, and moved back if that fails.
    const ofMove = [
      { path: move.from, hash: present },
      { path: move.from, hash: null },
      { path: move.to, hash: null },
      { path: move.to, hash: present },
      ...plan.files.map((it) => ({ path: movedPath(it.path, move), hash: it.ifHash })),
    ];
    return { diff: `rename ${move.from} => ${move.to}\n${diff ?? ''}`, preImages: [...preImages, ...ofMove] };
  },

  before: {
    plan: async (wanted, ctx) => (serverOf(wanted) ? null : planOf(wanted, ctx)),
  },

  async run(wanted, ctx) {
    const plan = await planToRun(wanted, ctx);
    const { move, newErrors, checkedFiles, truncated, unresolved } = plan;
    const files = changedBy(plan, ctx);
    const changedFiles = await files.withDiffs(ctx);
    if (!wanted.preview) await write(plan, wanted, ctx);
    return {
      files: changedFiles,
      moved: move && { from: move.from, to: move.to },
      newErrors: [...newErrors],
      checkedFiles,
      truncated,
      ...(unresolved.length > 0 && { unresolved: unresolved.map((it) => ({ ...it, choices: [...it.choices] })) }),
    };
  },
});

/** The language server that renames for a call; undefined for those that TypeScript's own makes. */
const serverOf = ({ operation, path }: Pick<Input, 'operation' | 'path'>) =>
  operation === 'rename' ? servedBy(path) : undefined;

/** The commands of a call, as they are judged. */
function commandsOf(it: Pick<Input, 'operation' | 'path' | 'preview'>): string[] {
  const servers = serverOf(it)?.servers ?? [];
  return servers.length === 0 || it.preview ? [...servers] : [...servers, APPLY];
}

/** rust-analyzer reads a large workspace for minutes. */
const SERVER_TIMEOUT_MS = 300_000;

/** What a call may write: imports only in its file, names and moves wherever they are used. */
function writesOf({ operation, path, to }: Pick<Input, 'operation' | 'path' | 'to'>) {
  if (operation === 'move_file' && to !== undefined)
    return [
      { kind: 'delete' as const, target: path },
      { kind: 'write' as const, target: to },
      { kind: 'write' as const, target: '.' },
    ];
  return [{ kind: 'write' as const, target: operation === 'rename' ? '.' : path }];
}

async function planToRun(wanted: Input, ctx: ToolContext): Promise<RefactorPlan> {
  const served = serverOf(wanted);
  const query = queryOf(wanted);
  if (served && query.operation === 'rename') return planByServer(query, served, ctx);
  return wanted.preview ? planned(wanted, ctx) : refactorPlan.parse(ctx.planned);
}

/** The plan of a change that may be made. Throws CONFLICT with the errors that it would bring. */
async function planOf(wanted: Input, ctx: ToolContext): Promise<RefactorPlan> {
  const plan = await planned(wanted, ctx);
  const { newErrors } = plan;
  const [first] = newErrors;
  if (!first) return plan;
  const more = newErrors.length > 1 ? `, and ${newErrors.length - 1} more` : '';
  throw new ToolError(
    'CONFLICT',
    `this would bring new errors: ${first.file}:${first.line}:${first.column} ${first.code} ${first.message}${more}`
      .slice(0, 1000)
      .toWellFormed(),
    { suggestion: 'Nothing was changed. See the diffs with preview: true.', details: { newErrors } },
  );
}

async function planned(wanted: Input, ctx: ToolContext): Promise<RefactorPlan> {
  const query = queryOf(wanted);
  // Refuses a path that may not be written before anything else.
  const isTaken = query.operation === 'move_file' && (await ctx.changes.state(query.to)) !== null;
  const plan = await ctx.typescript.refactor(query);
  if (isTaken && plan.move) throw new ToolError('ALREADY_EXISTS', `\`${plan.move.to}\` exists`);
  return plan;
}

function queryOf({ operation, path, newName, to, ...where }: Input): RefactorQuery {
  switch (operation) {
    case 'rename':
      if (newName === undefined) throw missing('newName', operation);
      return { operation, path, newName, ...where };
    case 'move_file':
      if (to === undefined) throw missing('to', operation);
      return { operation, path, to };
    default:
      return { operation, path };
  }
}

const missing = (parameter: string, operation: string) =>
  new ToolError('INPUT_INVALID', `${operation} needs ${parameter}`);

/** The changed files, from their present contents. Throws CONFLICT if one is not what the plan was made from. */
function changedBy({ files }: RefactorPlan, ctx: ToolContext, at = (path: string) => path): ChangedFiles {
  const changed = new ChangedFiles(REFACTORED_FILES_MAX, ctx);
  for (const { path, ifHash, edits } of files) changed.add(changedFile({ path: at(path), ifHash, edits }, ctx));
  return changed;
}

function changedFile({ path, ifHash, edits }: RefactorPlan['files'][number], ctx: ToolContext): ChangedFile {
  const { before, text } = sameText(path, { declared: '.', ifHash }, ctx);
  const content = bytesOf(path, edited(path, text, edits, text.startsWith('\uFEFF') ? 1 : 0), ctx.limits.fileBytesMax);
  return { path, before, content, replacements: edits.length, ifHash };
}

async function write(plan: RefactorPlan, wanted: Input, ctx: ToolContext): Promise<void> {
  const { move, files } = plan;
  if (serverOf(wanted)) return applyByCommand(changedBy(plan, ctx), ctx);
  assertAsked(plan, wanted);
  if (!move) {
    const declared = wanted.operation === 'rename' ? '.' : wanted.path;
    if (files.length > 0) await ctx.changes.replaceAll(changedBy(plan, ctx).all, declared);
    return;
  }
  await ctx.changes.rename(move.from, move.to, { overwrite: false });
  if (files.length === 0) return;
  try {
    await ctx.changes.replaceAll(changedBy(plan, ctx, (it) => movedPath(it, move)).all, '.');
  } catch (error) {
    await ctx.changes.rename(move.to, move.from, { overwrite: false });
    throw error;
  }
}

/** The path that a file has after a move of it, or of a directory around it. */
const movedPath = (path: string, { from, to }: { readonly from: string; readonly to: string }): string =>
  path === from || path.startsWith(`${from}/`) ? to + path.slice(from.length) : path;

/** Refuses a plan of another host that goes beyond what the call declared. */
function assertAsked({ move, files }: RefactorPlan, { operation, path, to = '' }: Input): void {
  const isMove = operation === 'move_file';
  const moves = move ? move.from === plainPath(path) && move.to === plainPath(to) : true;
  const isAnywhere = isMove || operation === 'rename';
  const isAllowed = (it: string) => (isAnywhere ? SOURCE.test(it) : it === plainPath(path));
  if (moves && isMove === (move !== undefined) && files.every((it) => isAllowed(it.path))) return;
  throw new ToolError('INTERNAL', 'the plan of this refactoring changes other files than the call says');
}

const SOURCE = /\.([cm]?[jt]s|[jt]sx|json)$/;
