/** The composition root: the only file that knows every part. */
import { realpathSync } from 'node:fs';
import { join, relative } from 'node:path';
import { type HostStatus, TIERS } from '../call.ts';
import { RpcError } from '../errors.ts';
import { Egress } from '../hosts/egress.ts';
import { Hosts, type HostsOptions } from '../hosts/hosts.ts';
import { Isolates } from '../hosts/isolates.ts';
import type { Limits } from '../limits.ts';
import { type ListenParts, listenMcp } from '../mcp/listen.ts';
import { isInside } from '../paths.ts';
import type { CachedResult } from '../pipeline/cache.ts';
import { heapOf, networkOf } from '../pipeline/execute/bounds.ts';
import { createPipeline } from '../pipeline/pipeline.ts';
import { JudgingTurns } from '../pipeline/queue/judging-turns.ts';
import { PluginSource, type PluginStatus } from '../plugins/plugin-source.ts';
import { rebase } from '../policy/compose.ts';
import { BUILT_IN, type LoadedPolicy, PolicyError, projectPolicy, readPolicy } from '../policy/load.ts';
import type { Policy } from '../policy/schema.ts';
import { createProgramResolver } from '../policy/shell/programs.ts';
import { createPolicySource, type PolicySource, type PolicySourceOptions, type Reloaded } from '../policy/watch.ts';
import type { Powers } from '../powers.ts';
import { toBytes } from '../protocol/peer.ts';
import { ServingTurns } from '../protocol/serving-turns.ts';
import { Providers } from '../providers/providers.ts';
import {
  compartmentProgram,
  egressProgram,
  hostProgram,
  isolateProgram,
  providerProgram,
  runtime,
  version,
} from '../runtime.ts';
import { createSandbox, type Sandbox, type SandboxOptions, toShown } from '../sandbox/sandbox.ts';
import type { Identify } from '../session/authenticate.ts';
import { Batches } from '../session/batches.ts';
import { Credentials } from '../session/credentials.ts';
import { DurableCalls } from '../session/durable-calls.ts';
import { Events } from '../session/events.ts';
import { Gateway } from '../session/gateway.ts';
import { Oversight } from '../session/oversight.ts';
import { Policies } from '../session/policies.ts';
import { Results } from '../session/results.ts';
import type { Session } from '../session/session.ts';
import { sessionEntry } from '../session/session-records.ts';
import type { AuditEntry } from '../store/audit/log.ts';
import { acquireLock } from '../store/database.ts';
import { makeRoomAtStart } from '../store/disk-room.ts';
import { pastDurationMs } from '../store/past-durations.ts';
import { ResultCache } from '../store/result-cache.ts';
import { ResultLog } from '../store/result-log.ts';
import { Catalogue } from '../tools/catalogue.ts';
import { builtinToolset, effectsOfBuiltin, internalUndo, toolsOf } from '../tools/registry.ts';
import type { Channel, Listener } from '../transport/transport.ts';
import { listenUnix } from '../transport/unix-socket.ts';
import type { Config } from './config.ts';
import { readIdentity } from './git-author.ts';
import { createRecords, type Records } from './records.ts';
import { lockFile, publishEndpoint } from './user-dirs.ts';
import { Workspaces } from './workspaces.ts';

/** A daemon that can't start, in words for the person who started it. */
export class DaemonError extends Error {}

export interface Daemon {
  /** The addresses that the daemon listens at. */
  readonly listeners: readonly string[];
  readonly confinement: { readonly level: string; readonly missing: readonly string[]; readonly advice: string };
  /** Whether no call runs or waits in a queue. */
  isIdle(): boolean;
  /** Resolves when the daemon has ended, by `shutdown` or `close`. */
  readonly ended: Promise<void>;
  /** Lets calls go on for `graceMs` milliseconds, then ends everything that the daemon started. */
  close(graceMs: number, reason: string): Promise<void>;
}

