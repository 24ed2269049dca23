import { normalize } from 'node:path/posix';
import * as z from 'zod';
import { ToolError } from '../../base/errors.ts';
import { isBelow } from '../../base/paths.ts';
import { defineTool, type ToolContext, workspacePath } from '../tool.ts';
import { parseDiff } from './diff-output.ts';
import { failure, Git } from './git.ts';
import { assertGit, gitHealth } from './installed.ts';
import { refusedAmong } from './refused.ts';
import { findRepository, isRebasing, pathIn, pathOf, type Repository } from './repository.ts';
import { literal } from './shown-diff.ts';
import { signHead } from './sign.ts';
import { type ParsedStatus, parseStatus, type StatusEntry } from './status-output.ts';

const MESSAGE_CHARS_MAX = 64 * 1024;
const FILES_MAX = 100;

export default defineTool({
  name: 'git_commit',
  title: 'Commit changes',
  summary: "Commit changes to git, in the person's name. Hooks are not run.",
  dependencies: ['file_write', 'file_edit', 'file_multi_edit', 'git_status', 'git_diff'],
  notes:
    "The name is the repository's `user.name` and `user.email`, else the person's. Filters such as LFS are refused.",
  capabilities: [{ action: 'commit', description: 'Commits named files, or all changes of tracked files.' }],
  category: 'development',
  tier: 'write',
  runs: { in: 'command', signs: true },
  initialize: assertGit,
  healthCheck: gitHealth,
  effects: ({ files }) => [
    ...(namedIn(files) ?? ['.']).map((target) => ({ kind: 'read', target }) as const),
    { kind: 'write', target: '.git' },
  ],
  input: z.strictObject({
    message: z
      .string()
      .min(1)
      .max(MESSAGE_CHARS_MAX)
      .refine((it) => it.trim() !== '' && !it.includes('\0'), 'must say something, without NUL bytes')
      .describe('Its message.'),
    files: z
      .array(workspacePath())
      .max(FILES_MAX)
      .optional()
      .describe('Commit only these, new ones too (default: all changed tracked files).'),
    path: workspacePath('In the repository.').default('.'),
  }),
  output: z.strictObject({
    commitHash: z.string(),
    filesChanged: z.int().nonnegative(),
    insertions: z.int().nonnegative(),
    deletions: z.int().nonnegative(),
    hidden: z.array(z.string()).describe('Files that the policy hides; the commit leaves them out.'),
    signed: z.boolean(),
  }),
  examples: [
    { input: { message: 'Add it', files: ['.repo/a.txt'] }, error: 'CONFLICT' },
    {
      input: { message: 'Add it', files: ['.repo/new.txt'] },
      output: { filesChanged: 1, insertions: 1, deletions: 0 },
    },
    { input: { message: 'All of it' }, error: 'NOT_FOUND' },
    { input: { message: 'x', files: ['.env'] }, error: 'SENSITIVE_FILE' },
  ],
  spellings: { names: { projectPath: 'path' } },

  async run({ message, files: given, path }, ctx) {
    const files = namedIn(given);
    assertBelow(path, files ?? []);
    const repository = findRepository(ctx, files?.[0] ?? path);
    const git = new Git(ctx, repository);
    const env = identityOf(await git.config(), ctx);
    if (repository.includes)
      throw new ToolError('UNSUPPORTED', 'the config of this repository includes files that could change meanwhile', {
        suggestion: 'Run `git commit` with terminal_execute.',
        details: { reason: 'included-config' },
      });
    const own = files?.map((it) => pathIn(repository, it)) ?? [];
    const status = await statusOf(git, own);
    if (status.changed.length + status.untracked.length === 0) await assertNoneIgnored(git, own);
    const hidden = await committable(status, { ctx, repository, files });
    const excluded = hidden.map((it) => literal(it, 'exclude,'));
    await assertUnfiltered(git, status);
    const specs = (names: readonly string[]) => names.map((it) => (it === '' ? '.' : literal(it)));
    const paths = [...specs(own), ...excluded];
    // Checked before anything is added: `git add` would drop the file from the index, which has the only copy of its content.
    const gone = own.findIndex((it) => isNewAndGone(it, status));
    if (gone >= 0)
      throw conflict(
        'nothing-to-commit',
        `\`${files?.[gone]}\` is staged as new, and is no longer there`,
        'Write it again, or unstage it.',
      );
    const toAdd = own.filter((it) => !isStagedAway(it, status));
    if (!files) await git.run(['add', '-u', '--', '.', ...excluded]);
    else if (toAdd.length > 0) await git.run(['add', '--', ...specs(toAdd), ...excluded]);
    const isStaged = (name: string) => status.changed.some((it) => it.path === name && it.staged !== '.');
    const mayWhole = own.includes('') && !hidden.some(isStaged);
    await commit(git, { message, env, paths: files ? paths : [], mayWhole });
    const left = new Set([
      ...hidden.map((it) => pathOf(repository, it)),
      ...git.hiddenBelow(files ?? [repository.root]),
    ]);
    const signed = await signHead(ctx, git, message);
    return { ...(await numbersOf(git)), hidden: [...left], signed };
  },
});

