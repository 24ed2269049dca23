/** The handlers of a session's requests, one for each method. */

import type { CallOptions, CallRecord, NamedCall } from '../base/call.ts';
import { RpcError, ToolError } from '../base/errors.ts';
import type { Limits } from '../base/limits.ts';
import type { BackgroundCommands } from '../pipeline/execute/background/background-commands.ts';
import { tierBoundsOf } from '../pipeline/execute/bounds.ts';
import type { UntrustedMarks } from '../store/approvals/untrusted-marks.ts';
import type { Paused } from '../store/pause-file.ts';
import { CONTENT_TYPE } from '../store/telemetry/families.ts';
import { spanContextOf } from '../store/telemetry/trace-context.ts';
import { toolsOf } from '../tools/registry.ts';
import type { Method, Params } from '../wire/protocol/messages.ts';
import type { Batches } from './batches.ts';
import { type ClientLink, subscribe } from './client-link.ts';
import type { Fences } from './connections/fences.ts';
import type { Credentials } from './credentials.ts';
import type { DaemonMetrics } from './daemon-metrics.ts';
import type { Attenuations } from './delegation/attenuations.ts';
import { chainOf } from './delegation/delegation.ts';
import type { DurableCalls } from './durable-calls.ts';
import type { Events } from './events.ts';
import { allCalls, findCalls, runningCalls, sessionRunning } from './operator/find-calls.ts';
import type { Forwards } from './operator/forwards.ts';
import { type PanelControl, panelMethods, revokeAllPages } from './operator/panel-methods.ts';
import type { Pause } from './operator/pause-methods.ts';
import type { StatusParts } from './operator/status-parts.ts';
import { untrustedMarks } from './operator/untrusted.ts';
import type { Oversight } from './oversight.ts';
import type { RecentCalls } from './recent-calls.ts';
import type { Results } from './results.ts';
import type { Session } from './session.ts';
import type { SessionRecords } from './session-records.ts';
import type { Sessions } from './sessions.ts';
import { foundTools, toolList, toolStats, withTimes } from './tool-list.ts';
import { checkpointMethods } from './undo/checkpoints.ts';
import { type KeptChangesParts, previewMethods } from './undo/previews.ts';
import { type QuarantineParts, quarantineMethods } from './undo/quarantine.ts';
import { undoCall } from './undo/undo.ts';

export interface MethodParts extends StatusParts, KeptChangesParts, Pick<QuarantineParts, 'quarantine'> {
  readonly batches: Batches;
  readonly oversight: Oversight;
  readonly events: Events;
  readonly results: Results;
  readonly limits: Limits;
  readonly records: SessionRecords;
  readonly startedAt: number;
  readonly metrics: DaemonMetrics;
  readonly sessions: Sessions;
  readonly durable: DurableCalls;
  readonly recent: RecentCalls;
  readonly attenuations: Attenuations;
  readonly fences: Fences;
  /** Number of operators who listen for approvals now. */
  approvers(): number;
  readonly credentials: Pick<Credentials, 'rotate'>;
  readonly panel: PanelControl;
  readonly pause: Pause;
  /** The settings, workspaces and names of secrets. */
  settings(): object;
  readonly untrusted: UntrustedMarks;
  readonly forwards: Forwards;
  readonly background: BackgroundCommands;
  /** Shows how the operator's policy would change, or writes it. Throws RpcError. */
  changeLevel(asked: Params<'policy.set'>): Promise<{ path: string; isWritten: boolean; isInForce: boolean }>;
  /** Starts the daemon's shutdown after the answer was sent. */
  shutdown(graceMs: number): void;
  /** Starts a new daemon, and hands over to it after the answer was sent. Throws RpcError if it does not start. */
  upgrade(drainMs: number): Promise<Successor>;
}

/** A new daemon that is about to take over. */
export interface Successor {
  readonly pid: number;
  readonly version: string;
}

/** One handler for every method except hello; those of capabilities that the daemon lacks are absent. */
export type Methods = {
  readonly [M in Exclude<Method, 'hello'>]?: (caller: ClientLink, params: Params<M>) => unknown;
};

/** The methods that capabilities answer; they learn who asks, and nothing else of the session. */
const methodsOf = (running: StatusParts['running']): Methods =>
  Object.fromEntries(
    running.flatMap(({ methods = {} }) =>
      Object.entries(methods).map(([name, answer]) => [
        name,
        ({ session }: ClientLink, params: unknown) => answer(session.options, params as never),
      ]),
    ),
  );

