/** Connections to sessions, requests to what answers them. No tool code runs here. */
import type { CallOptions, CallState } from '../call.ts';
import { RpcError, ToolError } from '../errors.ts';
import type { HostStatus } from '../hosts/hosts.ts';
import type { Limits } from '../limits.ts';
import type { Call, Pipeline, Toolset } from '../pipeline/pipeline.ts';
import type { Powers } from '../powers.ts';
import {
  METHODS_TO_COME,
  type Method,
  OPERATOR_METHODS,
  type Params,
  params as schemas,
  type Topic,
} from '../protocol/messages.ts';
import { Peer, type RequestBudget } from '../protocol/peer.ts';
import { redactText, redactValue } from '../redact.ts';
import type { AuditEntry } from '../store/audit-log.ts';
import type { Channel } from '../transport/transport.ts';
import type { Batches } from './batches.ts';
import type { Events } from './events.ts';
import type { Oversight } from './oversight.ts';
import { parseParams } from './parse-params.ts';
import type { Policies } from './policies.ts';
import type { Results } from './results.ts';
import { Session } from './session.ts';
import { SessionRecords } from './session-records.ts';
import { toolList, toolNames } from './tool-list.ts';

const PROTOCOL = 1;

export interface GatewayOptions {
  readonly version: string;
  readonly pipeline: Pipeline;
  readonly toolset: Toolset;
  readonly policies: Policies;
  readonly oversight: Oversight;
  readonly events: Events;
  readonly results: Results;
  readonly batches: Batches;
  readonly confinement: { level: string; backend: string; cgroup: string; missing: readonly string[] };
  /** What each probe of the sandbox found at start: `ok`, `leaks` or `unknown`. */
  readonly probes: Readonly<Record<string, string>>;
  readonly limits: Limits;
  readonly powers: Powers;
  /** Absolute, real; the first is the default. */
  readonly workspaces: readonly string[];
  /** The real path of a directory that lies in one of them, and the outermost of those. Throws RpcError FORBIDDEN. */
  resolveWorkspace(path: string): { workspace: string; root: string };
  /** Whose token it is, if anybody's. */
  identify(token: string): Identity | undefined;
  warm(session: Session): void;
  hostStatus(): Promise<HostStatus[]>;
  auditStatus(): { entries: number; writable: boolean; overSize?: true };
  approvalsPending(): number;
  listeners(): string[];
  recordSession(session: Session): void;
  record(entry: AuditEntry): void;
  sessionEnded(session: Session): void;
  /** Begins the daemon's end; the answer is sent before it. */
  shutdown(graceMs: number): void;
}

/** Who a token says that its bearer is. */
export interface Identity {
  readonly role: 'agent' | 'operator';
  readonly principal: string;
  /** Built-in name or file of the policy that narrows what this principal may do. */
  readonly policy?: string;
}

interface Connection {
  readonly channel: Channel;
  peer: Peer;
  session?: Session;
  subscriptions: (Disposable & { readonly topics: ReadonlySet<Topic> })[];
}

export class Gateway {
  readonly #options: GatewayOptions;
  readonly #connections = new Set<Connection>();
  readonly #events: Events;
  readonly #records: SessionRecords;
  readonly #budget: RequestBudget = { bytes: 0 };
  readonly #startedAt: number;
  #closing = false;

  constructor(options: GatewayOptions) {
    this.#options = options;
    this.#events = options.events;
    this.#records = new SessionRecords((it) => options.record(it));
    this.#startedAt = options.powers.monotonicMs();
  }

  /** Takes a connection, unless there are too many. */
  accept(channel: Channel): void {
    const { limits, powers } = this.#options;
    if (this.#closing || this.#connections.size >= limits.connectionsMax) return channel.destroy();
    const silent = powers.after(limits.helloTimeoutMs, () => {
      if (!connection.session) connection.channel.destroy();
    });
    const connection = { channel, subscriptions: [] } as unknown as Connection;
    connection.peer = new Peer(channel, {
      limits,
      powers,
      budget: this.#budget,
      onRequest: (method, params) => this.#serve(connection, method, params),
      onDrain: () => this.#options.pipeline.queue.wake(),
      onClose: () => {
        silent.cancel();
        this.#connections.delete(connection);
        for (const subscription of connection.subscriptions) subscription[Symbol.dispose]();
        void this.#end(connection.session);
      },
    });
    this.#connections.add(connection);
  }

  async #end(session: Session | undefined): Promise<void> {
    if (!session) return;
    await session.end(new ToolError('CANCELLED', 'the connection of this call ended'));
    this.#records.ended(session, 'its connection ended');
    this.#options.sessionEnded(session);
  }

