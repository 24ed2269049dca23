/** The composition root: the only file that knows every part. */

import { existsSync } from 'node:fs';
import type { Server } from 'node:net';
import { join } from 'node:path';
import type { Limits } from '../base/limits.ts';
import type { Powers } from '../base/powers.ts';
import { runtime, version } from '../base/runtime.ts';
import { Batches } from '../gateway/batches.ts';
import { Fences } from '../gateway/connections/fences.ts';
import { Credentials, type CredentialsOptions } from '../gateway/credentials.ts';
import { Attenuations } from '../gateway/delegation/attenuations.ts';
import { DurableCalls } from '../gateway/durable-calls.ts';
import { Events } from '../gateway/events.ts';
import { Gateway } from '../gateway/gateway.ts';
import type { Successor } from '../gateway/methods.ts';
import type { PanelControl } from '../gateway/operator/panel-methods.ts';
import { Oversight } from '../gateway/oversight.ts';
import type { Policies } from '../gateway/policies.ts';
import { Results } from '../gateway/results.ts';
import type { Session } from '../gateway/session.ts';
import { sessionEntry } from '../gateway/session-records.ts';
import { WalkMarks } from '../hosts/follower/walk-marks.ts';
import { type Guarding, HostMasks } from '../hosts/host-masks.ts';
import { Quarantine } from '../hosts/quarantine/quarantine.ts';
import type { CachedResult } from '../pipeline/cache.ts';
import type { LeftNames } from '../pipeline/execute/left-names.ts';
import { createPipeline } from '../pipeline/pipeline.ts';
import { JudgingTurns } from '../pipeline/queue/judging-turns.ts';
import { createProgramResolver } from '../policy/shell/programs.ts';
import { createPolicySource, type PolicySource, type ReloadResult } from '../policy/watch.ts';
import { createSandbox, type Sandbox, type SandboxOptions, toShown, wallsOf } from '../sandbox/sandbox.ts';
import { registrySettings } from '../services/registries/registries.ts';
import type { AuditEntry } from '../store/audit/log.ts';
import { cachesOf } from '../store/caches.ts';
import { CommandHomes } from '../store/command-homes.ts';
import { pastDurationMs } from '../store/past-durations.ts';
import { Previews, type PreviewsOptions } from '../store/previews.ts';
import { ResultCache } from '../store/result-cache.ts';
import { ResultLog } from '../store/result-log.ts';
import type { Tracer } from '../store/telemetry/tracer.ts';
import { internalTools } from '../tools/registry.ts';
import { ServingTurns } from '../wire/protocol/serving-turns.ts';
import type { InheritedSockets, SocketName } from '../wire/transport/inherited-sockets.ts';
import { changeLevel } from './config/policy-level.ts';
import { settingsAnswer } from './config/settings.ts';
import type { Config } from './config.ts';
import { createHosts, hostsToTell } from './daemon-hosts.ts';
import { assertPolicy, createPolicies, policyOf, policySource, reloadOf } from './daemon-policies.ts';
import { Ending } from './ending.ts';
import { createFleetWorkspaces, type FleetParts, linkToFleet } from './fleet-parts.ts';
import { readIdentity } from './git-author.ts';
import { Listeners } from './listeners.ts';
import { createSignIn, panelControl, usePage } from './panel.ts';
import { createRecords, type Records } from './records.ts';
import { startCapabilities } from './running.ts';
import { StateLock } from './state-lock.ts';
import { createTracer } from './trace-export.ts';
import { publishEndpoint } from './user-dirs.ts';
import { warmAhead, warmFor } from './warm-hosts.ts';
import { Workspaces } from './workspaces.ts';

export interface Daemon {
  /** The addresses that the daemon listens at. */
  readonly listeners: readonly string[];
  readonly confinement: { readonly level: string; readonly missing: readonly string[]; readonly advice: string };
  /** What a person should know of the policy since this start. */
  readonly note: string | undefined;
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
  /**
   * Accepts no further connections, tells clients to connect again, lets calls go on for up to `drainMs` milliseconds,
   * then ends everything that the daemon started.
   */
  handOver(drainMs: number): void;
  /** Lets calls go on for `graceMs` milliseconds, then ends everything that the daemon started. */
  close(graceMs: number, reason: string): Promise<void>;
}

