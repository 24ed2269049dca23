import * as z from 'zod';
import { type Code, ToolError } from '../../base/errors.ts';
import { defineTool, type ToolContext, workspacePath } from '../tool.ts';
import { parseDiff } from './diff-output.ts';
import { failure, Git } from './git.ts';
import { assertGit, gitHealth } from './installed.ts';
import { branchOf, findRepository, pathOf } from './repository.ts';
import { revision } from './revision.ts';

const input = z.strictObject({
  action: z.enum(['list', 'create', 'switch', 'delete']).default('list').describe('What to do.'),
  name: revision(
    'Name of the branch; for all but list.',
    'the name of a branch, without spaces and : ^ ? * [',
  ).optional(),
  path: workspacePath('A path in the repository.').default('.'),
});

export default defineTool({
  name: 'git_branch',
  title: 'Branches',
  summary:
    'List, create, switch to or delete local branches of a git repository. create does not switch; delete takes only what is merged.',
  notes: 'A new branch begins at HEAD. switch refuses to overwrite changes, and files that the policy protects.',
  capabilities: [
    { action: 'list', description: 'Lists local branches.' },
    { action: 'create', description: 'Creates a branch at HEAD.' },
    { action: 'switch', description: 'Switches the work tree to a branch.' },
    { action: 'delete', description: 'Deletes a merged branch.' },
  ],
  category: 'development',
  tier: 'write',
  tiers: { of: ({ action }) => (action === 'list' ? 'read_only' : 'write') },
  runs: { in: 'command' },
  initialize: assertGit,
  healthCheck: gitHealth,
  destructive: true,
  effects: ({ action, name = '', path }) => {
    if (action === 'list') return [{ kind: 'read', target: path }];
    if (action === 'switch') return [{ kind: 'write', target: path }];
    return [{ kind: action === 'delete' ? 'delete' : 'write', target: `${path}/.git/refs/heads/${name}` }];
  },
  input,
  output: z.strictObject({
    branches: z.array(z.strictObject({ name: z.string(), current: z.boolean() })),
    currentBranch: z.string().nullable().describe('null when HEAD is detached.'),
    truncated: z.boolean(),
  }),
  examples: [
    {
      input: { action: 'list', path: '.repo' },
      output: { branches: [{ name: 'main', current: true }], currentBranch: 'main' },
    },
    { input: { action: 'switch', name: 'nowhere', path: '.repo' }, error: 'NOT_FOUND' },
    { input: { action: 'create', name: 'main', path: '.repo' }, error: 'ALREADY_EXISTS' },
    { input: { action: 'create' }, error: 'INPUT_INVALID' },
  ],
  spellings: { names: { projectPath: 'path' } },

  async run({ action, name, path }, ctx) {
    if (action !== 'list' && name === undefined)
      throw new ToolError('INPUT_INVALID', `${action} needs the name of a branch`);
    const repository = findRepository(ctx, path);
    const git = new Git(ctx, repository);
    if (action !== 'list') await change(action, { name: name as string, git, ctx });
    const { gitEntriesMax } = ctx.limits;
    const format = ['--format=%(refname:lstrip=2)', `--count=${gitEntriesMax + 1}`];
    const { stdout } = await git.run(['for-each-ref', ...format, 'refs/heads/']);
    const names = stdout.toString('utf8').split('\n').slice(0, -1);
    const current = branchOf(ctx, repository);
    return {
      branches: names.slice(0, gitEntriesMax).map((it) => ({ name: it, current: it === current })),
      currentBranch: current ?? null,
      truncated: names.length > gitEntriesMax,
    };
  },
});

interface BranchContext {
  readonly name: string;
  readonly git: Git;
  readonly ctx: ToolContext;
}