/** Starts all parts of the daemon. Throws DaemonError, PolicyError, SocketError. */
export async function createDaemon(config: Config, powers: Powers): Promise<Daemon> {
  const { dirs, limits, environment } = config;
  const { stateDir, home } = dirs;
  await using parts = new AsyncDisposableStack();
  parts.use(takeState(stateDir, { limits, powers }));
  const workspaces = new Workspaces(config, powers);
  const events = new Events(limits.eventsKept);
  const records = parts.use(createRecords({ stateDir, limits, powers, events }));
  const told = { policyChanged() {} };
  const source = parts.use(createPolicySource(policySource(config, { powers, events, records, told, workspaces })));
  const policies = createPolicies(config, { base: () => source.current, workspaces, powers });
  const reading = readIdentity(dirs, limits, powers);
  const sandbox = parts.use(await createSandbox(sandboxOptions(config, records), powers));
  const { confinement } = sandbox;
  const identity = await reading;
  const log = parts.use(new ResultLog({ folder: join(stateDir, 'results'), limits, powers, room: records.diskRoom }));
  const ran = createHosts(parts, { ...records, sandbox, limits, identity, environment }, powers);
  const { hosts, isolates, compartments } = ran;
  hosts.prepare(config.workspaces[0] as string);
  const catalogue = new Catalogue(builtinToolset());
  const providers = parts.use(createProviders(config, { ...ran, powers, records, policies, sandbox, catalogue }));
  told.policyChanged = () => {
    for (const it of [hosts, providers]) it.endStale();
  };
  const permission = { home, limits, resolve: createProgramResolver(environment.PATH) };
  const [turns, serving] = [new JudgingTurns(limits, powers), new ServingTurns(limits, powers)];
  const oversight = new Oversight({ ...records, permission, turns, reloadPolicy: reloadOf(source, policies) });
  const cache = new ResultCache<CachedResult>({ strategy: config.cacheStrategy, limits, powers });
  const pipeline = createPipeline({
    ...{ ...records, ...ran, upstreams: providers, limits, powers, permission, turns, cache },
    viewOf: (call) => policies.viewOf(call),
    approvers: (sessionId) => gateway.approversOf(sessionId),
  });
  const credentials = new Credentials({ stateDir, principals: config.principals }, powers);
  const listeners: Listener[] = [];
  const plugins = parts.use(
    new PluginSource({ stateDir, catalogue, limits, powers, onChange: pluginChanges(records) }),
  );
  const ended = Promise.withResolvers<void>();
  const gateway = new Gateway({
    ...{ version, pipeline, catalogue, policies, limits, powers, workspaces, credentials, events, providers },
    ...{ turns: serving, oversight, results: new Results({ log, limits, powers }), callStore: records.callStore },
    ...recording(records, { limits, powers }),
    undoTool: internalUndo,
    confinement: toShown(confinement),
    probes: confinement.probes,
    warm: (session) => warm(session, { hosts, policies }),
    ...hostsToTell(ran, providers),
    pluginStatus: () => plugins.status,
    cache,
    listeners: () => listeners.map((it) => it.address),
    sessionEnded: sessionEnds([hosts, isolates, compartments], oversight),
    shutdown: (graceMs) => void close(graceMs, 'an operator asked for it'),
  });
  parts.defer(async () => void (await Promise.all(listeners.map((it) => it[Symbol.asyncDispose]()))));
  await listen(listeners, { config, gateway, credentials, workspaces, powers, catalogue, events, turns: serving });
  parts.use(publishEndpoint(stateDir, { pid: process.pid, ...dirs }));

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
  const isIdle = () => pipeline.queue.running + pipeline.queue.queued === 0;
  return { listeners: listeners.map((it) => it.address), confinement, isIdle, ended: ended.promise, close };
}

interface Listening extends Pick<ListenParts, 'powers' | 'catalogue' | 'events' | 'turns'> {
  readonly config: Config;
  readonly credentials: Credentials;
  readonly gateway: Gateway;
  readonly workspaces: Workspaces;
}

/** Starts the listeners of the config, and adds each to `listeners` at once, so that it is ended if a later step fails. */
async function listen(
  listeners: Listener[],
  { config, gateway, workspaces, credentials: { identify }, ...parts }: Listening,
): Promise<void> {
  const { dirs, limits, listenHttp: http } = config;
  const accept = (channel: Channel) => gateway.accept(channel);
  listeners.push(await listenUnix(dirs.socket, accept));
  const face = {
    ...{ ...parts, identify, version, limits, http, socket: dirs.mcpSocket },
    openSession: gateway.openSession.bind(gateway),
    resolveWorkspace: (path: string) => workspaces.resolve(path),
  };
  await listenMcp(face, (it) => listeners.push(it));
  if (!config.listen) return;
  // Loaded only on demand: with node:http it takes 17 MiB and 50 ms.
  const { listenWebSocket } = await import('../transport/websocket.ts');
  listeners.push(
    await listenWebSocket(webSocketOptions(config.listen, identify, { limits, powers: parts.powers }), accept),
  );
}