export interface DaemonStart {
  readonly sockets: InheritedSockets;
  /**
   * Present if another daemon hands over: called when nothing but the state is needed any more; resolves when the other
   * daemon has closed the state.
   */
  readonly turn?: (() => Promise<void>) | undefined;
  /** Address of the bus of the daemon's fleet. */
  readonly fleet?: string | undefined;
  /** Starts another daemon, to which `handOver` is done soon. Throws RpcError. */
  upgrade(drainMs: number, servers: ReadonlyMap<SocketName, Server>): Promise<Successor>;
}

/** Starts all parts of the daemon. Throws DaemonError, PolicyError, SocketError. */
export async function createDaemon(
  config: Config,
  powers: Powers,
  { sockets, turn, fleet, upgrade }: DaemonStart,
): Promise<Daemon> {
  const { dirs, limits } = config;
  const { stateDir } = dirs;
  await using parts = new AsyncDisposableStack();
  const state = parts.use(new StateLock(stateDir, { version, limits, powers }));
  if (!turn) await state.take();
  const isUsed = existsSync(join(stateDir, 'audit.db'));
  const [workspaces, events] = [new Workspaces(config, powers), new Events(limits.eventsKept)];
  const late = { leftNames: () => leftNames, previews: () => previews };
  const { masks, quarantine } = createMasks(parts, { stateDir, limits, powers, ...late });
  const { commandHomes, previews } = openFolders(parts, { ...config, stateDir, powers });
  const spoolOf = (workspace: string) => records.undoJournal.spoolOf(workspace);
  const trying = createSandbox(sandboxOptions(config, { commandHomes, previews, spoolOf }), powers);
  // The first host waits for the walk of its workspace, which goes on while the sandbox is tried.
  masks.prepare(workspaces.forOperator().workspace);
  const reading = readIdentity(dirs, limits, powers);
  const sandbox = parts.use(await trying);
  if (turn) await takeTurn(turn, { config, workspaces, state });
  for (const it of [commandHomes, previews]) it.prune();
  const records = parts.use(createRecords({ stateDir, limits, powers, events }));
  let endStaleHosts = () => {};
  const source = parts.use(
    createPolicySource(policySource(config, { powers, events, records, workspaces, onChange: () => endStaleHosts() })),
  );
  const policies = createPolicies(config, { base: () => source.current, workspaces, powers, isUsed });
  const identity = await reading;
  const log = parts.use(new ResultLog({ folder: join(stateDir, 'results'), limits, powers, room: records.diskRoom }));
  const ran = createHosts(parts, { ...records, previews, sandbox, masks, quarantine, identity, config }, powers);
  const tracer = createTracer(config.traces, parts, { sandbox, limits, outgoing: config.outgoing, powers });
  const warming = warmAhead({ ...ran, ...records, policies, workspaces, limits, powers });
  const known = { ...ran, parts, sandbox, workspaces, records, policies, powers };
  const capabilities = startCapabilities(config, { ...known, ...records, gateway: () => gateway });
  endStaleHosts = () => {
    for (const it of [ran.hosts, ...capabilities.running]) it.endStale?.();
  };
  const [signIn, listeners] = [createSignIn({ records, limits, powers }), new Listeners()];
  const identities = createIdentities(config, { ...known, pageOf: (it) => signIn.pageOf(it) });
  const serving = new ServingTurns(limits, powers, () => capabilities.catalogue.onArrival());
  const { gateway, isIdle, leftNames } = createGateway(config, {
    ...known,
    ran,
    capabilities,
    commandHomes,
    events,
    log,
    source,
    tracer,
    identities,
    serving,
    addresses: () => listeners.addresses,
    panel: panelControl(listeners, signIn, records),
    shutdown: (graceMs) => void ending.close(graceMs, 'an operator asked for it'),
    upgrade: (drainMs) => upgrade(drainMs, listeners.servers),
  });
  parts.use(listeners);
  await warming;
  const { catalogue } = capabilities;
  const served = { powers, catalogue, events, turns: serving, tracer, panelSessions: records.panelSessions };
  await listeners.start({ config, sockets, gateway, ...identities, workspaces, signIn, ...served });
  parts.use(publishEndpoint(stateDir, { pid: process.pid, ...dirs }));
  await linkToFleet(fleet, { parts, dirs, powers });
  const ending = new Ending({ gateway, listeners, daemonParts: parts.move(), powers });
  const answers = () => records.auditLog.answers().then(() => ran.hosts.answers());
  const { closing, ended, handOver, close } = ending;
  const [{ addresses }, { confinement }, { note }, reload] = [listeners, sandbox, policies, reloadOf(source, policies)];
  return { listeners: addresses, confinement, note, isIdle, reload, answers, closing, ended, handOver, close };
}