async function change(action: 'create' | 'switch' | 'delete', { name, git, ctx }: BranchContext): Promise<void> {
  if (git.repository.includes)
    throw new ToolError('UNSUPPORTED', 'the config of this repository includes files that could change meanwhile', {
      suggestion: 'Run git with terminal_execute.',
      details: { reason: 'included-config' },
    });
  const checked = await git.try(['check-ref-format', `refs/heads/${name}`]);
  if (checked.exitCode !== 0 || name === 'HEAD')
    throw new ToolError('INPUT_INVALID', `\`${name}\` can't be the name of a branch`);
  if (action === 'create') return act(git, ['branch', '--no-track', '--end-of-options', name]);
  if (action === 'delete') return act(git, ['branch', '-d', '--end-of-options', name]);
  await assertMaySwitch(git, `refs/heads/${name}`, ctx);
  return act(git, [
    'switch',
    '--quiet',
    '--no-guess',
    '--no-recurse-submodules',
    '--no-progress',
    '--end-of-options',
    name,
  ]);
}

/** Requires that the caller may write everything that the switch changes: masked files would stop git half way. */
export async function assertMaySwitch(git: Git, branch: string, ctx: ToolContext): Promise<void> {
  const name = branch.replace(/^refs\/(?:heads|remotes)\//, '');
  const { exitCode } = await git.try(['show-ref', '--verify', '--quiet', branch]);
  if (exitCode !== 0) throw notThere(name);
  const options = ['-r', '-z', '--raw', '--no-renames'];
  const { stdout, cut } = await git.run([
    'diff-tree',
    ...options,
    '--end-of-options',
    'HEAD^{tree}',
    `${branch}^{tree}`,
    '--',
  ]);
  const isRefused = [ctx.refusedBelow('.'), ctx.refusedBelow('.', 'write')];
  const refused = parseDiff(stdout)
    .names.map((it) => pathOf(git.repository, it))
    .find((it) => isRefused.some((test) => test(it)));
  if (cut || refused !== undefined)
    throw new ToolError(
      'POLICY_DENIED',
      `switching to \`${name}\` would change ${refused === undefined ? 'too many files' : `\`${refused}\`, which the policy refuses`}`,
      {
        suggestion: 'Ask the person to switch.',
        details: { reason: 'refused-file' },
      },
    );
}

const notThere = (name: string): ToolError =>
  new ToolError('NOT_FOUND', `there is no branch \`${name}\``, {
    suggestion: 'List the branches with action list.',
    details: { reason: 'unknown-branch' },
  });

/** Git's refusals as our error codes. */
const REFUSALS: readonly [RegExp, Code, reason: string, suggestion: string][] = [
  [
    / exists; cannot create /,
    'CONFLICT',
    'branch-in-the-way',
    'No branch can lie below another one; take another name.',
  ],
  [/already exists/, 'ALREADY_EXISTS', 'branch-exists', 'Switch to it, or take another name.'],
  [/not fully merged/, 'CONFLICT', 'not-merged', 'Merge it first; its commits would be lost.'],
  [/checked out at|used by worktree|already used/, 'CONFLICT', 'checked-out', 'Switch to another branch first.'],
  [/would be overwritten/, 'CONFLICT', 'local-changes', 'Commit the changes first.'],
  [
    /resolve your current index first|cannot switch branch while/,
    'CONFLICT',
    'in-progress',
    'End the merge or rebase first.',
  ],
  [/not a valid object name|Not a valid object name/, 'NOT_FOUND', 'no-commits', 'Commit something first.'],
];

async function act(git: Git, args: readonly string[]): Promise<void> {
  const { exitCode, stderr } = await git.try(args);
  if (exitCode === 0) return;
  const name = args.at(-1) as string;
  if (/branch '.*' not found/.test(stderr)) throw notThere(name);
  const refusal = REFUSALS.find(([pattern]) => pattern.test(stderr));
  if (!refusal) throw failure(stderr);
  const [, code, reason, suggestion] = refusal;
  const [said = '', ...rest] = stderr.trim().split('\n');
  // The files concerned, one a line.
  const files = rest.filter((it) => it.startsWith('\t')).map((it) => it.trim());
  const why = [said, files.join(', ')].filter(Boolean).join(' ').slice(0, 400);
  throw new ToolError(code, `git refuses this for \`${name}\`: ${why}`, {
    suggestion,
    details: { reason },
  });
}
