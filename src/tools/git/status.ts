import * as z from 'zod';
import { rare } from '../rare-parameters.ts';
import { defineTool, workspacePath } from '../tool.ts';
import { Git } from './git.ts';
import { readsRepository } from './installed.ts';
import { refusedAmong } from './refused.ts';
import { findRepository, pathIn, pathOf } from './repository.ts';
import { literal } from './shown-diff.ts';
import { parseStatus } from './status-output.ts';

const paths = (description: string) => z.array(z.string()).describe(description);

export default defineTool({
  ...readsRepository,
  name: 'git_status',
  title: 'Status of a repository',
  summary: 'Tell the branch of the git repository at a path, and what is staged, changed, untracked or in conflict.',
  notes: 'At most 2 000 names of each kind, relative to the workspace. A submodule is asked by its own path.',
  capabilities: [
    {
      action: 'status',
      description: 'Tells the branch and which files are staged, changed, untracked or in conflict.',
    },
  ],
  input: z.strictObject({
    path: workspacePath('Only below.').default('.'),
    includeUntracked: rare(z.boolean().default(true).describe('Also list untracked files.')),
  }),
  output: z.strictObject({
    branch: z.string().nullable().describe('null when HEAD is detached.'),
    head: z.string().nullable().describe('Hash of the commit; null before the first one.'),
    upstream: z.string().nullable(),
    ahead: z.int().nonnegative(),
    behind: z.int().nonnegative(),
    staged: paths('Changed in the index against HEAD.'),
    unstaged: paths('Changed in the work tree against the index.'),
    untracked: paths('Not known to git; a directory of such files ends with /.'),
    conflicted: paths('In a merge that is not resolved.'),
    deleted: paths('Of those staged or unstaged: gone.'),
    renamed: z.array(z.strictObject({ from: z.string(), to: z.string() })),
    hidden: paths('Known to git, and hidden by the policy: whether they changed can not be told.'),
    clean: z.boolean().describe('Nothing staged, changed, untracked or in conflict.'),
    truncated: z.boolean(),
  }),
  examples: [
    { input: { path: '.repo' }, output: { branch: 'main', staged: [], untracked: ['.repo/new.txt'], clean: false } },
    { input: { path: 'docs' }, error: 'NOT_FOUND' },
    { input: { path: '../other' }, error: 'ACCESS_DENIED' },
    { input: { path: '.env' }, error: 'SENSITIVE_FILE' },
  ],

  async run({ path, includeUntracked }, ctx) {
    const repository = findRepository(ctx, path);
    const git = new Git(ctx, repository);
    const own = pathIn(repository, path);
    const { stdout, cut } = await git.run([
      ...[
        'status',
        '--porcelain=v2',
        '-z',
        '--branch',
        '--ahead-behind',
        '--find-renames',
        '--ignore-submodules=dirty',
      ],
      `--untracked-files=${includeUntracked ? 'normal' : 'no'}`,
      ...['--', ...(own === '' ? [] : [literal(own)])],
    ]);
    const { head, branch, upstream, ahead, behind, ...found } = parseStatus(stdout);
    const names = found.changed.map((it) => it.path);
    const refused = await refusedAmong(names, ctx, { repository, isRefused: ctx.refusedBelow(path) });
    const { gitEntriesMax } = ctx.limits;
    let truncated = cut;
    const shown = (names: readonly string[]) => {
      truncated ||= names.length > gitEntriesMax;
      return names.slice(0, gitEntriesMax).map((it) => pathOf(repository, it));
    };
    const isHidden = (name: string) => refused.has(name);
    const staged = found.changed.filter((it) => it.staged !== '.');
    const unstaged = found.changed.filter((it) => it.unstaged !== '.');
    const seen = unstaged.filter((it) => !isHidden(it.path));
    const deleted = [...staged.filter((it) => it.staged === 'D'), ...seen.filter((it) => it.unstaged === 'D')];
    const lists = { staged, unstaged: seen, untracked: found.untracked, conflicted: found.conflicted };
    const changedHidden = shown(unstaged.map((it) => it.path).filter(isHidden));
    const renamed = found.changed.filter((it) => it.from !== undefined).slice(0, gitEntriesMax);
    return {
      branch: branch ?? null,
      head: head ?? null,
      upstream: upstream ?? null,
      ahead,
      behind,
      staged: shown(staged.map((it) => it.path)),
      unstaged: shown(seen.map((it) => it.path)),
      untracked: shown(found.untracked),
      conflicted: shown(found.conflicted),
      deleted: shown([...new Set(deleted.map((it) => it.path))]),
      renamed: renamed.map((it) => ({ from: pathOf(repository, it.from as string), to: pathOf(repository, it.path) })),
      hidden: [...new Set([...changedHidden, ...git.hiddenBelow([path])])].slice(0, gitEntriesMax),
      clean: !cut && Object.values(lists).every((it) => it.length === 0),
      truncated,
    };
  },
});