/** The masks of workspaces, and the quarantine of what commands make at protected names. */
function createMasks(
  parts: AsyncDisposableStack,
  {
    stateDir,
    limits,
    powers,
    leftNames,
    previews,
  }: PreviewsOptions & { leftNames(): Pick<LeftNames, 'askOwner' | 'knownAmong'>; previews(): Previews },
) {
  const walks = new WalkMarks(join(stateDir, 'walks'));
  const quarantine = new Quarantine(join(stateDir, 'quarantine'), powers);
  const guarding: Guarding = {
    quarantine,
    knownAmong: (workspace, texts, owner) => leftNames().knownAmong(workspace, texts, owner),
    onItems: (items, owner) => leftNames().askOwner(items, owner),
    copiesPlace: (workspace) => previews().folderOf(workspace),
  };
  return { quarantine, masks: parts.use(new HostMasks(limits, powers, { walks, guarding })) };
}

/** The folders in which commands keep something, and those in which they find programs of capabilities. */
function openFolders(
  parts: AsyncDisposableStack,
  { capabilities, ...options }: PreviewsOptions & Pick<Config, 'capabilities'>,
) {
  for (const it of capabilities) it.forCommands?.make();
  return { commandHomes: new CommandHomes(options), previews: parts.use(new Previews(options)) };
}

/** Creates what knows the tokens: the daemon's own, and those that sessions passed on. */
function createIdentities(
  config: Config,
  given: FleetParts & Pick<Services, 'policies'> & Pick<CredentialsOptions, 'pageOf'>,
): { readonly credentials: Credentials; readonly attenuations: Attenuations; readonly fences: Fences } {
  const { principals, limits, dirs } = config;
  const { stateDir } = dirs;
  const { policies, pageOf, powers } = given;
  const attenuations = new Attenuations({ policies, limits, powers });
  const issuers = { attenuations, fences: new Fences(limits, powers, createFleetWorkspaces(config, given)) };
  return { credentials: new Credentials({ stateDir, principals, pageOf, ...issuers }, powers), ...issuers };
}

/** Takes over from another daemon, as late as possible. Throws PolicyError and DaemonError before that. */
async function takeTurn(
  turn: () => Promise<void>,
  { config, workspaces, state }: { config: Config; workspaces: Workspaces; state: StateLock },
): Promise<void> {
  assertPolicy(config, workspaces);
  state.check();
  await turn();
  await state.take();
}

interface Services {
  readonly commandHomes: CommandHomes;
  readonly powers: Powers;
  readonly workspaces: Workspaces;
  readonly events: Events;
  readonly records: Records;
  readonly source: PolicySource;
  readonly policies: Policies;
  readonly sandbox: Sandbox;
  readonly log: ResultLog;
  readonly ran: ReturnType<typeof createHosts>;
  readonly capabilities: ReturnType<typeof startCapabilities>;
  readonly identities: ReturnType<typeof createIdentities>;
  readonly serving: ServingTurns;
  readonly tracer: Tracer | undefined;
  /** The addresses that the daemon listens at. */
  addresses(): string[];
  readonly panel: PanelControl;
  shutdown(graceMs: number): void;
  upgrade(drainMs: number): Promise<Successor>;
}

