import * as z from 'zod';
import { ToolError } from '../../base/errors.ts';
import { defineTool, type ToolContext, workspacePath } from '../tool.ts';
import { failure, Git } from './git.ts';
import { connectTo, exchange, reachesRemote, resolved } from './remote.ts';
import { findRepository, type Repository } from './repository.ts';
import { revision } from './revision.ts';

const UPDATED_MAX = 1000;

export const fetched = {
  remote: revision('The remote.', 'the name of a remote').default('origin'),
  branch: revision('Only this branch.', 'the name of a branch').optional(),
  url: z.string().max(2048).optional().describe('URL of the server (default: that of the remote).'),
  path: workspacePath('In the repository.').default('.'),
};

export default defineTool({
  ...reachesRemote,
  name: 'git_fetch',
  title: 'Fetch commits',
  summary:
    "Fetch branches and tags from the repository's server by https or ssh, with the person's key, which you never see. Changes no branch and no file of yours.",
  notes:
    "A remote by ssh is reached with the keys of the person's ssh agent, or by https at the same host. Submodules and objects of LFS are not fetched.",
  isExtra: true,
  capabilities: [{ action: 'fetch', description: 'Gets new commits of the server.' }],
  runs: { in: 'command', connects: ({ url = '' }) => [url], remotePrograms: ['git-upload-pack'] },
  before: { resolve: (wanted, ctx) => resolved(wanted, ctx) },
  effects: ({ url }) => [...connectTo(url), { kind: 'write', target: '.git' }],
  input: z.strictObject({
    ...fetched,
    prune: z.boolean().default(false).describe('Forget branches that the server has no more.'),
  }),
  output: z.strictObject({
    url: z.string(),
    updated: z.array(z.strictObject({ ref: z.string(), from: z.string().nullable(), to: z.string().nullable() })),
  }),
  examples: [{ input: { path: '.repo' }, error: 'NOT_FOUND' }],

  async run({ url = '', remote, branch, prune, path }, ctx) {
    const repository = findRepository(ctx, path);
    return { url, updated: await fetchInto(ctx, repository, { url, remote, branch, prune }) };
  },
});

interface Wanted {
  readonly url: string;
  readonly remote: string;
  readonly branch: string | undefined;
  readonly prune: boolean;
}

/** Gets what the server has, and moves the remote's refs here; gives those that are other than before. */
export async function fetchInto(ctx: ToolContext, repository: Repository, { url, remote, branch, prune }: Wanted) {
  const git = new Git(ctx, repository);
  const kinds = ['refs/heads/', 'refs/remotes/', 'refs/tags/'];
  const { stdout } = await git.run(['for-each-ref', '--format=%(objectname) %(refname)', ...kinds]);
  const refs = stdout.toString('utf8');
  const own = `refs/remotes/${remote}/`;
  const spec = branch === undefined ? `+refs/heads/*:${own}*` : `+refs/heads/${branch}:${own}${branch}`;
  const words = [
    'fetch',
    '--quiet',
    '--no-recurse-submodules',
    '--no-auto-maintenance',
    ...(prune ? ['--prune'] : []),
    spec,
  ];
  const { report } = await exchange(ctx, repository, { url, words, refs });
  const [before, after] = [refs, report.slice(report.indexOf('\n') + 1)].map(tableOf) as [
    Map<string, string>,
    Map<string, string>,
  ];
  const isOurs = (ref: string) => (ref.startsWith(own) && ref !== `${own}HEAD`) || ref.startsWith('refs/tags/');
  const moved = [...new Set([...before.keys(), ...after.keys()])]
    .filter((it) => isOurs(it) && before.get(it) !== after.get(it))
    .map((ref) => ({ ref, from: before.get(ref) ?? null, to: after.get(ref) ?? null }));
  if (moved.length > UPDATED_MAX)
    throw new ToolError(
      'OUTPUT_LIMIT',
      `the server has ${moved.length} other refs; at most ${UPDATED_MAX} are taken at once`,
      {
        suggestion: 'Name the branch.',
      },
    );
  const lines = moved.map(({ ref, from, to }) => (to === null ? `delete ${ref} ${from}` : `update ${ref} ${to}`));
  const noted = await git.try(['update-ref', '--stdin'], { stdin: lines.map((it) => `${it}\n`).join('') });
  if (noted.exitCode !== 0) throw failure(noted.stderr);
  return moved;
}

/** Commits by the names of their refs. */
const tableOf = (text: string): Map<string, string> =>
  new Map(
    text.split('\n').flatMap((it) => {
      const [, id, ref] = /^([0-9a-f]{40,64}) (refs\/\S+)$/.exec(it) ?? [];
      return id !== undefined && ref !== undefined ? [[ref, id] as const] : [];
    }),
  );