function callTool(session: Session, { tool, input, options, _meta }: Params<'tools.call'>): unknown {
  const span = spanContextOf(_meta);
  return session.call(tool, input, (span ? { ...options, span } : options) as CallOptions);
}

/** Creates the handlers, which throw only RpcError. */
export function createMethods(parts: MethodParts): Methods {
  const { oversight, results, limits, records, sessions, durable, batches, pause } = parts;
  return {
    'tools.list': ({ session }, params) => {
      const list = toolList(session, params, parts.pipeline);
      return params.estimates ? oversight.usualTimes().then((times) => withTimes(list, times)) : list;
    },
    'tools.search': ({ session }, query) => foundTools(session, query, parts.pipeline),
    'tools.stats': async ({ session }, params) => ({ ...toolStats(session), usage: await oversight.usage(params) }),
    'tools.call': ({ session }, params) => callTool(session, params),
    'tools.batch': ({ session, outbox }, params) => batches.run(session, params, { outbox }),
    ...batches.recent.methods,
    'calls.cancel': ({ session }, params) => cancel(session, params, parts),
    'calls.find': (_, asked) => findCalls(asked, parts),
    'calls.get': ({ session }, { callId, session: of }) => {
      const record = recordOf({ callId, of }, session, parts);
      if (record) return record;
      throw new RpcError('INVALID_PARAMS', `this session has no call ${callId}, or its record is no longer kept`);
    },
    'calls.undo': ({ session }, params) =>
      undoCall(session, params, { ...parts, recordOf: (named) => recordOf(named, session, parts) }),
    ...checkpointMethods(parts),
    'calls.list': ({ session }, { everywhere, ended, ...filter }) => {
      if (!everywhere) return session.list(filter, durable.list(session.options));
      if (session.options.role === 'operator') return ended ? allCalls(filter.limit, parts) : runningCalls(parts);
      throw new RpcError('FORBIDDEN', 'only operators may use calls.list with `everywhere`');
    },
    'results.read': ({ session }, params) => results.read(session, params, (named) => recordOf(named, session, parts)),
    'events.subscribe': (caller, params) => subscribe(caller, params, parts),
    'approvals.list': () => oversight.approvals(),
    'approvals.get': (_, { approvalId }) => oversight.wholeApproval(approvalId),
    'approvals.resolve': ({ session }, { onBehalfOf, ...params }) =>
      oversight.resolve(
        params,
        onBehalfOf === undefined ? session.options.principal : `${session.options.principal} for ${onBehalfOf}`,
        (id, callId) => sessions.byId(id)?.get(callId) ?? durable.liveOf(id, callId),
      ),
    'approvals.grants': () => oversight.grants(),
    'approvals.untrusted': (caller, params) => untrustedMarks(caller, params, parts),
    'approvals.revoke': ({ session }, params) => oversight.revoke(params, session.options.principal),
    ...auditMethods(oversight),
    'policy.get': ({ session }) => oversight.policy(session),
    'policy.explain': ({ session }, params) => oversight.explain(session, params),
    'policy.backtest': ({ session }, params) => oversight.backtest(session, params),
    'policy.set': ({ session }, params) => setLevel(session, params, parts),
    'policy.reload': ({ session }) => reloadPolicy(session, parts),
    'tokens.rotate': ({ session }, { names }) => rotateTokens(session, names, parts),
    ...previewMethods(parts),
    ...quarantineMethods(parts),
    ...panelMethods(parts),
    ...parts.forwards.methods,
    ...pause.methods,
    'settings.read': () => parts.settings(),
    ...parts.attenuations.methods,
    ...parts.fences.methods,
    ...methodsOf(parts.running),
    'cache.clear': ({ session }) => clearCache(session, parts),
    'costs.read': ({ session }, params) => oversight.costs(session, params),
    'metrics.read': (_, params) => readMetrics(params, parts),
    status: ({ session }, params) => statusFor(session, params, parts),
    shutdown: ({ session }, { graceMs = limits.shutdownGraceMs }) => {
      records.note(session, 'shutdown-asked', { graceMs });
      parts.shutdown(graceMs);
      return {};
    },
    upgrade: ({ session }, params) => upgrade(session, params, parts),
  };
}

