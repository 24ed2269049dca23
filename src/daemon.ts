/** The composition root: the only file that knows every part. */
import { chmodSync, realpathSync } from 'node:fs';
import { dirname, isAbsolute, join, relative } from 'node:path';
import type { Config } from './config.ts';
import { RpcError } from './errors.ts';
import { Egress } from './hosts/egress.ts';
import { Hosts } from './hosts/hosts.ts';
import { Isolates } from './hosts/isolates.ts';
import { readIdentity } from './identity.ts';
import type { Limits } from './limits.ts';
import { isInside, isProtected } from './paths.ts';
import { heapOf, networkOf } from './pipeline/bounds.ts';
import type { CachedResult } from './pipeline/cache.ts';
import { createPipeline, type Toolset } from './pipeline/pipeline.ts';
import { Turns } from './pipeline/turns.ts';
import { rebase } from './policy/compose.ts';
import { BUILT_IN, type LoadedPolicy, PolicyError, projectPolicy, readPolicy } from './policy/load.ts';
import { createProgramResolver } from './policy/programs.ts';
import type { Policy } from './policy/schema.ts';
import { createPolicySource, type PolicySourceOptions } from './policy/watch.ts';
import type { Powers } from './powers.ts';
import { toBytes } from './protocol/peer.ts';
import { createRecords, type Records } from './records.ts';
import { egressProgram, hostProgram, isolateProgram, runtime, version } from './runtime.ts';
import { type Confinement, createSandbox, type SandboxOptions } from './sandbox/sandbox.ts';
import { Batches } from './session/batches.ts';
import { createCredentials } from './session/credentials.ts';
import { DurableCalls } from './session/durable-calls.ts';
import { Events } from './session/events.ts';
import { Gateway } from './session/gateway.ts';
import type { Identify } from './session/identity.ts';
import { Oversight } from './session/oversight.ts';
import { Policies } from './session/policies.ts';
import { Results } from './session/results.ts';
import type { Session } from './session/session.ts';
import type { AuditEntry } from './store/audit-log.ts';
import { acquireLock } from './store/database.ts';
import { pastDurationMs } from './store/past-durations.ts';
import { ResultCache } from './store/result-cache.ts';
import { ResultLog } from './store/result-log.ts';
import { builtinToolset, effectsOfBuiltin, internalUndo, toolsOf } from './tools/registry.ts';
import type { Channel, Listener } from './transport/transport.ts';
import { listenUnix } from './transport/unix-socket.ts';

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
  const { places, limits, workspaces, environment } = config;
  const { stateDir, home } = places;
  chmodSync(stateDir, 0o700);
  await using parts = new AsyncDisposableStack();
  const lock = acquireLock(join(stateDir, 'daemon.lock'));
  if (!lock)
    throw new DaemonError(`another daemon uses ${stateDir}; stop it with \`ringfence stop\`, or give another --state`);
  parts.use(lock);

  const events = new Events(limits.eventsKept);
  const records = parts.use(createRecords({ stateDir, limits, powers, events }));
  const told = { policyChanged() {} };
  const source = parts.use(createPolicySource(policySource(config, { powers, events, records, told })));
  const policies = createPolicies(config, () => source.current);
  const sandbox = parts.use(await createSandbox(sandboxOptions(config, records), powers));
  const { confinement } = sandbox;
  const identity = await readIdentity(places, limits, powers);
  const log = parts.use(new ResultLog({ folder: join(stateDir, 'results'), limits, powers }));
  const egress = parts.use(new Egress({ sandbox, program: egressProgram, limits }, powers));
  const hosts = parts.use(new Hosts({ sandbox, program: hostProgram, egress, limits, identity, environment }, powers));
  const isolates = parts.use(new Isolates({ sandbox, program: isolateProgram, limits }, powers));
  told.policyChanged = () => hosts.endStale();
  const permission = { home, resolve: createProgramResolver(environment.PATH) };
  const turns = new Turns(limits, powers);
  const oversight = new Oversight({ ...records, permission, turns, reloadPolicy: () => source.reload() });
  const cache = new ResultCache<CachedResult>({ strategy: config.cacheStrategy, limits, powers });
  const pipeline = createPipeline({
    ...{ ...records, hosts, isolates, limits, powers, permission, turns, cache },
    viewOf: (call) => policies.viewOf(call),
    approvers: () => gateway.approvers,
  });
  const identify = createCredentials({ stateDir, principals: config.principals }, powers);
  const listeners: Listener[] = [];
  const toolset = builtinToolset();
  const ended = Promise.withResolvers<void>();
  const gateway = new Gateway({
    ...{ version, pipeline, toolset, policies, limits, powers, workspaces, identify, events },
    ...{ oversight, results: new Results({ log, limits, powers }), callStore: records.callStore },
    ...recording(records, { limits, powers }),
    undoTool: internalUndo,
    confinement: toShown(confinement),
    probes: confinement.probes,
    resolveWorkspace: (path) => resolveWorkspace(path, workspaces),
    warm: (session) => warm(session, { hosts, policies, toolset }),
    hostStatus: async () => [...(await hosts.status()), ...isolates.status()],
    cacheStatus: () => cache.status,
    listeners: () => listeners.map((it) => it.address),
    sessionEnded: sessionEnds({ hosts, isolates, oversight }),
    shutdown: (graceMs) => void close(graceMs, 'an operator asked for it'),
  });
  parts.defer(async () => void (await Promise.all(listeners.map((it) => it[Symbol.asyncDispose]()))));
  const accept = (channel: Channel) => gateway.accept(channel);
  listeners.push(await listenUnix(places.socket, accept));
  if (config.listen) {
    // Not loaded where nobody asks for it: with node:http it takes 17 MiB and 50 ms.
    const { listenWebSocket } = await import('./transport/websocket.ts');
    listeners.push(await listenWebSocket(webSocketOptions(config.listen, limits, identify), accept));
  }

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

