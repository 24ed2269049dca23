/**
 * Talks to the server of a repository by https or ssh, in a repository of its own that shares only the objects: no hook, filter or setting of
 * the workspace's has a say in where it goes. TLS, ssh and the person's key are added outside of the sandbox.
 */
import { ToolError } from '../../base/errors.ts';
import { destinationOf } from '../context/requests.ts';
import { sshServerOf } from '../context/ssh-server.ts';
import type { ToolContext } from '../tool.ts';
import { CLEAN_ENVIRONMENT, CLEAN_OPTIONS } from './clean-settings.ts';
import { gitHealth } from './installed.ts';
import { findRepository, type Repository } from './repository.ts';
import { refusedBySsh, SSH_ENVIRONMENT, SSH_URL } from './ssh.ts';

const MINUTES_5_MS = 300_000;

/** Properties of the tools that reach the server of a repository. */
export const reachesRemote = {
  category: 'development',
  tier: 'external_api',
  healthCheck: gitHealth,
  timeoutMs: () => MINUTES_5_MS,
  spellings: { names: { projectPath: 'path', repository: 'path' } },
} as const;

/** The URL at which git speaks https to the server of a remote; without a name, password or key. Throws UNSUPPORTED. */
export function serverUrl(text: string): string {
  // git@host:owner/name.git, and ssh://git@host/owner/name.git: the same repository by https.
  const [, host, path] = /^(?:[\w.-]+@)?([\w.-]+\.[\w-]+):(?!\/\/)\/?(.+)$/.exec(text) ?? [];
  const url = URL.parse(
    host === undefined
      ? text.replace(/^ssh:\/\/(?:[^@/]*@)?([^:/]+)(?::\d+)?/, 'https://$1')
      : `https://${host}/${path}`,
  );
  const isLoopback = url?.protocol === 'http:' && url.hostname === '127.0.0.1';
  if (!url || !(url.protocol === 'https:' || isLoopback))
    throw new ToolError('UNSUPPORTED', `\`${text}\` is no server that is reached by https`, {
      suggestion: 'For a remote in a folder of the workspace: git by terminal_execute.',
      details: { reason: 'not-https' },
    });
  return `${url.protocol}//${url.host}${url.pathname}`;
}

/** The URL of a remote in the repository's config, by https. Throws NOT_FOUND, UNSUPPORTED. */
export const urlOfRemote = (...of: Parameters<typeof remoteNamed>): string => serverUrl(remoteNamed(...of));

function remotesOf(ctx: ToolContext, { commonDir }: Repository): Map<string, string> {
  using file = ctx.open(`${commonDir}/config`);
  return remotesIn(file.bytes().toString('utf8'));
}

/** A sentence about what is missing where the repository names the server by ssh, and https was tried; '' if it does not. */
const hintOn = (ctx: ToolContext, repository: Repository, url: string): string =>
  [...remotesOf(ctx, repository).values()].some((it) => sshServerOf(it)?.host === new URL(url).hostname)
    ? ' For ssh: the daemon finds no ssh agent with a key (SSH_AUTH_SOCK, ssh-add).'
    : '';

/** A remote as the repository's config has it. Throws NOT_FOUND. */
function remoteNamed(ctx: ToolContext, repository: Repository, name: string): string {
  const settings = remotesOf(ctx, repository);
  const found = settings.get(name);
  if (found !== undefined) return found;
  const known = [...settings.keys()];
  throw new ToolError('NOT_FOUND', `this repository has no remote \`${name}\``, {
    suggestion: known.length > 0 ? `It has ${known.join(', ')}.` : 'Give the `url` of the server.',
    details: { reason: 'unknown-remote' },
  });
}

/** The URLs of remotes by name; the URL to push to counts before the other. */
export function remotesIn(config: string): Map<string, string> {
  const urls = new Map<string, string>();
  const pushed = new Set<string>();
  let remote: string | undefined;
  for (const line of config.split('\n')) {
    const section = /^\s*\[\s*([\w.-]+)(?:\s+"((?:[^"\\]|\\.)*)")?\s*\]/.exec(line);
    if (section) remote = section[1]?.toLowerCase() === 'remote' ? section[2]?.replace(/\\(.)/g, '$1') : undefined;
    const [, key = '', quoted, plain] = /^\s*(pushurl|url)\s*=\s*(?:"([^"]*)"|(.*?))\s*$/i.exec(line) ?? [];
    const url = quoted ?? plain;
    if (remote === undefined || !url) continue;
    if (key.toLowerCase() === 'pushurl') pushed.add(remote);
    else if (pushed.has(remote)) continue;
    urls.set(remote, url);
  }
  return urls;
}

/** The call with the URL of its server, which the policy and a person judge: by ssh, where the remote says so, and by https. */
export async function resolved<T extends { remote: string; path: string; url?: string | undefined }>(
  wanted: T,
  ctx: ToolContext,
): Promise<T[]> {
  const remote = wanted.url ?? remoteNamed(ctx, findRepository(ctx, wanted.path), wanted.remote);
  const bySsh = sshServerOf(remote) ? [{ ...wanted, url: remote }] : [];
  try {
    return [...bySsh, { ...wanted, url: serverUrl(remote) }];
  } catch (error) {
    if (bySsh.length > 0) return bySsh;
    throw error;
  }
}

