/** Makes a diff that a caller may see: without files that the policy refuses, and at most `gitDiffBytes` long. */
import * as z from 'zod';
import type { ToolContext } from '../tool.ts';
import { type ParsedDiff, parseDiff, shownSections } from './diff-output.ts';
import { failure, type Git } from './git.ts';
import { refusedAmong } from './refused.ts';
import { pathOf } from './repository.ts';

export const diffShape = {
  diff: z.string().describe('Unified diff; bytes that are not UTF-8 are shown as U+FFFD.'),
  additions: z.int().nonnegative(),
  deletions: z.int().nonnegative(),
  files: z.int().nonnegative().describe('Files that differ, without those withheld.'),
  withheld: z.array(z.string()).describe('Files that differ or may differ, whose content the policy hides.'),
  truncated: z.boolean().describe('Whether the diff was cut; if so, ask for one path.'),
};

export type ShownDiff = z.output<z.ZodObject<typeof diffShape>>;

/** Overrides the repository's config: one format, no programs, no content of submodules. */
const OPTIONS = [
  ...['--no-ext-diff', '--no-textconv', '--no-color', '--no-relative', '--src-prefix=a/', '--dst-prefix=b/'],
  ...['--submodule=short', '--ignore-submodules=dirty', '-O/dev/null', '-M', '-p'],
];

const LISTS = ['-z', '--raw', '--numstat'];

/** Lists names only; git opens no file for these. */
const NAMES = ['--raw', '-z', '--no-renames', '--no-ext-diff', '--no-relative', '--ignore-submodules=dirty'];
/** Matches git's error for a file of the work tree that is hidden from git and looks changed. */
const UNREADABLE = /^fatal: cannot hash /m;

/** The most names that git is told to leave out; any others are removed afterwards. */
const EXCLUDED_MAX = 500;

export interface DiffRequest {
  /** Git command, options and revisions. */
  readonly args: readonly string[];
  /** Path relative to the repository; '' for all. */
  readonly path: string;
  /** Tests a path relative to the workspace. */
  readonly isRefused: (path: string) => boolean;
  /** The folder of the workspace that is compared; absent where commits or the index are. */
  readonly workTree?: string;
  /** Gives the offset of the diff in the output. */
  readonly start?: (output: Buffer) => number;
}

/** Runs git, and if there are refused files again without them; then removes what is left of them. */
export async function shownDiff(
  git: Git,
  ctx: ToolContext,
  { args: [command = '', ...revisions], path, isRefused, workTree, start = () => 0 }: DiffRequest,
): Promise<{ shown: ShownDiff; output: Buffer }> {
  const { repository } = git;
  const own = path === '' ? [] : [literal(path)];
  const run = async (excluded: readonly string[]) => {
    const paths = [...own, ...excluded.map((it) => literal(it, 'exclude,'))];
    const of = (options: readonly string[]) => git.try([command, ...OPTIONS, ...options, ...revisions, '--', ...paths]);
    const lists = await of(LISTS);
    const { stdout, cut } = lists;
    const parsed = parseDiff(stdout, start(stdout));
    if (!parsed.combined) return { ...lists, parsed };
    const plain = await of([]);
    return { ...plain, stdout, cut, parsed: { ...parsed, patch: plain.stdout } };
  };
  const judged = { repository, isRefused };
  let last = await run([]);
  const isUnreadable = last.exitCode !== 0 && UNREADABLE.test(last.stderr);
  const listed = isUnreadable ? await git.run([command, ...NAMES, ...revisions, '--', ...own]) : undefined;
  const names = listed ? parseDiff(listed.stdout).names : last.parsed.names;
  let refusedNow = await refusedAmong(names, ctx, judged);
  const refused = [...refusedNow];
  const { stdout } = last;
  if (refused.length > 0 && refused.length <= EXCLUDED_MAX) {
    last = await run(refused);
    refusedNow = new Set([...refused, ...(await refusedAmong(last.parsed.names, ctx, judged))]);
  }
  const { cut, parsed } = last;
  if (last.exitCode !== 0 && !cut) throw failure(last.stderr);
  const shown = new Set(parsed.names);
  // A section that no list names comes from lists that were cut.
  const isShown = (name: string) => (shown.has(name) ? !refusedNow.has(name) : !isRefused(pathOf(repository, name)));
  const { files, truncated, diff } = cutDiff(parsed, (it) => !isShown(it), ctx);
  const { gitEntriesMax } = ctx.limits;
  const unseen = workTree === undefined ? [] : git.hiddenBelow([workTree]);
  const withheld = [...new Set([...refused.map((it) => pathOf(repository, it)), ...unseen])].slice(0, gitEntriesMax);
  return {
    shown: {
      diff,
      withheld,
      files: files.length,
      truncated: truncated || cut,
      additions: files.reduce((sum, it) => sum + it.additions, 0),
      deletions: files.reduce((sum, it) => sum + it.deletions, 0),
    },
    output: stdout,
  };
}

/** A pathspec that matches only this name, whatever characters it has. */
export const literal = (path: string, magic: '' | 'exclude,' = ''): string => `:(${magic}top,literal)${path}`;

function cutDiff({ files, patch }: ParsedDiff, isRefused: (path: string) => boolean, { limits }: ToolContext) {
  const sections = shownSections(patch, isRefused);
  const truncated = sections.length > limits.gitDiffBytes;
  const end = truncated ? sections.lastIndexOf(10, limits.gitDiffBytes - 1) + 1 : sections.length;
  return {
    files: files.filter((it) => !isRefused(it.path) && !(it.from !== undefined && isRefused(it.from))),
    diff: sections.toString('utf8', 0, end),
    truncated,
  };
}
