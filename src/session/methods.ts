/** What answers each request of a session: one row a method. */
import type { CallOptions, CallRecord } from '../call.ts';
import { RpcError, ToolError } from '../errors.ts';
import type { CoarseIn, HostStatus } from '../hosts/hosts.ts';
import type { Limits } from '../limits.ts';
import type { Pipeline } from '../pipeline/pipeline.ts';
import type { Powers } from '../powers.ts';
import type { Method, Params } from '../protocol/messages.ts';
import { toolsOf } from '../tools/registry.ts';
import type { Batches } from './batches.ts';
import type { Credentials } from './credentials.ts';
import type { DurableCalls } from './durable-calls.ts';
import type { Events } from './events.ts';
import { findCalls, runningCalls, sessionRunning } from './find-calls.ts';
import { type Link, subscribe } from './link.ts';
import type { Oversight } from './oversight.ts';
import type { Policies } from './policies.ts';
import type { RecentCalls } from './recent-calls.ts';
import type { Results } from './results.ts';
import type { Session } from './session.ts';
import type { SessionRecords } from './session-records.ts';
import type { Sessions } from './sessions.ts';
import { toolList, toolStats } from './tool-list.ts';
import { type UndoParts, undoCall } from './undo.ts';

/** What the daemon tells of itself. */
export interface StatusParts {
  readonly version: string;
  readonly pipeline: Pipeline;
  readonly confinement: {
    level: string;
    backend: string;
    cgroup: string;
    missing: readonly string[];
    unixSockets: string;
  };
  /** What each probe of the sandbox found at start: `ok`, `leaks` or `unknown`. */
  readonly probes: Readonly<Record<string, string>>;
  readonly powers: Powers;
  hostStatus(): Promise<HostStatus[]>;
  coarseMasks(): readonly CoarseIn[];
  pluginStatus(): readonly object[];
  /** Kept results of reading. */
  readonly cache: { readonly status: object; clear(): { entries: number; bytes: number } };
  auditStatus(): { entries: number; writable: boolean; overSize?: true };
  diskStatus(): object;
  approvalsPending(): number;
  readonly policies: Pick<Policies, 'status'>;
  listeners(): string[];
  readonly providers: ProviderControl;
}

/** External tool providers, as far as requests concern them. */
export interface ProviderControl {
  list(role: 'agent' | 'operator'): { name: string; state: string; pending: number }[];
  /** Throws RpcError. */
  accept(provider: string, digests: Readonly<Record<string, string>>, by: string): object;
}

export interface MethodParts extends StatusParts, UndoParts {
  readonly batches: Batches;
  readonly oversight: Oversight;
  readonly events: Events;
  readonly results: Results;
  readonly limits: Limits;
  readonly records: SessionRecords;
  readonly startedAt: number;
  readonly sessions: Sessions;
  readonly durable: DurableCalls;
  readonly recent: RecentCalls;
  /** Operators who listen for approvals now. */
  approvers(): number;
  readonly credentials: Pick<Credentials, 'rotate'>;
  /** Begins the daemon's end; the answer is sent before it. */
  shutdown(graceMs: number): void;
}

/** Every method but hello. */
export type Methods = {
  readonly [M in Exclude<Method, 'hello'>]: (caller: Link, params: Params<M>) => unknown;
};

/** The answers; what they throw is RpcError. */
export function createMethods(parts: MethodParts): Methods {
  const { oversight, results, limits, records, sessions, durable, batches } = parts;
  return {
    'tools.list': ({ session }, params) => toolList(session, params, parts.pipeline),
    'tools.stats': ({ session }) => toolStats(session),
    'tools.call': ({ session }, { tool, input, options }) => session.call(tool, input, options as CallOptions),
    'tools.batch': ({ session, outbox }, params) => batches.run(session, params, outbox),
    'calls.cancel': ({ session }, params) => cancel(session, params, parts),
    'calls.find': (_, { id }) => findCalls(id, parts),
    'calls.get': ({ session }, { callId }) => {
      const record = recordOf(callId, session, parts);
      if (record) return record;
      throw new RpcError('INVALID_PARAMS', `this session has no call ${callId}, or it is forgotten by now`);
    },
    'calls.undo': ({ session }, params) =>
      undoCall(session, params, { ...parts, recordOf: (callId) => recordOf(callId, session, parts) }),
    'calls.list': ({ session }, { everywhere, ...filter }) => {
      if (!everywhere) return session.list(filter, durable.list(session.options));
      if (session.options.role === 'operator') return runningCalls(parts);
      throw new RpcError('FORBIDDEN', 'calls.list with `everywhere` is for operators');
    },
    'results.read': ({ session }, params) =>
      results.read(session, params, (callId) => recordOf(callId, session, parts)),
    'events.subscribe': (caller, params) => subscribe(caller, params, parts),
    'approvals.list': () => oversight.approvals(),
    'approvals.resolve': ({ session }, params) =>
      oversight.resolve(
        params,
        session.options.principal,
        (id, callId) => sessions.byId(id)?.get(callId) ?? durable.liveOf(id, callId),
      ),
    'approvals.grants': () => oversight.grants(),
    'approvals.revoke': ({ session }, { grantId }) => oversight.revoke(grantId, session.options.principal),
    'audit.query': (_, params) => oversight.audit(params),
    'audit.verify': () => oversight.verify(),
    'policy.get': ({ session }) => oversight.policy(session),
    'policy.explain': ({ session }, params) => oversight.explain(session, params),
    'policy.reload': ({ session }) => {
      const answer = oversight.reload();
      if (!answer.ok) records.reloadFailed(session, answer.problems);
      return answer;
    },
    'providers.list': ({ session }) => ({ providers: parts.providers.list(session.options.role) }),
    'providers.accept': ({ session }, { provider, tools }) =>
      parts.providers.accept(provider, tools, session.options.principal),
    'tokens.rotate': ({ session }, { names }) => rotateTokens(session, names, parts),
    'cache.clear': ({ session }) => {
      const cleared = parts.cache.clear();
      records.cacheCleared(session, cleared);
      return cleared;
    },
    status: ({ session }, params) => statusFor(session, params, parts),
    shutdown: ({ session }, { graceMs = limits.shutdownGraceMs }) => {
      records.shutdownAsked(session, graceMs);
      parts.shutdown(graceMs);
      return {};
    },
  };
}