function createPolicies(config: Config, base: () => Policy): Policies {
  const { limits, workspaces } = config;
  return new Policies({
    base,
    builtIn: BUILT_IN,
    ofPrincipal: (nameOrPath) => loadOutside(nameOrPath, config).policy,
    ofProject: (workspace) => projectPolicies(workspace, workspaces, limits),
    home: config.places.home,
  });
}

function sandboxOptions(
  { places, workspaces, toolchains, limits, cgroup }: Config,
  { undoJournal }: Records,
): SandboxOptions {
  const spoolOf = (workspace: string) => undoJournal.spoolOf(workspace);
  const { arch, platform } = process;
  const machine = { arch, platform, version, ...(cgroup && { cgroup }) };
  return { runtime, spoolOf, stateDir: places.stateDir, workspaces, toolchains, limits, ...machine };
}

interface Announced {
  readonly powers: Powers;
  readonly events: Events;
  readonly records: Records;
  /** Set when there are hosts. */
  readonly told: { policyChanged(): void };
}

/** Who is told of a session's end. */
const sessionEnds =
  ({ hosts, isolates, oversight }: { hosts: Hosts; isolates: Isolates; oversight: Oversight }) =>
  (session: Session): void => {
    for (const it of [hosts, isolates]) it.endSession(session.options.id);
    oversight.sessionEnded(session);
  };

/** What the gateway needs of the records. */
const recording = (
  { auditLog, approvals, callStore, undoJournal }: Records,
  { limits, powers }: { limits: Limits; powers: Powers },
) => ({
  undoJournal,
  durable: new DurableCalls(callStore, limits),
  batches: new Batches({ limits, powers, pastDurationMs: (tool) => pastDurationMs(auditLog, tool) }),
  auditStatus: () => auditLog.status,
  approvalsPending: () => approvals.pendingCount,
  recordSession: (session: Session) => auditLog.append(sessionEntry(session)),
  record: (entry: AuditEntry) => auditLog.append(entry),
});