/** An empty list means the same as no list. */
const namedIn = (files: readonly string[] | undefined): readonly string[] | undefined =>
  files && files.length > 0 ? files : undefined;

/** Throws INPUT_INVALID for a file outside `path`, such as one named relative to `path`: it could be in another repository. */
function assertBelow(path: string, files: readonly string[]): void {
  const folder = normalize(path).replace(/\/$/, '');
  const astray = files.find((it) => !isBelow(folder, normalize(it).replace(/\/$/, '')));
  if (astray === undefined) return;
  throw new ToolError(
    'INPUT_INVALID',
    `\`${astray}\` is not in \`${path}\`; files are relative to the workspace root`,
    {
      suggestion: `If you mean \`${folder}/${astray}\`, write that.`,
    },
  );
}

async function statusOf(git: Git, paths: readonly string[]): Promise<ParsedStatus> {
  const options = ['--porcelain=v2', '-z', '--branch', '--no-renames', '--ignore-submodules=dirty'];
  const untracked = `--untracked-files=${paths.length > 0 ? 'all' : 'no'}`;
  const specs = paths.includes('') ? [] : paths.map((it) => literal(it));
  const { stdout, cut } = await git.run(['status', ...options, untracked, '--', ...specs]);
  if (cut) throw new ToolError('OUTPUT_LIMIT', 'too many files changed to check them all; name the files to commit');
  return parseStatus(stdout);
}

/** Throws CONFLICT for ignored files: git reports no changes of these. */
async function assertNoneIgnored(git: Git, names: readonly string[]): Promise<void> {
  const { stdout } = await git.try(['check-ignore', '-z', '--stdin'], { stdin: names.filter(Boolean).join('\0') });
  const [first] = stdout.toString('utf8').split('\0');
  if (first)
    throw conflict(
      'ignored',
      `\`${pathOf(git.repository, first)}\` is ignored, by .gitignore or as it`,
      'Where it is wanted all the same: `git add -f` by terminal_execute.',
    );
}

/** Whether all changes at the path are staged deletions (`git mv`, `git rm`): `git add` knows no such file any more. */
function isStagedAway(path: string, status: ParsedStatus): boolean {
  return isAll(path, status, (it) => it.staged === 'D' && it.unstaged === '.');
}

/** Whether the change is in the index only: git can't commit a new file that is gone from the work tree. */
function isNewAndGone(path: string, status: ParsedStatus): boolean {
  return path !== '' && isAll(path, status, (it) => it.path === path && it.staged === 'A' && it.unstaged === 'D');
}

function isAll(path: string, { changed, untracked }: ParsedStatus, isSo: (entry: StatusEntry) => boolean): boolean {
  const own = changed.filter((it) => isBelow(path, it.path));
  return own.length > 0 && !untracked.some((it) => isBelow(path, it)) && own.every(isSo);
}

/** The files to leave out of the commit. Throws CONFLICT and POLICY_DENIED if nothing can be committed. */
async function committable(
  { branch, conflicted, changed, untracked }: ParsedStatus,
  { ctx, repository, files }: { ctx: ToolContext; repository: Repository; files: readonly string[] | undefined },
): Promise<string[]> {
  if (conflicted.length > 0)
    throw conflict(
      'conflicts',
      `${conflicted.length} files are in conflict, such as \`${conflicted[0]}\``,
      'Resolve and stage them.',
    );
  if (branch === undefined && isRebasing(ctx, repository))
    throw conflict(
      'rebase-in-progress',
      'a rebase is under way, whose commits git makes itself',
      'Go on with it by terminal_execute: `git rebase --continue`.',
    );
  if (branch === undefined)
    throw conflict(
      'detached-head',
      'HEAD is detached, so that a commit would be on no branch',
      'Make one with git_branch, and switch to it.',
    );
  const names = [...changed.map((it) => it.path), ...untracked];
  const hidden = await refusedAmong(names, ctx, { repository, isRefused: refusedIn(files ?? ['.'], ctx) });
  const staged = files === undefined ? changed.find((it) => it.staged !== '.' && hidden.has(it.path)) : undefined;
  if (staged)
    throw new ToolError(
      'POLICY_DENIED',
      `\`${pathOf(repository, staged.path)}\` is staged, and the policy refuses it`,
      {
        suggestion: 'Name the files to commit, or ask the person to unstage it.',
        details: { reason: 'refused-file-staged' },
      },
    );
  if (hidden.size === names.length)
    throw conflict(
      'nothing-to-commit',
      'there is nothing to commit: no such file changed',
      'New files are committed by name.',
    );
  return [...hidden];
}

