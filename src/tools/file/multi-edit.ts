import * as z from 'zod';
import { type ChangedFile, ChangedFiles, changedFilesResult, readText, type TextFile } from '../edit/changed-files.ts';
import { Document } from '../edit/document.ts';
import { compileReplacing } from '../edit/replacing.ts';
import { bytesOf } from '../edit/text.ts';
import { selectFiles } from '../selection.ts';
import { defineTool, type ToolContext, workspacePath } from '../tool.ts';

const FILES_MAX = 1000;

const glob = (description: string) => z.string().min(1).max(1024).describe(description);

const input = z.strictObject({
  pattern: glob('Glob of the files: * ? [a-z] {a,b} **; against the name, or with a / against the path below `path`.'),
  find: z
    .string()
    .min(1)
    .max(64 * 1024)
    .describe('Text to find, or with regex: true a regular expression, to which every line ends in \\n.'),
  replace: z
    .string()
    .max(1024 * 1024)
    .describe('Replacement text; with regex: true, $1, $<name>, $& and $$ are expanded.'),
  path: workspacePath('Directory to look in, relative to the workspace root.').default('.'),
  include: z.array(glob('A glob.')).max(64).default([]).describe('More globs of files to include.'),
  exclude: z.array(glob('A glob.')).max(64).default([]).describe('Globs of files and directories to leave out.'),
  maxFiles: z.int().min(1).max(FILES_MAX).default(100).describe('If more files would change, none does.'),
  preview: z.boolean().default(false).describe('Only return the diffs; write nothing.'),
  caseSensitive: z.boolean().default(true).describe('Whether case matters.'),
  wholeWord: z.boolean().default(false).describe('Match whole words only.'),
  regex: z
    .boolean()
    .default(false)
    .describe(
      'Whether find is a regular expression of JavaScript with the flags g, m and u: ^ and $ are those of a line.',
    ),
});
type Input = z.output<typeof input>;

export default defineTool({
  name: 'file_multi_edit',
  title: 'Find and replace in many files',
  summary:
    'Find and replace text in all files that a glob selects: all of them are changed, or none. Preview first. Hidden files and what ' +
    '.gitignore leaves out are only taken where pattern or include names them without wildcards. Binary files and files that may ' +
    'not be read are left alone and told in skipped.',
  isExtra: true,
  capabilities: [{ action: 'replace', description: 'Replaces text in all files that a glob selects, or in none.' }],
  category: 'filesystem',
  tier: 'write',
  destructive: true,
  effects: ({ path }) => [
    { kind: 'read', target: path },
    { kind: 'write', target: path },
  ],
  input,
  output: changedFilesResult,
  examples: [
    {
      input: { pattern: '**/*.{txt,md}', find: 'line', replace: 'row' },
      output: { totalReplacements: 3, filesSearched: 2, skipped: [] },
    },
    {
      input: { pattern: '*.txt', find: '^(\\w+) line', replace: 'line $1', regex: true, preview: true },
      output: { totalReplacements: 3 },
    },
    { input: { pattern: '*', find: 'nowhere', replace: '' }, output: { files: [], totalReplacements: 0 } },
    { input: { pattern: '*', find: '(', replace: '', regex: true }, error: 'INPUT_INVALID' },
    { input: { pattern: '*', find: 'e', replace: '', path: '/etc' }, error: 'ACCESS_DENIED' },
    { input: { pattern: '**/*.{txt,md}', find: 'i', replace: 'j', maxFiles: 1 }, error: 'FILE_LIMIT' },
  ],
  aliases: [{ name: 'multiedit', input }],

  preview: async (wanted, ctx) => (await findAll(wanted, ctx)).preview(ctx),
  run: async (wanted, ctx) => (await findAll(wanted, ctx)).apply(wanted, ctx),
});

async function findAll(wanted: Input, ctx: ToolContext): Promise<ChangedFiles> {
  const { pattern, include, exclude, path, maxFiles } = wanted;
  const find = compileReplacing(wanted);
  const files = new ChangedFiles(maxFiles, ctx);
  for await (const file of selectFiles({ path, include: [pattern, ...include], exclude }, ctx)) {
    await ctx.breathe();
    const found = readText(file, path, ctx);
    if ('code' in found) {
      files.skip(file, found.code);
      continue;
    }
    files.filesSearched += 1;
    const changed = change(file, found, { find, isExpression: wanted.regex, ctx });
    if (changed) files.add(changed);
  }
  return files;
}

interface ReplaceContext {
  readonly find: ReturnType<typeof compileReplacing>;
  /** Whether the caller gave a regular expression, which may run for ever over a text. */
  readonly isExpression: boolean;
  readonly ctx: ToolContext;
}

function change(
  path: string,
  { before, text }: TextFile,
  { find, isExpression, ctx }: ReplaceContext,
): ChangedFile | undefined {
  const document = new Document(text, ctx.limits.fileBytesMax);
  const search = () => find(document.flat);
  // Bounded for each file, whatever the call's time limit: other calls share the thread.
  const suggestion = 'Avoid nested repetition such as (a+)+ in the expression, or omit regex.';
  const ranges = isExpression ? ctx.bounded(search, { what: `looking through \`${path}\``, suggestion }) : search();
  if (ranges.length === 0) return undefined;
  document.splice(ranges);
  const content = bytesOf(path, document.text, ctx.limits.fileBytesMax);
  return { path, before, content, replacements: ranges.length, ifHash: ctx.hashOf(before) };
}