const auditMethods = (oversight: Oversight) => ({
  'audit.query': (_: ClientLink, params: Params<'audit.query'>) => oversight.audit(params),
  'audit.daily': (_: ClientLink, params: Params<'audit.daily'>) => oversight.daily(params),
  'audit.verify': () => oversight.verify(),
  'audit.prune': ({ session }: ClientLink, params: Params<'audit.prune'>) =>
    oversight.prune(params, session.options.principal),
});

/** Answers `policy.reload`. */
function reloadPolicy(session: Session, { oversight, records }: MethodParts) {
  const answer = oversight.reload();
  if (!answer.ok) records.note(session, 'reload-failed', { problems: answer.problems.slice(0, PROBLEMS_MAX) });
  return answer;
}

/** Answers `policy.set`; what was written holds from the next call on. */
async function setLevel(session: Session, asked: Params<'policy.set'>, parts: MethodParts): Promise<object> {
  const changed = await parts.changeLevel(asked);
  if (changed.isWritten) {
    parts.records.note(session, 'level-set', { tool: asked.tool, level: asked.level, file: changed.path });
    if (changed.isInForce) reloadPolicy(session, parts);
  }
  return changed;
}

/** Answers `cache.clear`. */
function clearCache(session: Session, { cache, records }: MethodParts) {
  const cleared = cache.clear();
  records.note(session, 'cache-cleared', cleared);
  return cleared;
}

/** Answers `upgrade`. Throws RpcError if there is no new daemon to hand over to. */
async function upgrade(session: Session, { drainMs }: Params<'upgrade'>, parts: MethodParts): Promise<Successor> {
  const givenMs = drainMs ?? parts.limits.upgradeDrainMs;
  parts.records.note(session, 'upgrade-asked', { drainMs: givenMs });
  const { pid, version } = await parts.upgrade(givenMs);
  return { pid, version };
}

/** Answers `tokens.rotate`. Ends the sessions that the old tokens opened; detached calls continue up to their limits. */
function rotateTokens(session: Session, names: readonly string[], parts: MethodParts) {
  const { credentials, sessions, records } = parts;
  const rotated = credentials.rotate(names);
  const reason = 'its token was rotated';
  const ended = rotated.map(({ identity }) => (identity ? sessions.endOf(identity.principal, reason, session) : 0));
  // Pages were signed in by holders of the operator's old token.
  if (rotated.some(({ identity }) => identity?.role === 'operator')) revokeAllPages(session, parts);
  const sessionsEnded = ended.reduce((sum, it) => sum + it, 0);
  const rotatedNames = rotated.map((it) => it.name);
  records.note(session, 'tokens-rotated', { names: rotatedNames, sessionsEnded });
  return { rotated: rotatedNames, sessionsEnded };
}

/** Answers `metrics.read`. */
async function readMetrics({ format }: Params<'metrics.read'>, { metrics }: MethodParts): Promise<object> {
  if (format === 'json') return { families: await metrics.families() };
  return { contentType: CONTENT_TYPE, text: await metrics.text() };
}

/**
 * Answers `calls.cancel`: for a session's own calls and batches, detached calls of its principal, and for an operator any call,
 * with the commands that it left in the background.
 */
function cancel(
  session: Session,
  params: Params<'calls.cancel'>,
  { batches, durable, sessions, records, background }: MethodParts,
): { cancelled: boolean } {
  const { callId } = params;
  const isOperator = session.options.role === 'operator';
  if (!isOperator || params.session === undefined)
    if (batches.cancelAny(session, params).cancelled) return { cancelled: true };
  // Only the session that made a call can park its question.
  if (params.park) return { cancelled: false };
  const running = isOperator ? sessionRunning(callId, params.session, sessions) : undefined;
  const reason = new ToolError('CANCELLED', 'an operator cancelled the call', { details: { by: 'operator' } });
  const owner = isOperator && params.session !== undefined ? sessions.byId(params.session) : undefined;
  const isBatch = owner !== undefined && batches.cancel(owner, callId, reason);
  const left = isOperator ? background.running(callId) : [];
  for (const it of left) void background.stop(it);
  const cancelled =
    running?.abort(callId, reason) || durable.cancel(callId, session.options) || isBatch || left.length > 0;
  if (isOperator && cancelled) records.note(session, 'cancelled', { callId });
  return { cancelled };
}

