/** The composition root: the only file that knows every part. */
import { join } from 'node:path';
import { RpcError } from '../errors.ts';
import { Egress } from '../hosts/egress.ts';
import { HostMasks } from '../hosts/host-masks.ts';
import { Hosts, type HostsOptions } from '../hosts/hosts.ts';
import { Isolates } from '../hosts/isolates.ts';
import type { Limits } from '../limits.ts';
import { type ListenParts, listenMcp } from '../mcp/listen.ts';
import type { CachedResult } from '../pipeline/cache.ts';
import { createPipeline } from '../pipeline/pipeline.ts';
import { JudgingTurns } from '../pipeline/queue/judging-turns.ts';
import { PluginSource, type PluginStatus } from '../plugins/plugin-source.ts';
import { createProgramResolver } from '../policy/shell/programs.ts';
import { createPolicySource, type PolicySource, type ReloadResult } from '../policy/watch.ts';
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
import type { Policies } from '../session/policies.ts';
import { Results } from '../session/results.ts';
import type { Session } from '../session/session.ts';
import { sessionEntry } from '../session/session-records.ts';
import type { AuditEntry } from '../store/audit/log.ts';
import { acquireLock } from '../store/database.ts';
import { makeRoomAtStart } from '../store/disk-room.ts';
import { pastDurationMs } from '../store/past-durations.ts';
import { ResultCache } from '../store/result-cache.ts';
import { ResultLog } from '../store/result-log.ts';
import type { Tracer } from '../telemetry/tracer.ts';
import { Catalogue } from '../tools/catalogue.ts';
import { builtinToolset, internalUndo } from '../tools/registry.ts';
import type { InheritedSockets } from '../transport/inherited-sockets.ts';
import type { Channel, Listener } from '../transport/transport.ts';
import { listenUnix } from '../transport/unix-socket.ts';
import type { Config } from './config.ts';
import { createPolicies, policySource, reloadOf } from './daemon-policies.ts';
import { readIdentity } from './git-author.ts';
import { hostsToTell } from './host-status.ts';
import { createRecords, type Records } from './records.ts';
import { createTracer } from './trace-export.ts';
import { lockFile, publishEndpoint } from './user-dirs.ts';
import { warmAhead, warmFor } from './warm-hosts.ts';
import { Workspaces } from './workspaces.ts';

/** A daemon that can't start, in words for the person who started it. */
export class DaemonError extends Error {}

export interface Daemon {
  /** The addresses that the daemon listens at. */
  readonly listeners: readonly string[];
  readonly confinement: { readonly level: string; readonly missing: readonly string[]; readonly advice: string };
  /** Whether no session is open, and no call runs or waits for its turn or an answer. */
  readonly isIdle: () => boolean;
  /** Reads the policy files again, and gives why the old policy stays in force. */
  readonly reload: () => ReloadResult;
  /** Resolves when the audit log and one of the hosts have answered; rejects if the log fails. */
  readonly answers: () => Promise<void>;
  /** Resolves when the daemon begins to end, for whatever reason. */
  readonly closing: Promise<void>;
  /** Resolves when the daemon has ended, by `shutdown` or `close`. */
  readonly ended: Promise<void>;
  /** Lets calls go on for `graceMs` milliseconds, then ends everything that the daemon started. */
  close(graceMs: number, reason: string): Promise<void>;
}

