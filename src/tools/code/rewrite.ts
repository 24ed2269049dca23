/** Rewrites code by its syntax. The read_only host parses and plans (`plan`); the write host only writes. */
import * as z from 'zod';
import type { Code } from '../../base/errors.ts';
import { type ChangedFile, ChangedFiles, changedFilesResult, readText, type TextFile } from '../edit/changed-files.ts';
import { Document } from '../edit/document.ts';
import { bytesOf } from '../edit/text.ts';
import { selectFiles } from '../selection.ts';
import { REWRITE_LANGUAGES, type RewriteLanguage, type Syntax } from '../source/syntax.ts';
import type { TextEdit } from '../source/typescript.ts';
import { defineTool, type ToolContext, workspacePath } from '../tool.ts';
import { changedFile, editBetween, namedBy, PlannedFiles, plannedFile } from './planned-changes.ts';

const FILES_MAX = 1000;
/** Replacements in one file. */
const REPLACEMENTS_MAX = 10_000;

const glob = z.string().min(1).max(1024);
const code = z.string().max(64 * 1024);

/** The files of a language, unless `include` names others. */
const FILES: Readonly<Record<RewriteLanguage, string>> = {
  typescript: '*.{ts,mts,cts,tsx}',
  tsx: '*.tsx',
  javascript: '*.{js,mjs,cjs,jsx}',
  python: '*.{py,pyi}',
  rust: '*.rs',
  go: '*.go',
};

const input = z.strictObject({
  pattern: code
    .min(1)
    .describe('One expression or statement; $NAME matches one node, $$$NAME any number: `console.log($$$ARGS)`.'),
  rewrite: code.describe('What replaces each match, with the names of pattern; empty removes it.'),
  language: z.enum(REWRITE_LANGUAGES).describe('typescript takes .tsx files too.'),
  path: workspacePath('Directory to look in, relative to the workspace root.').default('.'),
  include: z.array(glob).max(64).default([]).describe('Globs of files (default: all of the language).'),
  exclude: z.array(glob).max(64).default([]).describe('Globs of files and directories to leave out.'),
  maxFiles: z.int().min(1).max(FILES_MAX).default(100).describe('If more files would change, none does.'),
  preview: z.boolean().default(false).describe('Only return the diffs; write nothing.'),
});
type Input = z.output<typeof input>;

export default defineTool({
  name: 'code_rewrite',
  title: 'Rewrite code by its syntax',
  summary:
    'Replace code that matches a syntax pattern in all files of a language: all of them are changed, or none. Matches ' +
    'code, not text: layout, comments and strings do not matter. Preview first. Of matches that lie in each other the ' +
    'outermost is replaced. A result that is no valid code is refused.',
  notes: 'The patterns are those of ast-grep. One undo takes all files back.',
  isExtra: true,
  capabilities: [{ action: 'rewrite', description: 'Replaces code that matches a syntax pattern, in many files.' }],
  category: 'code_analysis',
  tier: 'write',
  tiers: { of: ({ preview }) => (preview ? 'read_only' : 'write') },
  destructive: true,
  effects: ({ path, preview }) => [
    { kind: 'read', target: path },
    ...(preview ? [] : [{ kind: 'write' as const, target: path }]),
  ],
  input,
  output: changedFilesResult,
  examples: [
    {
      input: { pattern: 'greet()', rewrite: "greet('you')", language: 'typescript' },
      output: { totalReplacements: 1, filesSearched: 2, skipped: [] },
    },
    {
      input: { pattern: 'return $VALUE', rewrite: 'return [$VALUE]', language: 'typescript', preview: true },
      output: { totalReplacements: 1 },
    },
    { input: { pattern: 'nowhere()', rewrite: '', language: 'go' }, output: { files: [], totalReplacements: 0 } },
    { input: { pattern: 'greet()', rewrite: 'greet($NAME)', language: 'typescript' }, error: 'INPUT_INVALID' },
    { input: { pattern: 'greet()', rewrite: 'greet((', language: 'typescript' }, error: 'INPUT_INVALID' },
    { input: { pattern: 'a', rewrite: 'b', language: 'python', path: '/etc' }, error: 'ACCESS_DENIED' },
  ],

  preview: async (wanted, ctx) => (await findAll(wanted, ctx)).files.preview(ctx),

  before: {
    async plan(wanted, ctx) {
      const { files, edits } = await findAll(wanted, ctx);
      const planned = new PlannedFiles(ctx);
      for (const it of files.all) planned.add(it, wanted.path, edits.get(it.path) ?? []);
      return { files: planned.all, filesSearched: files.filesSearched, skipped: files.skipped };
    },
  },

  async run(wanted, ctx) {
    if (wanted.preview) return (await findAll(wanted, ctx)).files.apply(wanted, ctx);
    const { files: planned, filesSearched, skipped } = planShape.parse(ctx.planned);
    const files = new ChangedFiles(wanted.maxFiles, ctx);
    const isAsked = namedBy([wanted.path], wanted.include.length > 0 ? /./ : ENDINGS, ctx);
    for (const it of planned) files.add(changedFile(it, isAsked, ctx));
    files.filesSearched = filesSearched;
    for (const { path, code: why } of skipped) files.skip(path, why as Code);
    return files.apply(wanted, ctx);
  },
});