/** Creates the pipeline that runs calls, and the gateway through which clients reach it. */
function createGateway(config: Config, services: Services) {
  const { dirs, limits, environment, toolchains } = config;
  const { powers, records, ran, policies, sandbox, capabilities } = services;
  const permission = { home: dirs.home, limits, toolchains, resolve: createProgramResolver(environment.PATH) };
  const turns = new JudgingTurns(limits, powers);
  const oversight = new Oversight({
    ...records,
    permission,
    turns,
    limits,
    powers,
    parsePolicy: (text) => policyOf(text, limits),
    reloadPolicy: reloadOf(services.source, policies),
  });
  const cache = new ResultCache<CachedResult>({ strategy: config.cacheStrategy, limits, powers });
  const own = { commitTool: internalTools.askedCommit, permission, turns, cache, tracer: services.tracer };
  const pipeline = createPipeline({ ...ran, ...records, ...capabilities, ...own });
  const gateway = new Gateway({
    version,
    pipeline,
    ...capabilities,
    policies,
    limits,
    powers,
    workspaces: services.workspaces,
    ...services.identities,
    events: services.events,
    turns: services.serving,
    oversight,
    results: new Results({ log: services.log, limits, powers }),
    callStore: records.callStore,
    ...recording(records, { limits, powers }),
    internalTools,
    ...ran,
    confinement: toShown(sandbox.confinement),
    ...wallsOf(sandbox.confinement),
    warm: (session) => warmFor(session, { hosts: ran.hosts, policies, limits, powers }),
    ...hostsToTell(ran.hosts, capabilities.running),
    cache: cachesOf(cache, records.webCache),
    listeners: services.addresses,
    sessionEnded: sessionEnds(services, oversight),
    panel: services.panel,
    settings: () => settingsAnswer(config, services.workspaces.all),
    changeLevel: (asked) => changeLevel(asked, config),
    pauseFile: join(dirs.stateDir, 'paused.json'),
    shutdown: services.shutdown,
    upgrade: services.upgrade,
  });
  const waiting = () => records.approvals.pendingCount + ran.previews.status.kept + ran.background.all.length;
  const isIdle = () => gateway.metrics.sessions + pipeline.queue.running + pipeline.queue.queued + waiting() === 0;
  return { gateway, isIdle, leftNames: pipeline.leftNames };
}

function sandboxOptions(
  { dirs, workspaces, toolchains, capabilities, certificates, registries, limits, cgroup }: Config,
  kept: { commandHomes: CommandHomes; previews: Previews } & Required<Pick<SandboxOptions, 'spoolOf'>>,
): SandboxOptions {
  const { arch, platform } = process;
  const homesOf = (it: string) => kept.commandHomes.folderOf(it);
  const previewsOf = (it: string) => kept.previews.folderOf(it);
  const own = { homesOf, previewsOf, spoolOf: kept.spoolOf, runtime, version, arch, platform, stateDir: dirs.stateDir };
  const settings = registrySettings(registries);
  const hostFolders = capabilities.flatMap((it) => it.forCommands?.ofHosts ?? []);
  return { ...own, workspaces, toolchains, hostFolders, certificates, settings, limits, cgroup };
}

/** Notifies hosts, capabilities, doors and oversight of a session's end. */
const sessionEnds =
  ({ ran: { hosts, forwards }, commandHomes, records, capabilities }: Services, oversight: Oversight) =>
  (session: Session): void => {
    usePage(session, records);
    for (const it of [hosts, forwards, commandHomes, capabilities.doors, ...capabilities.running])
      it.endSession?.(session.options.id);
    oversight.sessionEnded(session);
  };

/** The records that the gateway needs. */
const recording = (
  { auditLog, approvals, callStore, undoJournal, diskRoom, panelSessions, untrusted }: Records,
  { limits, powers }: { limits: Limits; powers: Powers },
) => ({
  undoJournal,
  untrusted,
  durable: new DurableCalls(callStore, limits),
  batches: new Batches({ limits, powers, pastDurationMs: (...asked) => pastDurationMs(auditLog, ...asked) }),
  auditStatus: () => auditLog.status,
  diskStatus: () => diskRoom.status,
  approvalsPending: () => approvals.pendingCount,
  recordSession(session: Session) {
    auditLog.append(sessionEntry(session));
    usePage(session, { panelSessions });
  },
  record: (entry: AuditEntry) => auditLog.append(entry),
});