/** Locks the state directory against other daemons. Throws DaemonError if another one holds it. */
function takeState(stateDir: string, { limits, powers }: { limits: Limits; powers: Powers }): Disposable {
  const makeRoom = () => makeRoomAtStart(stateDir, limits, powers);
  const lock = acquireLock(lockFile(stateDir), makeRoom);
  if (!lock)
    throw new DaemonError(`another daemon uses ${stateDir}; stop it with \`ringfence stop\`, or give another --state`);
  const advice = makeRoom();
  if (advice === undefined) return lock;
  lock[Symbol.dispose]();
  throw new DaemonError(`the disk has no room for the daemon's record: ${advice}`);
}

/** Creates the hosts for the code of tools, callers and plugins; ended with `parts`. */
function createHosts(
  parts: AsyncDisposableStack,
  { undoJournal, ...options }: Pick<HostsOptions, 'sandbox' | 'limits' | 'identity' | 'environment'> & Records,
  powers: Powers,
) {
  const { sandbox, limits } = options;
  const egress = parts.use(new Egress({ sandbox, program: egressProgram, limits }, powers));
  const hosts = parts.use(new Hosts({ ...options, program: hostProgram, egress }, powers));
  parts.defer(() => undoJournal.settled());
  const isolates = parts.use(new Isolates({ sandbox, program: isolateProgram, limits }, powers));
  const compartments = parts.use(new Isolates({ sandbox, program: compartmentProgram, limits }, powers));
  return { egress, hosts, isolates, compartments };
}

/** The parts of `status` about hosts. */
const hostsToTell = (ran: ReturnType<typeof createHosts>, providers: Providers) => ({
  hostStatus: () => hostStatus(ran, providers),
  coarseMasks: ran.hosts.coarseMasks,
});

async function hostStatus(
  { hosts, isolates, compartments }: Pick<ReturnType<typeof createHosts>, 'hosts' | 'isolates' | 'compartments'>,
  providers: Providers,
): Promise<HostStatus[]> {
  return [
    ...(await hosts.status()),
    ...[isolates, compartments].flatMap((it) => it.status()),
    ...providers.hostStatus(),
  ];
}

function createPolicies(
  { limits, dirs, policyOrigin }: Config,
  { base, workspaces, powers }: { base: () => Policy; workspaces: Workspaces; powers: Powers },
): Policies {
  return new Policies({
    base,
    builtIn: BUILT_IN,
    origin: policyOrigin,
    ofPrincipal: (nameOrPath) => loadOutside(nameOrPath, workspaces, limits).policy,
    ofProject: (workspace) => projectPolicies(workspace, workspaces, limits),
    onRefused: (reason) => powers.log.warn({ reason }, 'what a session was given stays in force'),
    home: dirs.home,
  });
}

/** Reloads the daemon's own policy and the policies that narrow it for sessions. */
const reloadOf = (source: PolicySource, policies: Policies) => (): Reloaded => {
  policies.reread();
  return source.reload();
};

interface ProviderParts {
  readonly powers: Powers;
  readonly records: Records;
  readonly policies: Policies;
  readonly sandbox: Sandbox;
  readonly egress: Egress;
  readonly catalogue: Catalogue;
}

function createProviders(
  { providers: settings, environment, limits }: Config,
  { powers, records, policies, sandbox, egress, catalogue }: ProviderParts,
): Providers {
  return new Providers(
    {
      ...{ settings, catalogue, pins: records.providerPins },
      // For no principal and no session: rules about single sessions don't apply to a provider.
      viewOf: (workspace) =>
        policies.viewOf({ policy: policies.base, principal: '', sessionId: '', workspace, root: workspace }),
      record: (entry) => records.auditLog.append(entry),
    },
    { sandbox, egress, program: providerProgram, environment, version, limits, powers },
  );
}

function sandboxOptions(
  { dirs, workspaces, toolchains, limits, cgroup }: Config,
  { undoJournal, commandHomes }: Records,
): SandboxOptions {
  const { arch, platform } = process;
  const of = { spoolOf: (it: string) => undoJournal.spoolOf(it), homesOf: (it: string) => commandHomes.folderOf(it) };
  const own = { ...of, runtime, version, arch, platform, stateDir: dirs.stateDir };
  return { ...own, workspaces, toolchains, limits, ...(cgroup && { cgroup }) };
}

interface Announced {
  readonly powers: Powers;
  readonly events: Events;
  readonly records: Records;
  readonly workspaces: Workspaces;
  /** Set once the hosts exist. */
  readonly told: { policyChanged(): void };
}

