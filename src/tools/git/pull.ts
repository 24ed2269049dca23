import * as z from 'zod';
import { ToolError } from '../../base/errors.ts';
import { defineTool } from '../tool.ts';
import { assertMaySwitch } from './branch.ts';
import { fetched, fetchInto } from './fetch.ts';
import { failure, Git } from './git.ts';
import { connectTo, reachesRemote, resolved } from './remote.ts';
import { branchOf, findRepository } from './repository.ts';

export default defineTool({
  ...reachesRemote,
  name: 'git_pull',
  title: 'Pull commits',
  summary:
    "Fetch a branch from the repository's server by https or ssh, with the person's key, and move the current branch and its files forward to it. Never merges: where both have commits, it says so.",
  notes: 'Then merge or rebase by terminal_execute; `git merge origin/main` needs no network.',
  isExtra: true,
  capabilities: [{ action: 'pull', description: 'Moves the current branch forward to what the server has.' }],
  destructive: true,
  runs: { in: 'command', connects: ({ url = '' }) => [url], remotePrograms: ['git-upload-pack'] },
  before: { resolve: (wanted, ctx) => resolved(wanted, ctx) },
  effects: ({ url, path }) => [...connectTo(url), { kind: 'write', target: path }],
  input: z.strictObject(fetched),
  output: z.strictObject({
    url: z.string(),
    branch: z.string(),
    from: z.string(),
    to: z.string().describe('The commit that the branch has now.'),
  }),
  examples: [{ input: { path: '.repo' }, error: 'NOT_FOUND' }],

  async run({ url = '', remote, branch, path }, ctx) {
    const repository = findRepository(ctx, path);
    const current = branchOf(ctx, repository);
    if (current === undefined)
      throw new ToolError('CONFLICT', 'HEAD is detached, so there is no branch to move', {
        details: { reason: 'detached-head' },
      });
    if (repository.includes)
      throw new ToolError('UNSUPPORTED', 'the config of this repository includes files that could change meanwhile', {
        suggestion: 'Fetch with git_fetch, and merge with terminal_execute.',
        details: { reason: 'included-config' },
      });
    const theirs = branch ?? current;
    await fetchInto(ctx, repository, { url, remote, branch: theirs, prune: false });
    const git = new Git(ctx, repository);
    const head = async () =>
      (await git.run(['rev-parse', '--verify', '--quiet', 'HEAD'])).stdout.toString('utf8').trim();
    const from = await head();
    const target = `refs/remotes/${remote}/${theirs}`;
    await assertMaySwitch(git, target, ctx);
    const { exitCode, stderr } = await git.try(['merge', '--ff-only', '--no-verify', '--quiet', '--no-stat', target]);
    if (exitCode !== 0)
      throw /Not possible to fast-forward|Diverging|divergent/i.test(stderr)
        ? diverged(remote, theirs)
        : failure(stderr);
    return { url, branch: current, from, to: await head() };
  },
});

const diverged = (remote: string, branch: string): ToolError =>
  new ToolError('CONFLICT', `both your branch and \`${remote}/${branch}\` have commits that the other lacks`, {
    suggestion: `Merge or rebase by terminal_execute: git merge ${remote}/${branch}. That needs no network.`,
    details: { reason: 'diverged' },
  });