const ENDINGS = /\.([mc]?tsx?|[mc]?jsx?|pyi?|rs|go)$/;

const planShape = z.strictObject({
  files: z.array(plannedFile).max(FILES_MAX),
  filesSearched: z.int().min(0),
  skipped: z.array(z.strictObject({ path: z.string(), code: z.string() })),
});

interface Found {
  readonly files: ChangedFiles;
  /** The edits of each changed file, by its path. */
  readonly edits: ReadonlyMap<string, readonly TextEdit[]>;
}

async function findAll(wanted: Input, ctx: ToolContext): Promise<Found> {
  const { language, include, exclude, path, maxFiles } = wanted;
  const { syntax } = ctx;
  const files = new ChangedFiles(maxFiles, ctx);
  const edits = new Map<string, readonly TextEdit[]>();
  const globs = include.length > 0 ? include : [FILES[language]];
  for await (const file of selectFiles({ path, include: globs, exclude }, ctx)) {
    await ctx.breathe();
    const found = readText(file, path, ctx);
    const changed = 'code' in found ? found : await change(file, found, { wanted, syntax, ctx });
    if (changed && 'code' in changed) {
      files.skip(file, changed.code);
      continue;
    }
    files.filesSearched += 1;
    if (!changed) continue;
    files.add(changed);
    edits.set(file, changed.edits);
  }
  return { files, edits };
}

interface Rewriting {
  readonly wanted: Input;
  readonly syntax: Syntax;
  readonly ctx: ToolContext;
}

/** The file with its matches replaced; undefined if there are none. */
async function change(
  path: string,
  { before, text }: TextFile,
  { wanted: { language, pattern, rewrite }, syntax, ctx: { limits, hashOf } }: Rewriting,
): Promise<(ChangedFile & { edits: readonly TextEdit[] }) | { code: Code } | undefined> {
  if (before.length > limits.symbolSourceBytesMax) return { code: 'FILE_LIMIT' };
  const document = new Document(text, limits.fileBytesMax);
  const replacementsMax = REPLACEMENTS_MAX;
  const ranges = await syntax.rewrite({ language, path, text: document.flat, pattern, rewrite, replacementsMax });
  if (ranges === undefined) return { code: 'HOST_CRASHED' };
  if (ranges.length === 0) return undefined;
  const isFlat = document.flat === text;
  document.splice(ranges);
  const content = bytesOf(path, document.text, limits.fileBytesMax);
  // The ranges count in a text without \r and byte order mark.
  const edits = isFlat
    ? ranges.map((it) => ({ start: it.from, end: it.to, text: it.text }))
    : [editBetween(text, document.text)];
  return { path, before, content, replacements: ranges.length, ifHash: hashOf(before), edits };
}