/** The connection to a server; none before it is known. */
export const connectTo = (url: string | undefined) =>
  url === undefined || !(sshServerOf(url) || URL.canParse(url))
    ? []
    : [{ kind: 'connect', target: destinationOf(url) } as const];

/** What the server wrote to the person, without git's own words. */
export const said = (stderr: string): string =>
  stderr
    .split('\n')
    .flatMap((it) => /^remote: ?(.*?)\s*$/.exec(it)?.[1] ?? [])
    .join('\n')
    .trim()
    .slice(0, 2000);

/**
 * Makes the repository, in the memory of this sandbox, since other commands of the session share its /tmp; with the refs that standard input lists.
 * `$1` has the objects, `$2` is where git speaks, the rest are its words.
 */
const SCRIPT = `set -e
export GIT_DIR="$(mktemp -dp /dev/shm)/own.git"
objects="$PWD/$1/objects" shallow="$PWD/$1/shallow" url="$2"; shift 2
git init --quiet --bare "$GIT_DIR"
{ echo '# pack-refs with: peeled fully-peeled'; cat; } > "$GIT_DIR/packed-refs"
[ ! -f "$shallow" ] || cp "$shallow" "$GIT_DIR/shallow"
export GIT_OBJECT_DIRECTORY="$objects" GIT_ALLOW_PROTOCOL="\${url%%:*}" GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=http.proxy GIT_CONFIG_VALUE_0="$http_proxy"
verb="$1"; shift
git "\${clean[@]}" "$verb" "$url" "$@"
[ "$verb" != fetch ] || { echo; git for-each-ref --format='%(objectname) %(refname)'; }`;

const quoted = (it: string): string => `'${it.replaceAll("'", `'\\''`)}'`;
const OWN_OPTIONS = CLEAN_OPTIONS.flatMap((it) => (it === 'protocol.allow=never' ? ['protocol.allow=user'] : [it]));

export interface Exchange {
  readonly url: string;
  /** `push`, `fetch` or `ls-remote`, and its words behind the URL. */
  readonly words: readonly string[];
  /** The refs of the repository, as packed-refs has them. */
  readonly refs?: string;
}

/** Runs one exchange with the server; gives git's standard output, whatever its exit code. Throws AUTH_REQUIRED, UPSTREAM_FAILED. */
export async function exchange(
  ctx: ToolContext,
  repository: Repository,
  { url, words, refs = '' }: Exchange,
): Promise<{ readonly report: string; readonly stderr: string; readonly exitCode: number }> {
  const server = sshServerOf(url);
  const spoken = server ? SSH_URL : url.replace(/^https:\/\/[^/]*/, `http://${destinationOf(url)}`);
  const { GIT_ALLOW_PROTOCOL: _, ...env } = CLEAN_ENVIRONMENT;
  const command = ctx.command({
    command: `clean=(${OWN_OPTIONS.map(quoted).join(' ')})\n${SCRIPT}`,
    shell: 'bash',
    args: [repository.commonDir, spoken, ...words],
    cwd: '.',
    env: { ...env, ...(server && SSH_ENVIRONMENT), NO_PROXY: '', no_proxy: '' },
    stdin: refs,
    report: '-',
  });
  const { report: bytes, stderr, exitCode } = await ctx.run(command);
  const report = bytes?.toString('utf8') ?? '';
  if (exitCode !== 0 && !/\[rejected\]|\[remote rejected\]/.test(`${stderr}${report}`)) {
    if (server) throw refusedBySsh(server, stderr);
    throw refusedBy(url, stderr, hintOn(ctx, repository, url));
  }
  return { report, stderr, exitCode };
}

/** Git's message about a server as a tool's error; `hint` is one more sentence of what to do. */
function refusedBy(url: string, stderr: string, hint: string): ToolError {
  const { host, hostname } = new URL(url);
  const said = stderr
    .replaceAll(/^(?:fatal|error|remote): /gm, '')
    .trim()
    .split('\n')
    .slice(0, 3)
    .join(' ')
    .slice(0, 400);
  const details = { reason: 'refused-by-server', git: said };
  if (
    /could not read Username|Authentication failed|HTTP(?: code =)? 401|error: 401|error: 403|Invalid username/.test(
      stderr,
    )
  )
    return new ToolError('AUTH_REQUIRED', `${host} wants a key, and has not taken the one that was sent, if any`, {
      suggestion: `Ask the person to run: ringfence secret set ${secretNameFor(hostname)} --host ${host}.${hint}`,
      details: { ...details, auth: /403/.test(stderr) ? 'refused' : 'missing', secret: secretNameFor(hostname) },
    });
  if (/not found|error: 404/i.test(stderr))
    return new ToolError('NOT_FOUND', `${host} has no such repository, or shows it only with a key`, {
      suggestion: `If it is private, ask the person to run: ringfence secret set ${secretNameFor(hostname)} --host ${host}.${hint}`,
      details,
    });
  return new ToolError('UPSTREAM_FAILED', `${host} could not do this: ${said}`, {
    suggestion: `Ask the person whether ${host} is reached from this machine.${hint}`,
    details,
  });
}

/** A name for the key of a host: `github` for github.com, `git-example-org` for git.example.org. */
const secretNameFor = (hostname: string): string =>
  hostname
    .replace(/\.com$/, '')
    .replaceAll(/[^a-z0-9]+/g, '-')
    .replace(/^[^a-z]+/, 'git-');
