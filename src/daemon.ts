/** The composition root: the only file that knows every part. */
import { chmodSync, existsSync, readFileSync, realpathSync, writeFileSync } from 'node:fs';
import { isAbsolute, join } from 'node:path';
import type { Config } from './config.ts';
import { RpcError } from './errors.ts';
import { Hosts } from './hosts/hosts.ts';
import type { Limits } from './limits.ts';
import { isInside } from './paths.ts';
import { createPipeline } from './pipeline/pipeline.ts';
import { BUILT_IN, loadPolicy } from './policy/load.ts';
import type { Powers } from './powers.ts';
import { toBytes } from './protocol/peer.ts';
import { hostProgram, runtime, version } from './runtime.ts';
import { type Confinement, createSandbox } from './sandbox/sandbox.ts';
import { Gateway } from './session/gateway.ts';
import { AuditLog } from './store/audit-log.ts';
import { acquireLock } from './store/database.ts';
import { builtinToolset, toolsOf } from './tools/registry.ts';
import type { Listener } from './transport/transport.ts';
import { listenUnix } from './transport/unix-socket.ts';
import { listenWebSocket, sameSecret } from './transport/websocket.ts';

/** A daemon that can't start, in words for who started it. */
export class DaemonError extends Error {}

export interface Daemon {
  /** Addresses that it listens at. */
  readonly listeners: readonly string[];
  readonly confinement: { readonly level: string; readonly missing: readonly string[]; readonly advice: string };
  /** Settles when it has ended, by `shutdown` or `close`. */
  readonly ended: Promise<void>;
  /** Lets calls go on for `graceMs`, then ends everything that it started. */
  close(graceMs: number, reason: string): Promise<void>;
}

/** Starts everything. Throws DaemonError, PolicyError, SocketError. */
export async function createDaemon(config: Config, powers: Powers): Promise<Daemon> {
  const { places, limits, workspaces } = config;
  const { stateDir } = places;
  chmodSync(stateDir, 0o700);
  const policy = loadPolicy(config.policy);
  await using parts = new AsyncDisposableStack();
  const lock = acquireLock(join(stateDir, 'daemon.lock'));
  if (!lock)
    throw new DaemonError(`another daemon uses ${stateDir}; stop it with \`ringfence stop\`, or give another --state`);
  parts.use(lock);

  const sandbox = await createSandbox(
    {
      runtime,
      stateDir,
      workspaces,
      limits,
      arch: process.arch,
      platform: process.platform,
    },
    powers,
  );
  const { confinement } = sandbox;
  const auditLog = parts.use(new AuditLog(join(stateDir, 'audit.db'), limits, powers));
  const hosts = parts.use(new Hosts({ sandbox, program: hostProgram, limits }, powers));
  const pipeline = createPipeline({ auditLog, hosts, limits, powers });
  const roleOf = credentials(stateDir, powers);
  const listeners: Listener[] = [];
  const toolset = builtinToolset();
  const tiers = new Set(toolsOf(toolset).map((it) => it.tier));
  const ended = Promise.withResolvers<void>();
  const gateway = new Gateway({
    ...{ version, pipeline, toolset, policy, policies: BUILT_IN, limits, powers, workspaces, roleOf },
    confinement: toShown(confinement),
    resolveWorkspace: (path) => resolveWorkspace(path, workspaces),
    warm: (workspace) => {
      for (const tier of tiers) if (policy.tiers[tier].decision === 'allow') hosts.warm(tier, workspace);
    },
    hostStatus: () => hosts.status(),
    auditEntries: () => auditLog.entries,
    listeners: () => listeners.map((it) => it.address),
    recordSession: ({ options: { id, principal } }) => auditLog.append({ kind: 'session', sessionId: id, principal }),
    shutdown: (graceMs) => void close(graceMs, 'an operator asked for it'),
  });
  parts.defer(async () => void (await Promise.all(listeners.map((it) => it[Symbol.asyncDispose]()))));
  listeners.push(await listenUnix(places.socket, (channel) => gateway.accept(channel)));
  if (config.listen)
    listeners.push(
      await listenWebSocket(webSocketOptions(config.listen, limits, roleOf), (channel) => gateway.accept(channel)),
    );

  const whole = parts.move();
  let closing: Promise<void> | undefined;
  function close(graceMs: number, reason: string): Promise<void> {
    powers.log.info({ graceMs }, `shutting down: ${reason}`);
    closing ??= gateway
      .close(graceMs, reason)
      .then(() => whole.disposeAsync())
      .then(ended.resolve, ended.reject);
    return closing;
  }
  return { listeners: listeners.map((it) => it.address), confinement, ended: ended.promise, close };
}

type RoleOf = (token: string) => 'agent' | 'operator' | undefined;

function webSocketOptions(
  listen: { host: string; port: number },
  { frameBytesMax, connectionsMax }: Limits,
  roleOf: RoleOf,
) {
  const message = `a message over the bound of ${frameBytesMax} bytes`;
  const error = new RpcError('FRAME_TOO_LARGE', message, { max: frameBytesMax }).toWire();
  return {
    ...listen,
    frameBytesMax,
    connectionsMax,
    isToken: (it: string) => roleOf(it) !== undefined,
    tooLarge: (encoding: 'msgpack' | 'json') =>
      toBytes({ id: null, error }, { framing: 'message', encoding }, frameBytesMax),
  };
}

const toShown = ({ level, backend, cgroup, missing }: Confinement) => ({ level, backend, cgroup, missing });

/** Whose a token is, by the two that this daemon keeps in its state directory. */
function credentials(stateDir: string, powers: Powers): RoleOf {
  const operator = token(join(stateDir, 'operator.token'), powers);
  const agent = token(join(stateDir, 'agent.token'), powers);
  return (it) => (sameSecret(it, operator) ? 'operator' : sameSecret(it, agent) ? 'agent' : undefined);
}

/** A credential that stays the same over restarts, readable by its owner only. */
function token(path: string, powers: Powers): string {
  if (!existsSync(path)) writeFileSync(path, `${powers.secret()}\n`, { mode: 0o600 });
  return readFileSync(path, 'utf8').trim();
}

function resolveWorkspace(path: string, workspaces: readonly string[]): string {
  const refused = new RpcError(
    'FORBIDDEN',
    `${path} is not one of this daemon's workspaces; start it with: ringfence stop; ringfence serve --workspace ${path}`,
  );
  if (!isAbsolute(path)) throw new RpcError('INVALID_PARAMS', `hello.workspace is an absolute path, not ${path}`);
  let real: string;
  try {
    real = realpathSync(path);
  } catch {
    throw refused; // Not there, or not ours to see: the same answer.
  }
  if (!workspaces.some((it) => isInside(it, real))) throw refused;
  return real;
}