/** Whoever still has an old token loses the sessions that it opened; detached calls go on to their limits. */
function rotateTokens(session: Session, names: readonly string[], { credentials, sessions, records }: MethodParts) {
  const rotated = credentials.rotate(names);
  const reason = 'its token was rotated';
  const ended = rotated.map(({ identity }) => sessions.endOf(identity.principal, reason, session));
  const sessionsEnded = ended.reduce((sum, it) => sum + it, 0);
  const told = rotated.map((it) => it.name);
  records.tokensRotated(session, told, sessionsEnded);
  return { rotated: told, sessionsEnded };
}

/** Answers calls.cancel: of a session's own calls and batches, detached ones of its principal, and any of an operator's. */
function cancel(
  session: Session,
  params: Params<'calls.cancel'>,
  { batches, durable, sessions, records }: MethodParts,
): { cancelled: boolean } {
  const { callId } = params;
  const isOperator = session.options.role === 'operator';
  if (!isOperator || params.session === undefined)
    if (batches.cancelAny(session, params).cancelled) return { cancelled: true };
  // A question is parked only by whoever asked it.
  if (params.park) return { cancelled: false };
  const running = isOperator ? sessionRunning(callId, params.session, sessions) : undefined;
  const reason = new ToolError('CANCELLED', 'an operator cancelled the call', { details: { by: 'operator' } });
  const cancelled = running?.abort(callId, reason) || durable.cancel(callId, session.options);
  if (isOperator && cancelled) records.cancelled(session, callId);
  return { cancelled };
}

/** A call that this session may look at: its own, detached ones of its principal, and an operator at all. */
function recordOf(
  callId: string,
  session: Session,
  { sessions, durable, recent }: MethodParts,
): CallRecord | undefined {
  const { options } = session;
  const others = options.role === 'operator' ? sessions.all : [];
  const [record] = [session, ...others.map((it) => it.session)].flatMap((it) => it.get(callId) ?? []);
  const ended = options.role === 'operator' ? () => recent.get(callId) : () => undefined;
  return record ?? durable.recordOf(callId, options) ?? ended();
}

/** Directories that `status` tells to be hidden whole. */
const COARSE_MAX = 100;

async function statusFor(session: Session, params: Params<'status'>, parts: MethodParts): Promise<object> {
  const { options } = session;
  if (params.health && options.role !== 'operator')
    throw new RpcError('FORBIDDEN', 'status with `health` is for operators');
  const { powers, version, pipeline, confinement, probes } = parts;
  const hosts = await parts.hostStatus();
  const { queued, running } = pipeline.queue;
  return {
    uptimeMs: Math.round(powers.monotonicMs() - parts.startedAt),
    version,
    pid: process.pid,
    rssBytes: process.memoryUsage.rss(),
    sessions: parts.sessions.all.length,
    calls: { queued, running, blocked: parts.approvalsPending() },
    approvers: parts.approvers(),
    ...(options.role === 'operator' && { policy: parts.policies.status }),
    // An agent learns nothing of other workspaces.
    hosts: hosts.filter(({ workspace }) => options.role === 'operator' || workspace === options.workspace),
    // First those of the one that asks; whoever makes files can make as many of these.
    coarseMasks: parts
      .coarseMasks()
      .filter(({ workspace }) => options.role === 'operator' || workspace === options.workspace)
      .slice(0, COARSE_MAX),
    plugins: parts.pluginStatus(),
    cache: parts.cache.status,
    undo: parts.undoJournal.status,
    audit: parts.auditStatus(),
    disk: parts.diskStatus(),
    listeners: parts.listeners(),
    providers: parts.providers.list('agent').map(({ name, state, pending }) => ({ name, state, pending })),
    confinement: { ...confinement, probes },
    ...(params.health && { health: await healthFor(session, parts) }),
  };
}

/** What the tools that can say it say of themselves, in the workspace of who asks. */
async function healthFor({ options, policy }: Session, { pipeline }: MethodParts): Promise<object[]> {
  const { id: sessionId, principal, workspace, root, toolset } = options;
  const asker = { policy: policy(), principal, sessionId, workspace, root };
  const all = await pipeline.health.check(toolsOf(toolset), asker);
  return [...all].map(([name, health]) => ({ name, ...health }));
}
