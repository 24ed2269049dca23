/** What answers each request of a session: one row a method. */
import type { CallOptions, CallRecord } from '../call.ts';
import { RpcError } from '../errors.ts';
import type { HostStatus } from '../hosts/hosts.ts';
import type { Limits } from '../limits.ts';
import type { Pipeline } from '../pipeline/pipeline.ts';
import type { Powers } from '../powers.ts';
import type { Method, Params } from '../protocol/messages.ts';
import type { Batches } from './batches.ts';
import type { DurableCalls } from './durable-calls.ts';
import type { Events } from './events.ts';
import { type Link, subscribe } from './link.ts';
import type { Oversight } from './oversight.ts';
import type { Results } from './results.ts';
import type { Session } from './session.ts';
import type { SessionRecords } from './session-records.ts';
import type { Sessions } from './sessions.ts';
import { toolList } from './tool-list.ts';
import { type UndoParts, undoCall } from './undo.ts';

/** What the daemon tells of itself. */
export interface StatusParts {
  readonly version: string;
  readonly pipeline: Pipeline;
  readonly confinement: { level: string; backend: string; cgroup: string; missing: readonly string[] };
  /** What each probe of the sandbox found at start: `ok`, `leaks` or `unknown`. */
  readonly probes: Readonly<Record<string, string>>;
  readonly powers: Powers;
  hostStatus(): Promise<HostStatus[]>;
  pluginStatus(): readonly object[];
  cacheStatus(): object;
  auditStatus(): { entries: number; writable: boolean; overSize?: true };
  approvalsPending(): number;
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
  /** Operators who listen for approvals now. */
  approvers(): number;
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
    'tools.list': ({ session }, params) => toolList(session, params),
    'tools.call': ({ session }, { tool, input, options }) => session.call(tool, input, options as CallOptions),
    'tools.batch': ({ session, outbox }, params) => batches.run(session, params, outbox),
    'calls.cancel': ({ session }, params) => {
      const { cancelled } = batches.cancelAny(session, params);
      return { cancelled: cancelled || durable.cancel(params.callId, session.options) };
    },
    'calls.get': ({ session }, { callId }) => {
      const record = recordOf(callId, session, parts);
      if (record) return record;
      throw new RpcError('INVALID_PARAMS', `this session has no call ${callId}, or it is forgotten by now`);
    },
    'calls.undo': ({ session }, params) =>
      undoCall(session, params, { ...parts, known: recordOf(params.callId, session, parts) }),
    'calls.list': ({ session }, params) => session.list(params, durable.list(session.options)),
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
    status: ({ session }) => statusFor(session, parts),
    shutdown: ({ session }, { graceMs = limits.shutdownGraceMs }) => {
      records.shutdownAsked(session, graceMs);
      parts.shutdown(graceMs);
      return {};
    },
  };
}

/** A call that this session may look at: its own, detached ones of its principal, and an operator at all. */
function recordOf(callId: string, session: Session, { sessions, durable }: MethodParts): CallRecord | undefined {
  const { options } = session;
  const others = options.role === 'operator' ? sessions.all : [];
  const [record] = [session, ...others.map((it) => it.session)].flatMap((it) => it.get(callId) ?? []);
  return record ?? durable.recordOf(callId, options);
}

async function statusFor({ options }: Session, parts: MethodParts): Promise<object> {
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
    // An agent learns nothing of other workspaces.
    hosts: hosts.filter(({ workspace }) => options.role === 'operator' || workspace === options.workspace),
    plugins: parts.pluginStatus(),
    cache: parts.cacheStatus(),
    undo: parts.undoJournal.status,
    audit: parts.auditStatus(),
    listeners: parts.listeners(),
    providers: parts.providers.list('agent').map(({ name, state, pending }) => ({ name, state, pending })),
    confinement: { ...confinement, probes },
  };
}
