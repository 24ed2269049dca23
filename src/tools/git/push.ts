import * as z from 'zod';
import { ToolError } from '../../base/errors.ts';
import { rare } from '../rare-parameters.ts';
import { defineTool, type ToolContext, workspacePath } from '../tool.ts';
import { Git } from './git.ts';
import { type Outgoing, outgoingOf } from './outgoing.ts';
import { connectTo, exchange, reachesRemote, resolved, said } from './remote.ts';
import { branchOf, findRepository, type Repository } from './repository.ts';
import { commitOf, revision } from './revision.ts';

const TAGS_MAX = 20;
/** Refs of a server that are looked at; with more of them, more seems to leave than does. */
const SERVER_REFS_MAX = 20_000;

const input = z.strictObject({
  remote: rare(revision('The remote.', 'the name of a remote').default('origin')),
  branch: revision('Local branch (default: the current one).', 'the name of a branch').optional(),
  as: rare(revision('Its name at the remote (default: the same).', 'the name of a branch').optional()),
  tags: rare(
    z.array(revision('A tag.', 'the name of a tag')).max(TAGS_MAX).default([]).describe('Tags to send with it.'),
  ),
  force: z.boolean().default(false).describe('Replace the branch there, if nothing came since the last fetch.'),
  withSecrets: rare(z.boolean().default(false).describe('Send commits in which secrets were found.')),
  url: rare(z.string().max(2048).optional().describe('URL of the server (default: that of the remote).')),
  path: rare(workspacePath('In the repository.').default('.')),
});

type Input = z.output<typeof input>;

/** What leaves, and where it goes: what a person has said yes to. */
interface Plan {
  readonly refs: readonly { readonly from: string; readonly to: string }[];
  /** The commit that a forced push may replace. */
  readonly replaces: string | undefined;
  /** How many commits go out. */
  readonly total: number;
}

export default defineTool({
  ...reachesRemote,
  name: 'git_push',
  title: 'Push',
  summary: "Push a branch with the person's key, which you never see. They see the commits first.",
  notes:
    "Commits that hold secrets are refused. Hooks, LFS and submodules are not pushed. A remote by ssh is reached with the keys of the person's ssh agent, or by https at the same host. " +
    'For https the key is the secret that is bound to the host: `ringfence secret set github --host github.com`. ' +
    '`force` takes back nothing that was not fetched before. docs/how-to/push.md',
  capabilities: [{ action: 'push', description: 'Sends commits and tags to the server of a repository.' }],
  destructive: true,
  runs: { in: 'command', connects: ({ url = '' }) => [url], remotePrograms: ['git-upload-pack', 'git-receive-pack'] },
  dependencies: ['git_commit'],
  before: {
    async resolve(wanted, ctx) {
      const branch = wanted.branch ?? currentBranch(ctx, wanted.path);
      return (await resolved(wanted, ctx)).map((it) => ({ ...it, branch, as: wanted.as ?? branch }));
    },
    async prepare(wanted, ctx) {
      const repository = findRepository(ctx, wanted.path);
      const git = new Git(ctx, repository);
      const { plan, out } = await planOf(git, wanted);
      if (out.secrets.length > 0 && !wanted.withSecrets) throw holdsSecrets(out);
      const diff = shown(wanted, plan, out);
      return { plan, hash: ctx.hashOf(Buffer.from(JSON.stringify([wanted.url, plan]))), diff, preImages: [] };
    },
  },
  effects: ({ url, path }) => [...connectTo(url), { kind: 'read', target: path }, { kind: 'write', target: '.git' }],
  // Rules about what publishes, and what may be remembered of a yes, hold for the call as for the command that a person would type.
  commandOf: ({ url, remote, branch = 'HEAD', as, tags, force, path }) => ({
    command: [
      'git',
      'push',
      ...(force ? ['--force-with-lease'] : []),
      url ?? remote,
      `${branch}:${as ?? branch}`,
      ...tags,
    ]
      .map((it) => `'${it.replaceAll("'", "'\\''")}'`)
      .join(' '),
    cwd: path,
    env: {},
  }),
  input,
  output: z.strictObject({
    url: z.string(),
    pushed: z.array(z.strictObject({ ref: z.string(), commit: z.string() })),
    said: z.string().describe('What the server said.'),
  }),
  examples: [{ input: { path: '.repo' }, error: 'NOT_FOUND' }],

  async run({ url = '', remote, path }, ctx) {
    const repository = findRepository(ctx, path);
    const { plan } = ctx.planned as { plan: Plan };
    await assertShown(ctx, repository, { url, plan });
    const lease = plan.refs.slice(0, 1).map(({ to }) => `--force-with-lease=${to}:${plan.replaces ?? ''}`);
    const words = [
      ...['push', '--porcelain', '--no-verify', '--no-signed'],
      ...(plan.replaces === undefined ? [] : lease),
      ...plan.refs.map(({ from, to }) => `${from}:${to}`),
    ];
    const { report, stderr, exitCode } = await exchange(ctx, repository, { url, words });
    if (exitCode !== 0) throw rejected(`${report}\n${stderr}`);
    await noteAt(new Git(ctx, repository), plan, remote);
    const pushed = plan.refs.map(({ from, to }) => ({ ref: to, commit: from }));
    return { url, pushed, said: said(stderr) };
  },
});