/** The policy of the config, loaded anew whenever a file of it changes; each change is recorded and told. */
function policySource(config: Config, { powers, events, records, told }: Announced): PolicySourceOptions {
  return {
    load: () => loadOutside(config.policy, config),
    powers,
    log: powers.log,
    onChange: ({ name, version }, before) => {
      const detail = { policy: name, version, before: before.version };
      records.auditLog.append({ kind: 'policy', sessionId: '', principal: 'daemon', detail });
      told.policyChanged();
      events.publish({ topic: 'policy', sessionId: '', method: 'policy.changed', params: { policy: name, version } });
    },
  };
}

/** A policy none of whose files an agent could change. Throws PolicyError. */
function loadOutside(nameOrPath: string, { workspaces, limits }: Config): LoadedPolicy {
  const loaded = readPolicy(nameOrPath, { limits, effectsOf: effectsOfBuiltin });
  const inside = loaded.files.find((file) => workspaces.some((it) => isInside(it, realpathSync(file))));
  if (inside === undefined) return loaded;
  throw new PolicyError(
    [`${inside} lies in a workspace, where agents could change it; put it elsewhere`],
    loaded.files,
  );
}

/** Files of the folders from the daemon's workspace down to the session's: each may only narrow. Throws PolicyError. */
function projectPolicies(workspace: string, workspaces: readonly string[], limits: Limits): Policy[] {
  const root = rootOf(workspace, workspaces);
  return foldersBetween(root, workspace).flatMap((folder) => {
    const policy = projectPolicy(folder, { limits, effectsOf: effectsOfBuiltin });
    return policy ? rebase(policy, relative(root, folder)) : [];
  });
}

/** The outermost of the daemon's workspaces that holds a folder of one of them. */
function rootOf(folder: string, workspaces: readonly string[]): string {
  const holding = workspaces.filter((it) => isInside(it, folder));
  return holding.reduce((a, b) => (isInside(b, a) ? b : a));
}

function foldersBetween(root: string, folder: string): string[] {
  return folder === root ? [root] : [...foldersBetween(root, dirname(folder)), folder];
}

/** Starts the hosts of a new session whose tools may run without being asked about. */
function warm(
  { options, policy: policyNow }: Session,
  { hosts, policies, toolset }: { hosts: Hosts; policies: Policies; toolset: Toolset },
): void {
  const policy = policyNow();
  const { id: sessionId, principal, workspace, root } = options;
  const view = policies.viewOf({ policy, principal, sessionId, workspace, root });
  const tiers = new Set(toolsOf(toolset).map((it) => it.tier));
  for (const tier of tiers)
    if ([policy, ...policy.and].every((it) => it.tiers[tier].decision === 'allow'))
      hosts.warm(
        { tier, workspace, view, ...heapOf(policy, tier) },
        tier === 'execute' ? networkOf(policy) : undefined,
      );
}

function sessionEntry({ options, policy }: Session): AuditEntry {
  const { id, principal, role, client, workspace, root } = options;
  const { name, version: policyVersion } = policy();
  return {
    kind: 'session',
    sessionId: id,
    principal,
    detail: { role, client, workspace, ...(root !== workspace && { root }), policy: name, policyVersion },
  };
}

function webSocketOptions(
  listen: { host: string; port: number },
  { frameBytesMax, connectionsMax }: Limits,
  identify: Identify,
) {
  const message = `a message over the bound of ${frameBytesMax} bytes`;
  const error = new RpcError('FRAME_TOO_LARGE', message, { max: frameBytesMax }).toWire();
  return {
    ...listen,
    frameBytesMax,
    connectionsMax,
    isToken: (it: string) => identify(it) !== undefined,
    tooLarge: (encoding: 'msgpack' | 'json') =>
      toBytes({ id: null, error }, { framing: 'message', encoding }, frameBytesMax),
  };
}

const toShown = ({ level, backend, cgroup, missing }: Confinement) => ({ level, backend, cgroup, missing });

function resolveWorkspace(path: string, workspaces: readonly string[]): { workspace: string; root: string } {
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
  const root = rootOf(real, workspaces);
  if (isProtected(relative(root, real)))
    throw new RpcError('FORBIDDEN', `${path} is protected: programs outside the sandbox run or trust what is in it`);
  return { workspace: real, root };
}