  /** Operators who listen for approvals now. */
  get approvers(): number {
    let count = 0;
    for (const { subscriptions } of this.#connections)
      if (subscriptions.some((it) => it.topics.has('approvals'))) count += 1;
    return count;
  }

  /** Refuses new calls, lets running ones go on for `graceMs`, ends the rest, then the connections. */
  async close(graceMs: number, reason: string): Promise<void> {
    this.#closing = true;
    const { powers } = this.#options;
    const { queue } = this.#options.pipeline;
    const error = new ToolError('SHUTTING_DOWN', `the daemon is shutting down: ${reason}`);
    for (const { session } of this.#connections) session?.refuse(error);
    const until = powers.monotonicMs() + graceMs;
    while (queue.running > 0 && powers.monotonicMs() < until)
      await new Promise<void>((resolve) => powers.after(10, resolve));
    await Promise.all([...this.#connections].map(async ({ session }) => session?.end(error)));
    this.#records.shutdown(reason);
    for (const { peer, session } of this.#connections) {
      if (session) this.#records.ended(session, reason);
      peer.notify('session.closing', { reason });
      peer.close();
    }
  }

  /** Errors of the conversation echo what was sent, so that they are recorded and answered without secrets. */
  async #serve(connection: Connection, method: string, raw: unknown): Promise<unknown> {
    try {
      return await this.#dispatch(connection, method, raw);
    } catch (thrown) {
      if (!(thrown instanceof RpcError)) throw thrown;
      const { code, message, data } = thrown;
      const error = new RpcError(code, redactText(message), redactValue(data) as typeof data);
      const { session, channel } = connection;
      this.#records.refused(error, { session, principal: this.#principalOf(channel), method });
      throw error;
    }
  }

  #dispatch(connection: Connection, method: string, raw: unknown): unknown {
    if (!connection.session && method !== 'hello') {
      throw new RpcError('NOT_READY', `the first request is hello, not ${method.slice(0, 64)}`);
    }
    if (!Object.hasOwn(schemas, method)) {
      const known = METHODS_TO_COME.has(method)
        ? `${method} is not served by this version yet`
        : `there is no method ${method.slice(0, 64)}`;
      throw new RpcError('METHOD_NOT_FOUND', known);
    }
    if (OPERATOR_METHODS.has(method) && connection.session?.options.role !== 'operator')
      throw new RpcError('FORBIDDEN', `${method} is for operators`);
    return this.#answer(connection, method as Method, parseParams(method as Method, raw));
  }

  #answer(connection: Connection, method: Method, params: unknown): unknown {
    if (method === 'hello') return this.#hello(connection, params as Params<'hello'>);
    const session = connection.session as Session;
    const { oversight } = this.#options;
    switch (method) {
      case 'tools.list':
        return toolList(session, params as Params<'tools.list'>);
      case 'tools.call':
        return this.#call(session, params as Params<'tools.call'>);
      case 'tools.batch':
        return this.#options.batches.run(session, params as Params<'tools.batch'>, connection.peer);
      case 'calls.cancel':
        return this.#options.batches.cancelAny(session, params as Params<'calls.cancel'>);
      case 'calls.get':
        return this.#record(session, (params as Params<'calls.get'>).callId);
      case 'calls.list':
        return session.list(params as Params<'calls.list'>);
      case 'results.read':
        return this.#options.results.read(session, params as Params<'results.read'>, this.#sessions);
      case 'events.subscribe':
        return this.#subscribe(connection, params as Params<'events.subscribe'>);
      case 'approvals.list':
        return oversight.approvals();
      case 'approvals.resolve':
        return oversight.resolve(params as Params<'approvals.resolve'>, session.options.principal, (id, callId) =>
          this.#sessionOf(id)?.get(callId),
        );
      case 'audit.query':
        return oversight.audit(params as Params<'audit.query'>);
      case 'audit.verify':
        return oversight.verify();
      case 'policy.get':
        return oversight.policy(session);
      case 'policy.explain':
        return oversight.explain(session, params as Params<'policy.explain'>);
      case 'policy.reload':
        return this.#reload(session);
      case 'status':
        return this.#status(session);
      case 'shutdown':
        return this.#shutdown(session, params as Params<'shutdown'>);
      default:
        return method satisfies never;
    }
  }

  #hello(connection: Connection, params: Params<'hello'>): object {
    if (connection.session) throw new RpcError('INVALID_REQUEST', 'hello was said already');
    if (this.#closing) throw new RpcError('OVERLOADED', 'the daemon is shutting down');
    if (params.protocol !== PROTOCOL) {
      throw new RpcError('VERSION_UNSUPPORTED', `protocol ${params.protocol} is not served`, { supported: [PROTOCOL] });
    }
    const identity = this.#authenticate(connection, params);
    const { limits, powers, confinement, version, workspaces } = this.#options;
    const place = this.#options.resolveWorkspace(params.workspace ?? (workspaces[0] as string));
    const { workspace } = place;
    const session = this.#newSession(connection, params, { ...place, identity });
    connection.session = session;
    this.#options.recordSession(session);
    this.#options.warm(session);
    const { id, secret, role } = session.options;
    const policy = session.options.policy();
    powers.log.info({ sessionId: id, client: session.options.client, workspace }, 'session opened');
    return {
      protocol: PROTOCOL,
      server: { name: 'ringfence', version },
      session: { id, secret, role, workspace, policy: policy.name, toolset: toolNames(session) },
      confinement,
      limits: {
        frameBytesMax: limits.frameBytesMax,
        fileBytesMax: limits.fileBytesMax,
        callTimeoutMs: limits.callTimeoutMs,
        sessionQueueMax: limits.sessionQueueMax,
      },
    };
  }

  /** Throws UNAUTHENTICATED for a token that is nobody's, two of different bearers, and a role that the token does not give. */
  #authenticate({ channel }: Connection, { token, role }: Params<'hello'>): Identity {
    const [own, opened] = [token, channel.bearer].map((it) => this.#identify(it));
    const identity = own ?? opened;
    // Else whoever has two could choose the policy that narrows less.
    if (own && opened && (own.principal !== opened.principal || own.role !== opened.role))
      throw new RpcError('UNAUTHENTICATED', 'hello.token and Authorization: Bearer are of different bearers');
    if (!channel.authenticated && identity === undefined) {
      throw new RpcError('UNAUTHENTICATED', 'a WebSocket needs a token: as Authorization: Bearer, or as hello.token');
    }
    if (role === 'operator' && identity?.role !== 'operator') {
      throw new RpcError(
        'UNAUTHENTICATED',
        'role operator needs the operator token; the CLI reads it from the state directory',
      );
    }
    return identity ?? { role: 'agent', principal: this.#principalOf(channel) };
  }

  #identify(token: string | undefined): Identity | undefined {
    if (token === undefined) return undefined;
    const identity = this.#options.identify(token);
    if (!identity) throw new RpcError('UNAUTHENTICATED', 'this token is not one of this daemon');
    return identity;
  }

  /** Of one without a token: a Unix socket's, where the mode of the file lets in. */
  #principalOf(channel: Channel): string {
    if (channel.kind !== 'unix') return 'unknown';
    return `uid:${channel.credentials?.uid ?? process.getuid?.() ?? '?'}`;
  }