/** Tests for refused paths. A person who approved a named path approved what is below it, too. */
function refusedIn(files: readonly string[], ctx: ToolContext): (path: string) => boolean {
  const roots = files.map((it) => ({ root: normalize(it).replace(/\/$/, ''), isRefused: ctx.refusedBelow(it) }));
  return (path) => !roots.some(({ root, isRefused }) => isBelow(root, path) && !isRefused(path));
}

const conflict = (reason: string, message: string, suggestion: string): ToolError =>
  new ToolError('CONFLICT', message, { suggestion, details: { reason } });

/** Git variables for the author and committer that the repository's config lacks. Throws AUTH_REQUIRED if nobody knows them. */
function identityOf(config: readonly [string, string][], { identity }: ToolContext): Record<string, string> {
  const said = new Map(config);
  const env: Record<string, string> = {};
  for (const who of ['author', 'committer'] as const) {
    for (const part of ['name', 'email'] as const) {
      if (said.get(`${who}.${part}`) || said.get(`user.${part}`)) continue;
      const own = identity[part];
      if (own === undefined)
        throw new ToolError('AUTH_REQUIRED', `the author of the commit is unknown: git has no user.${part}`, {
          suggestion: `Ask the person to run \`git config --global user.${part} …\` and to restart the daemon.`,
          details: { reason: 'no-identity', key: `user.${part}` },
        });
      env[`GIT_${who.toUpperCase()}_${part.toUpperCase()}`] = own;
    }
  }
  return env;
}

/** Throws if a filter would change the stored content, such as LFS, which stores a pointer for a large file. */
async function assertUnfiltered(git: Git, { changed, untracked }: ParsedStatus): Promise<void> {
  const paths = [...changed.map((it) => it.path), ...untracked];
  const { stdout } = await git.run(['check-attr', '-z', '--stdin', 'filter'], {
    stdin: paths.map((it) => `${it}\0`).join(''),
  });
  const fields = stdout.toString('utf8').split('\0');
  for (let at = 0; at + 2 < fields.length; at += 3) {
    if (['unspecified', 'unset'].includes(fields[at + 2] as string)) continue;
    throw new ToolError(
      'UNSUPPORTED',
      `\`${fields[at]}\` goes through the filter \`${fields[at + 2]}\`, whose program is not run here`,
      {
        suggestion: 'Run `git commit` with terminal_execute.',
        details: { reason: 'filter' },
      },
    );
  }
}

interface CommitOptions {
  readonly message: string;
  readonly env: Readonly<Record<string, string>>;
  /** Empty for all that is staged. */
  readonly paths: readonly string[];
  /** Whether the paths are the whole repository, so that committing all that is staged is the same. */
  readonly mayWhole?: boolean;
}

async function commit(git: Git, { message, env, paths, mayWhole = false }: CommitOptions): Promise<void> {
  const only = paths.length > 0 ? ['--only', '--', ...paths] : [];
  const options = ['--quiet', '--file=-', '--no-verify', '--no-gpg-sign', '--cleanup=whitespace', '--no-edit'];
  const { exitCode, stderr, stdout } = await git.try(['commit', ...options, ...only], { stdin: message, env });
  if (exitCode === 0) return;
  if (/partial commit during/.test(stderr)) {
    if (mayWhole) return commit(git, { message, env, paths: [] });
    const { root } = git.repository;
    const how = root === '' ? 'Leave out files.' : `Name all of the repository as files: ["${root}"].`;
    throw conflict('merge-in-progress', 'a merge is under way, and is committed as a whole', how);
  }
  if (/nothing to commit|nothing added|no changes added/.test(stdout.toString()))
    throw conflict('nothing-to-commit', 'there is nothing to commit', 'See git_status.');
  throw failure(stderr);
}

async function numbersOf(git: Git) {
  const options = ['--no-ext-diff', '--no-textconv', '--diff-merges=first-parent', '--no-renames', '--numstat', '-z'];
  const { stdout } = await git.run([
    'show',
    '--no-show-signature',
    '--no-notes',
    '--format=%H%x00',
    ...options,
    'HEAD',
    '--',
  ]);
  const end = stdout.indexOf(0);
  let from = end;
  while (stdout[from] === 0 || stdout[from] === 10) from += 1;
  const { files } = parseDiff(stdout, from);
  return {
    commitHash: stdout.toString('utf8', 0, end),
    filesChanged: files.length,
    insertions: files.reduce((sum, it) => sum + it.additions, 0),
    deletions: files.reduce((sum, it) => sum + it.deletions, 0),
  };
}