/** Starts all parts of the daemon. Throws DaemonError, PolicyError, SocketError. */
export async function createDaemon(config: Config, powers: Powers, sockets: InheritedSockets = {}): Promise<Daemon> {
  const { dirs, limits, environment } = config;
  const { stateDir } = dirs;
  await using parts = new AsyncDisposableStack();
  parts.use(takeState(stateDir, { limits, powers }));
  const workspaces = new Workspaces(config, powers);
  const masks = parts.use(new HostMasks(limits, powers));
  // The first host waits for the walk of its workspace, which goes on while the sandbox is tried.
  masks.prepare(workspaces.forOperator().workspace);
  const events = new Events(limits.eventsKept);
  const records = parts.use(createRecords({ stateDir, limits, powers, events }));
  let endStaleHosts = () => {};
  const source = parts.use(
    createPolicySource(policySource(config, { powers, events, records, workspaces, onChange: () => endStaleHosts() })),
  );
  const policies = createPolicies(config, { base: () => source.current, workspaces, powers });
  const reading = readIdentity(dirs, limits, powers);
  const sandbox = parts.use(await createSandbox(sandboxOptions(config, records), powers));
  const identity = await reading;
  const log = parts.use(new ResultLog({ folder: join(stateDir, 'results'), limits, powers, room: records.diskRoom }));
  const ran = createHosts(parts, { ...records, sandbox, masks, limits, identity, environment }, powers);
  const tracer = createTracer(config.traces, parts, { sandbox, limits, powers });
  const warming = warmAhead({ hosts: ran.hosts, policies, workspaces }, powers);
  const catalogue = new Catalogue(builtinToolset());
  const providers = parts.use(createProviders(config, { ...ran, powers, records, policies, sandbox, catalogue }));
  endStaleHosts = () => {
    for (const it of [ran.hosts, providers]) it.endStale();
  };
  const credentials = new Credentials({ stateDir, principals: config.principals }, powers);
  const listeners: Listener[] = [];
  const plugins = parts.use(
    new PluginSource({ stateDir, catalogue, limits, powers, onChange: pluginChanges(records) }),
  );
  const ended = Promise.withResolvers<void>();
  const serving = new ServingTurns(limits, powers);
  const stores = { events, records, log };
  const services = { ...stores, powers, workspaces, source, policies, sandbox, ran, catalogue, providers, tracer };
  const { gateway, isIdle } = createGateway(config, {
    ...services,
    credentials,
    plugins,
    serving,
    addresses: () => listeners.map((it) => it.address),
    shutdown: (graceMs) => void close(graceMs, 'an operator asked for it'),
  });
  parts.defer(async () => void (await Promise.all(listeners.map((it) => it[Symbol.asyncDispose]()))));
  await warming;
  const served = { powers, catalogue, events, turns: serving, tracer };
  await listen(listeners, { config, sockets, gateway, credentials, workspaces, ...served });
  parts.use(publishEndpoint(stateDir, { pid: process.pid, ...dirs }));

  const daemonParts = parts.move();
  const closing = Promise.withResolvers<void>();
  let closed: Promise<void> | undefined;
  function close(graceMs: number, reason: string): Promise<void> {
    powers.log.info({ graceMs }, `shutting down: ${reason}`);
    closing.resolve();
    closed ??= gateway
      .close(graceMs, reason)
      .then(() => daemonParts.disposeAsync())
      .then(ended.resolve, ended.reject);
    return closed;
  }
  const { confinement } = sandbox;
  const addresses = listeners.map((it) => it.address);
  const reload = reloadOf(source, policies);
  const answers = () => records.auditLog.answers().then(() => ran.hosts.answers());
  return {
    listeners: addresses,
    confinement,
    isIdle,
    reload,
    answers,
    closing: closing.promise,
    ended: ended.promise,
    close,
  };
}

interface Services {
  readonly powers: Powers;
  readonly workspaces: Workspaces;
  readonly events: Events;
  readonly records: Records;
  readonly source: PolicySource;
  readonly policies: Policies;
  readonly sandbox: Sandbox;
  readonly log: ResultLog;
  readonly ran: ReturnType<typeof createHosts>;
  readonly catalogue: Catalogue;
  readonly providers: Providers;
  readonly credentials: Credentials;
  readonly plugins: PluginSource;
  readonly serving: ServingTurns;
  readonly tracer: Tracer | undefined;
  /** The addresses that the daemon listens at. */
  addresses(): string[];
  shutdown(graceMs: number): void;
}