/** Notifies hosts and oversight of a session's end. */
const sessionEnds =
  (hosts: readonly { endSession(id: string): void }[], oversight: Oversight) =>
  (session: Session): void => {
    for (const it of hosts) it.endSession(session.options.id);
    oversight.sessionEnded(session);
  };

/** Records each change of the callable plugins, with the hash of the trusted code. */
const pluginChanges =
  ({ auditLog }: Records) =>
  ({ name: plugin, state, version, sha256, problem }: PluginStatus): void =>
    auditLog.append({
      ...{ kind: 'policy', sessionId: '', principal: 'daemon' },
      detail: { plugin, state, ...(version && { version, sha256 }), ...(problem && { problem }) },
    });

/** The records that the gateway needs. */
const recording = (
  { auditLog, approvals, callStore, undoJournal, diskRoom }: Records,
  { limits, powers }: { limits: Limits; powers: Powers },
) => ({
  undoJournal,
  durable: new DurableCalls(callStore, limits),
  batches: new Batches({ limits, powers, pastDurationMs: (tool) => pastDurationMs(auditLog, tool) }),
  auditStatus: () => auditLog.status,
  diskStatus: () => diskRoom.status,
  approvalsPending: () => approvals.pendingCount,
  recordSession: (session: Session) => auditLog.append(sessionEntry(session)),
  record: (entry: AuditEntry) => auditLog.append(entry),
});

/** The policy of the config, loaded again whenever one of its files changes; each change is recorded and announced. */
function policySource(
  { policy, limits }: Config,
  { powers, events, records, told, workspaces }: Announced,
): PolicySourceOptions {
  return {
    load: () => loadOutside(policy, workspaces, limits),
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

/** Loads a policy, none of whose files may lie where an agent could change it. Throws PolicyError. */
function loadOutside(nameOrPath: string, workspaces: Workspaces, limits: Limits): LoadedPolicy {
  const loaded = readPolicy(nameOrPath, { limits, effectsOf: effectsOfBuiltin });
  const inside = loaded.files.find((file) => workspaces.all.some((it) => isInside(it, realpathSync(file))));
  if (inside === undefined) return loaded;
  throw new PolicyError(
    [`${inside} lies in a workspace, where agents could change it; put it elsewhere`],
    loaded.files,
  );
}

/** The policy files of the folders from the configured workspace down to the session's; each may only narrow. Throws PolicyError. */
function projectPolicies(workspace: string, workspaces: Workspaces, limits: Limits): Policy[] {
  const way = workspaces.wayTo(workspace);
  return way.flatMap((folder) => {
    const policy = projectPolicy(folder, { limits, effectsOf: effectsOfBuiltin });
    return policy ? rebase(policy, relative(way[0] as string, folder)) : [];
  });
}

/** Starts the hosts for a new session's tools that need no approval, the tier used most often first. */
function warm(
  { options, policy: policyNow }: Session,
  { hosts, policies }: { hosts: Hosts; policies: Policies },
): void {
  const policy = policyNow();
  const { id: sessionId, principal, workspace, root, toolset } = options;
  const view = policies.viewOf({ policy, principal, sessionId, workspace, root });
  const hosted = toolsOf(toolset).filter((it) => !it.isolated && !it.connects && !it.upstream);
  const tiers = new Set(hosted.map((it) => it.tier));
  const allowed = [...tiers].filter((tier) =>
    [policy, ...policy.and].every((it) => it.tiers[tier].decision === 'allow'),
  );
  void hosts.warm(
    allowed
      .sort((a, b) => TIERS.indexOf(a) - TIERS.indexOf(b))
      .map((tier) => ({
        key: { tier, workspace, view, ...heapOf(policy, tier) },
        network: tier === 'execute' ? networkOf(policy) : undefined,
      })),
  );
}

function webSocketOptions(
  listen: { host: string; port: number },
  identify: Identify,
  { limits, powers }: { limits: Limits; powers: Powers },
) {
  const { frameBytesMax } = limits;
  const message = `a message over the bound of ${frameBytesMax} bytes`;
  const error = new RpcError('FRAME_TOO_LARGE', message, { max: frameBytesMax }).toWire();
  return {
    ...listen,
    ...{ limits, powers, frameBytesMax },
    isToken: (it: string) => identify(it) !== undefined,
    tooLarge: (encoding: 'msgpack' | 'json') =>
      toBytes({ id: null, error }, { framing: 'message', encoding }, frameBytesMax),
  };
}