async function planOf(
  git: Git,
  { branch: name = '', as: to = name, tags, force, remote }: Input,
): Promise<{ plan: Plan; out: Outgoing }> {
  const idOf = async (it: string) =>
    (await git.run(['rev-parse', '--verify', '--quiet', '--end-of-options', it])).stdout.toString('utf8').trim();
  const head = await idOf(commitOf(`refs/heads/${name}`));
  const tracked = await git.try(['rev-parse', '--verify', '--quiet', `refs/remotes/${remote}/${to}`]);
  const there = tracked.exitCode === 0 ? tracked.stdout.toString('utf8').trim() : undefined;
  const known = there === undefined ? await commonWith(git, remote) : [there];
  const refs = [
    { from: head, to: `refs/heads/${to}` },
    ...(await Promise.all(tags.map(async (it) => ({ from: await idOf(`refs/tags/${it}`), to: `refs/tags/${it}` })))),
  ];
  if (force && there === undefined)
    throw new ToolError(
      'CONFLICT',
      `nothing was fetched of \`${remote}/${to}\`, so what would be replaced is unknown`,
      {
        suggestion: 'Call git_fetch first.',
        details: { reason: 'not-fetched' },
      },
    );
  const tips = [head, ...refs.slice(1).map((it) => it.from)] as const;
  const replaces = force ? there : undefined;
  const out = await outgoingOf(git, [...tips], { known, replaced: replaces });
  return { plan: { refs, replaces, total: out.total }, out };
}

/**
 * Throws CONFLICT if more commits would leave than were shown: what was last fetched is a note in the repository, which a command of the
 * agent can write.
 */
async function assertShown(ctx: ToolContext, repository: Repository, { url, plan }: { url: string; plan: Plan }) {
  const { report } = await exchange(ctx, repository, { url, words: ['ls-remote'] });
  const ids = [...new Set(report.match(/^[0-9a-f]{40,64}(?=\t)/gm) ?? [])].slice(0, SERVER_REFS_MAX);
  const git = new Git(ctx, repository);
  const stdin = ids.map((it) => `${it}^{commit}\n`).join('');
  const { stdout } = await git.run(['cat-file', '--batch-check=%(objectname)', '--buffer'], { stdin });
  const there = stdout.toString('utf8').match(/^[0-9a-f]{40,64}$/gm) ?? [];
  const tips = plan.refs.map((it) => it.from);
  const range = [...tips, ...there.map((it) => `^${it}`), ''].join('\n');
  const counted = await git.run(['rev-list', '--count', '--stdin'], { stdin: range });
  const total = Number(counted.stdout.toString('utf8').trim());
  if (total <= plan.total) return;
  throw new ToolError('CONFLICT', `${total} commits would leave, and ${plan.total} were shown`, {
    suggestion: 'The server lacks what is noted here as fetched: call git_fetch, and push again.',
    details: { reason: 'not-fetched' },
  });
}

function currentBranch(ctx: ToolContext, path: string): string {
  const name = branchOf(ctx, findRepository(ctx, path));
  if (name !== undefined) return name;
  throw new ToolError('CONFLICT', 'HEAD is detached, so there is no current branch', {
    suggestion: 'Name the branch, or make one with git_branch.',
    details: { reason: 'detached-head' },
  });
}

/** The tips of what was last fetched from a remote. */
async function commonWith(git: Git, remote: string): Promise<string[]> {
  const { stdout } = await git.run([
    'for-each-ref',
    '--format=%(objectname)',
    '--count=100',
    `refs/remotes/${remote}/`,
  ]);
  return [...new Set(stdout.toString('utf8').split('\n').filter(Boolean))];
}

/** What a person reads before they say yes. */
function shown({ url, as = '', force, remote }: Input, { refs }: Plan, out: Outgoing): string {
  const names = refs.map(({ to }) => to.replace(/^refs\/(heads|tags)\//, ''));
  const many = (count: number, what: string) => `${count} ${what}${count === 1 ? '' : 's'}`;
  const isDefault = ['main', 'master', 'trunk'].includes(as);
  return [
    `push ${names.join(', ')} to ${url}: ${many(out.total, 'commit')}`,
    ...out.commits.map((it) => `  ${it}`),
    ...(out.total > out.commits.length ? [`  and ${out.total - out.commits.length} more`] : []),
    ...(out.stat === '' ? [] : [out.stat]),
    ...(isDefault ? [`${names[0]} is a branch that others build on.`] : []),
    ...(force && out.lost.length > 0 ? [`Takes from ${remote}/${names[0]}:`, ...out.lost.map((it) => `  ${it}`)] : []),
    ...out.secrets.map(({ path, kind }) => `SECRET in ${path}: ${kind}`),
    ...out.notes,
  ].join('\n');
}

function holdsSecrets({ secrets }: Outgoing): ToolError {
  const places = secrets.map(({ path, kind }) => `${path} (${kind})`);
  return new ToolError('SENSITIVE_FILE', `the commits hold what looks like secrets: ${places.slice(0, 5).join(', ')}`, {
    suggestion: 'Take them out of the commits, or call with withSecrets: true, and a person is shown them.',
    details: { reason: 'secrets', found: secrets },
  });
}

function rejected(text: string): ToolError {
  const [, why = 'it was rejected'] = /\[(?:remote )?rejected\]\s*(?:\((.*?)\))?/.exec(text) ?? [];
  const isBehind = /fetch first|non-fast-forward|stale info/.test(why);
  return new ToolError('CONFLICT', `the server did not take it: ${why}`, {
    suggestion: isBehind ? 'Call git_fetch, merge or rebase, and push again.' : 'Ask the person who may push there.',
    details: { reason: isBehind ? 'behind' : 'refused-by-server', said: said(text) },
  });
}

/** Notes what the server has now, as git does after a push. */
async function noteAt(git: Git, { refs }: Plan, remote: string): Promise<void> {
  const [head] = refs;
  const branch = head?.to.replace('refs/heads/', '');
  if (head) await git.try(['update-ref', `refs/remotes/${remote}/${branch}`, head.from]);
}