/** Creates the pipeline that runs calls, and the gateway through which clients reach it. */
function createGateway({ dirs, limits, environment, cacheStrategy }: Config, services: Services) {
  const { powers, records, ran, policies, providers, sandbox } = services;
  const { confinement } = sandbox;
  const { hosts, isolates, compartments } = ran;
  const permission = { home: dirs.home, limits, resolve: createProgramResolver(environment.PATH) };
  const turns = new JudgingTurns(limits, powers);
  const oversight = new Oversight({
    ...records,
    permission,
    turns,
    limits,
    reloadPolicy: reloadOf(services.source, policies),
  });
  const cache = new ResultCache<CachedResult>({ strategy: cacheStrategy, limits, powers });
  const pipeline = createPipeline({
    ...records,
    ...ran,
    upstreams: providers,
    limits,
    powers,
    permission,
    turns,
    cache,
    tracer: services.tracer,
    viewOf: (call) => policies.viewOf(call),
    approvers: (sessionId) => gateway.approversOf(sessionId),
  });
  const gateway: Gateway = new Gateway({
    version,
    pipeline,
    catalogue: services.catalogue,
    policies,
    limits,
    powers,
    workspaces: services.workspaces,
    credentials: services.credentials,
    events: services.events,
    providers,
    turns: services.serving,
    oversight,
    results: new Results({ log: services.log, limits, powers }),
    callStore: records.callStore,
    ...recording(records, { limits, powers }),
    undoTool: internalUndo,
    confinement: toShown(confinement),
    probes: confinement.probes,
    warm: (session) => warmFor(session, { hosts, policies }),
    ...hostsToTell(ran, providers),
    pluginStatus: () => services.plugins.status,
    cache,
    listeners: services.addresses,
    sessionEnded: sessionEnds([hosts, isolates, compartments], oversight),
    shutdown: services.shutdown,
  });
  const used = () => [
    gateway.metrics.sessions,
    pipeline.queue.running,
    pipeline.queue.queued,
    records.approvals.pendingCount,
  ];
  const isIdle = () => used().every((it) => it === 0);
  return { gateway, isIdle };
}

interface ListenContext extends Pick<ListenParts, 'powers' | 'catalogue' | 'events' | 'turns' | 'tracer'> {
  readonly config: Config;
  readonly sockets: InheritedSockets;
  readonly credentials: Credentials;
  readonly gateway: Gateway;
  readonly workspaces: Workspaces;
}

/** Starts the listeners of the config, and adds each to `listeners` at once, so that it is ended if a later step fails. */
async function listen(
  listeners: Listener[],
  { config, sockets, gateway, workspaces, credentials: { identify, mayReadMetrics }, ...parts }: ListenContext,
): Promise<void> {
  const { dirs, limits, listenHttp: http } = config;
  const accept = (channel: Channel) => gateway.accept(channel);
  listeners.push(await listenUnix(dirs.socket, accept, { fd: sockets.control }));
  const face = {
    ...parts,
    identify,
    monitor: { mayRead: mayReadMetrics, metrics: () => gateway.metrics.text(), unready: () => gateway.unready },
    version,
    limits,
    http,
    socket: dirs.mcpSocket,
    socketFd: sockets.mcp,
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
    throw new DaemonError(
      `another daemon uses ${stateDir}; stop it with \`ringfence stop\`, or choose another state directory with --state`,
    );
  const advice = makeRoom();
  if (advice === undefined) return lock;
  lock[Symbol.dispose]();
  throw new DaemonError(`the disk has too little space for the audit log: ${advice}`);
}

/** Creates the hosts for the code of tools, callers and plugins; ended with `parts`. */
function createHosts(
  parts: AsyncDisposableStack,
  {
    undoJournal,
    ...options
  }: Pick<HostsOptions, 'sandbox' | 'masks' | 'limits' | 'identity' | 'environment'> & Records,
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
      settings,
      catalogue,
      pins: records.providerPins,
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
      kind: 'policy',
      sessionId: '',
      principal: 'daemon',
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

function webSocketOptions(
  listen: { host: string; port: number },
  identify: Identify,
  { limits, powers }: { limits: Limits; powers: Powers },
) {
  const { frameBytesMax } = limits;
  const message = `the message is longer than ${frameBytesMax} bytes, which is the maximum`;
  const error = new RpcError('FRAME_TOO_LARGE', message, { max: frameBytesMax }).toWire();
  return {
    ...listen,
    limits,
    powers,
    frameBytesMax,
    isToken: (it: string) => identify(it) !== undefined,
    tooLarge: (encoding: 'msgpack' | 'json') =>
      toBytes({ id: null, error }, { framing: 'message', encoding }, frameBytesMax),
  };
}