/** A call that this session may see: its own, detached ones of its principal, any call for an operator. */
function recordOf(
  { callId, of }: NamedCall,
  session: Session,
  { sessions, durable, recent }: MethodParts,
): CallRecord | undefined {
  const { options } = session;
  const isOperator = options.role === 'operator';
  const isMeant = (it: CallRecord | undefined) => it && (of === undefined || it.sessionId === of);
  const others = isOperator ? sessions.all : [];
  const known = [session, ...others.map((it) => it.session)].map((it) => it.get(callId)).find(isMeant);
  const found =
    known ??
    [durable.recordOf(callId, options), isOperator ? recent.get(callId, of) : undefined].find(isMeant) ??
    (isOperator && of !== undefined ? durable.liveOf(of, callId) : undefined);
  if (found && found.sessionId !== options.id) options.untrusted.carry();
  return found;
}

/** Most policy problems recorded for one failed reload. */
const PROBLEMS_MAX = 16;
/** Most directories that `status` lists as hidden completely. */
const COARSE_MAX = 100;

async function statusFor(session: Session, params: Params<'status'>, parts: MethodParts): Promise<object> {
  const { options } = session;
  if (params.health && options.role !== 'operator')
    throw new RpcError('FORBIDDEN', 'only operators may use status with `health`');
  const { powers, version, pipeline, confinement, probes } = parts;
  const [hosts, health] = await Promise.all([
    parts.hostStatus(),
    params.health ? healthFor(session, parts) : undefined,
    params.health ? Promise.all(parts.running.map(async (it) => it.checkHealth?.())) : undefined,
  ]);
  const { queued, running } = pipeline.queue;
  return {
    uptimeMs: Math.round(powers.monotonicMs() - parts.startedAt),
    version,
    pid: process.pid,
    rssBytes: process.memoryUsage.rss(),
    sessions: parts.sessions.all.length,
    calls: { queued, running, blocked: parts.approvalsPending() },
    approvers: parts.approvers(),
    ...pausedOf(parts.pause.state ?? parts.pause.of(session)),
    ...(options.role === 'operator' && {
      policy: parts.policies.status,
      openSessions: openSessions(parts),
      warm: parts.fences.warm,
      traces: pipeline.tracer?.status,
    }),
    // An agent must not learn about other workspaces.
    hosts: hosts.filter(({ workspace }) => options.role === 'operator' || workspace === options.workspace),
    // Filters before the limit, since the owner of another workspace could fill the list with files.
    coarseMasks: parts
      .coarseMasks()
      .filter(({ workspace }) => options.role === 'operator' || workspace === options.workspace)
      .slice(0, COARSE_MAX),
    unfollowed: parts
      .unfollowed()
      .filter(({ workspace }) => options.role === 'operator' || workspace === options.workspace),
    outsidePrograms: parts
      .outsidePrograms()
      .filter(({ workspace }) => options.role === 'operator' || workspace === options.workspace),
    ...Object.assign({}, ...parts.running.map((it) => it.status?.(options.role))),
    cache: parts.cache.status,
    undo: parts.undoJournal.status,
    audit: parts.auditStatus(),
    disk: parts.diskStatus(),
    listeners: parts.listeners(),
    bounds: tierBoundsOf(session.policy(), parts.limits),
    confinement: { ...confinement, probes, gaps: parts.gaps },
    health,
  };
}

/** Most sessions that `status` lists. */
const SESSIONS_MAX = 100;

const pausedOf = (paused: Paused | undefined) => (paused ? { paused } : {});

function openSessions({ sessions, pause }: MethodParts): object[] {
  return sessions.all.slice(0, SESSIONS_MAX).map(({ session }) => {
    const { id: sessionId, client, principal, role, workspace, mode, delegation } = session.options;
    const how = {
      mode,
      parent: delegation?.parent.options.id,
      ...(chainOf(session).length > 0 && { chain: chainOf(session) }),
      ...pausedOf(pause.of(session)),
    };
    return { sessionId, client, principal, role, workspace, ...how, calls: session.underWay.length };
  });
}

/** Health reports of tools that support them, in the caller's workspace. */
async function healthFor({ options, policy }: Session, { pipeline }: MethodParts): Promise<object[]> {
  const { id: sessionId, principal, workspace, root, toolset } = options;
  const asker = { policy: policy(), principal, sessionId, workspace, root };
  const all = await pipeline.health.check(toolsOf(toolset), asker);
  return [...all].map(([name, health]) => ({ name, ...health }));
}