  #newSession(
    connection: Connection,
    params: Params<'hello'>,
    { workspace, root, identity }: { workspace: string; root: string; identity: Identity },
  ): Session {
    const { powers, limits, pipeline, toolset, policies } = this.#options;
    return new Session({
      id: powers.uuid(),
      secret: powers.secret(),
      role: params.role,
      principal: identity.principal,
      client: redactText(`${params.client.name} ${params.client.version}`),
      workspace,
      root,
      policy: policies.of({ workspace, principal: identity.policy, hello: params.policy }),
      toolset,
      run: pipeline.run,
      limits,
      powers,
      congested: () => connection.peer.congested,
      onUpdate: (call, state) => this.#update(connection, call, state),
      onOutput: (call, stream, data) => {
        const { seq, written } = this.#options.results.output(call, stream, data);
        if (call.options.progress) connection.peer.notify('call.output', { callId: call.id, seq, stream, data });
        return written;
      },
    });
  }

  get #sessions(): Session[] {
    return [...this.#connections].flatMap(({ session }) => session ?? []);
  }

  #sessionOf(id: string): Session | undefined {
    return this.#sessions.find(({ options }) => options.id === id);
  }

  #call(session: Session, { tool, input, options }: Params<'tools.call'>): Promise<unknown> {
    return session.call(tool, input, options as CallOptions);
  }

  #record(session: Session, callId: string): object {
    const record = session.get(callId);
    if (!record) throw new RpcError('INVALID_PARAMS', `this session has no call ${callId}, or it is forgotten by now`);
    return record;
  }

  #update(connection: Connection, call: Call, state: CallState): void {
    const { sessionId, id: callId } = call;
    this.#options.results.update(call, state);
    const event = this.#events.publish({ topic: 'calls', sessionId, method: 'call.update', params: { callId, state } });
    if (call.options.progress) connection.peer.notify('call.update', { callId, seq: event.seq, state });
  }

  #subscribe(connection: Connection, { topics, afterSeq }: Params<'events.subscribe'>): object {
    const { role, id } = (connection.session as Session).options;
    const restricted: Topic[] = ['audit', 'approvals'];
    if (role !== 'operator' && topics.some((it) => restricted.includes(it))) {
      throw new RpcError('FORBIDDEN', 'these topics are for operators');
    }
    if (connection.subscriptions.length >= this.#options.limits.subscriptionsMax) {
      throw new RpcError(
        'OVERLOADED',
        `a connection has at most ${this.#options.limits.subscriptionsMax} subscriptions`,
      );
    }
    const tell = ({ topic, sessionId, seq, method, params }: ReturnType<Events['publish']>) => {
      if (topics.includes(topic) && (role === 'operator' || topic === 'policy' || sessionId === id))
        connection.peer.notify(method, { ...params, seq });
    };
    connection.subscriptions.push({ topics: new Set(topics), ...this.#events.listen(tell) });
    // After the answer, so that nothing of a subscription comes before its number.
    if (afterSeq !== undefined)
      for (const event of this.#events.after(afterSeq)) this.#options.powers.after(0, () => tell(event));
    return { subscription: connection.subscriptions.length, seq: this.#events.seq };
  }

  async #status({ options }: Session): Promise<object> {
    const { powers, version, pipeline } = this.#options;
    const hosts = await this.#options.hostStatus();
    const { queued, running } = pipeline.queue;
    return {
      uptimeMs: Math.round(powers.monotonicMs() - this.#startedAt),
      version,
      pid: process.pid,
      rssBytes: process.memoryUsage.rss(),
      sessions: [...this.#connections].filter(({ session }) => session).length,
      calls: { queued, running, blocked: this.#options.approvalsPending() },
      approvers: this.approvers,
      // An agent learns nothing of other workspaces.
      hosts: hosts.filter(({ workspace }) => options.role === 'operator' || workspace === options.workspace),
      cache: {},
      audit: this.#options.auditStatus(),
      listeners: this.#options.listeners(),
      confinement: { ...this.#options.confinement, probes: this.#options.probes },
    };
  }

  #reload(session: Session): object {
    const answer = this.#options.oversight.reload();
    if (!answer.ok) this.#records.reloadFailed(session, answer.problems);
    return answer;
  }

  #shutdown(session: Session, { graceMs = this.#options.limits.shutdownGraceMs }: Params<'shutdown'>): object {
    this.#records.shutdownAsked(session, graceMs);
    this.#options.shutdown(graceMs);
    return {};
  }
}
