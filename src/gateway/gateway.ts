/** Connects connections to sessions and requests to their methods. No tool code runs here. */
import type { CallState } from '../base/call.ts';
import { RpcError, ToolError } from '../base/errors.ts';
import type { Limits } from '../base/limits.ts';
import { type Powers, pause } from '../base/powers.ts';
import { redactText, redactValue } from '../base/redact.ts';
import { safeText } from '../base/text/shown-text.ts';
import type { Call, Pipeline } from '../pipeline/pipeline.ts';
import type { AuditEntry } from '../store/audit/log.ts';
import type { CallStore } from '../store/call-store.ts';
import type { Catalogue } from '../tools/catalogue.ts';
import { type Method, type Params, params as schemas } from '../wire/protocol/messages.ts';
import { BEGINNING_METHODS, OPERATOR_METHODS } from '../wire/protocol/methods.ts';
import { Peer, type RequestBudget } from '../wire/protocol/peer.ts';
import type { ServingTurns } from '../wire/protocol/serving-turns.ts';
import type { Channel } from '../wire/transport/transport.ts';
import { authenticate, principalOf } from './authenticate.ts';
import type { Batches } from './batches.ts';
import { withChildCalls } from './child-calls.ts';
import type { ClientLink, Connection } from './client-link.ts';
import { Connections, type PeerConnection } from './connections/connections.ts';
import { greeting } from './connections/greeting.ts';
import { type HandOverOptions, handOver, movedOn, UPGRADE } from './connections/hand-over.ts';
import {
  assertSameOpening,
  authorityOf,
  type NewLink,
  type NewSession,
  workspaceFor,
} from './connections/new-session.ts';
import type { Credentials } from './credentials.ts';
import { DaemonMetrics } from './daemon-metrics.ts';
import type { Attenuations } from './delegation/attenuations.ts';
import type { DurableCalls } from './durable-calls.ts';
import type { Events } from './events.ts';
import { type LocalOpening, type LocalSession, SILENT, toLocalSession } from './local-sessions.ts';
import { createMethods, type MethodParts, type Methods } from './methods.ts';
import { Pause, type PauseParts } from './operator/pause-methods.ts';
import type { StatusParts } from './operator/status-parts.ts';
import { markOf } from './operator/untrusted.ts';
import { type NoticeReceiver, Outbox } from './outbox.ts';
import type { Oversight } from './oversight.ts';
import { assertVersion, parseParams } from './parse-params.ts';
import type { Policies } from './policies.ts';
import { RecentCalls } from './recent-calls.ts';
import type { Results } from './results.ts';
import { Session } from './session.ts';
import { SessionRecords } from './session-records.ts';
import { openedWith, type ResumeRequest, Sessions } from './sessions.ts';
import type { KeptChangesParts } from './undo/previews.ts';

export interface GatewayOptions
  extends StatusParts,
    KeptChangesParts,
    Pick<MethodParts, 'shutdown' | 'upgrade' | 'panel' | 'settings' | 'changeLevel' | 'background' | 'forwards'>,
    Pick<PauseParts & MethodParts, 'pauseFile' | 'untrusted' | 'fences' | 'quarantine'> {
  readonly pipeline: Pipeline;
  readonly catalogue: Catalogue;
  readonly policies: Policies;
  readonly oversight: Oversight;
  readonly events: Events;
  readonly results: Results;
  readonly batches: Batches;
  readonly callStore: CallStore;
  readonly durable: DurableCalls;
  readonly limits: Limits;
  readonly powers: Powers;
  readonly workspaces: {
    /** Absolute real paths; the first is the default. */
    readonly all: readonly string[];
    /** The real path of a folder inside one of the workspaces, and the outermost workspace that contains it. Throws RpcError FORBIDDEN. */
    resolve(path: string): { workspace: string; root: string };
    forOperator(): { workspace: string; root: string };
  };
  /** Shared by everything that serves requests. */
  readonly turns: ServingTurns;
  readonly credentials: Pick<Credentials, 'identify' | 'rotate'>;
  readonly attenuations: Attenuations;
  warm(session: Session): void;
  recordSession(session: Session): void;
  record(entry: AuditEntry): void;
  sessionEnded(session: Session): void;
}

export class Gateway {
  readonly #options: GatewayOptions;
  readonly #connections: Connections;
  readonly #events: Events;
  readonly #records: SessionRecords;
  readonly #budget: RequestBudget = { bytes: 0 };
  readonly #sessions: Sessions;
  readonly #methods: Methods;
  readonly metrics: DaemonMetrics;
  #closing = false;
  readonly #pause: Pause;
  /** Whether the daemon hands over to a new one. */
  #moving = false;

  constructor(options: GatewayOptions) {
    this.#options = options;
    this.#events = options.events;
    this.#connections = new Connections(options.limits, options.powers);
    this.#records = new SessionRecords((it) => options.record(it));
    const recent = new RecentCalls(options.limits, options.powers);
    const sessionEnded = (session: Session) => {
      recent.add(session);
      for (const it of [options.attenuations, options.fences, this.#pause]) it.sessionEnded(session);
      options.sessionEnded(session);
    };
    this.#sessions = new Sessions({ ...options, records: this.#records, sessionEnded });
    options.attenuations.connect(this.#records, this.#sessions);
    const parts = {
      ...options,
      records: this.#records,
      startedAt: options.powers.monotonicMs(),
      sessions: this.#sessions,
      recent,
      approvers: () => this.approvers,
    };
    this.metrics = new DaemonMetrics(parts);
    this.#pause = new Pause(parts);
    this.#methods = createMethods({ ...parts, metrics: this.metrics, pause: this.#pause });
  }

  /** Accepts a connection; its hello is refused if there is no room for it. */
  accept(channel: Channel): void {
    const { limits, powers } = this.#options;
    if (this.#closing) return channel.destroy();
    const silent = powers.after(limits.helloTimeoutMs, () => {
      if (!connection.link) connection.channel.destroy();
    });
    const connection: PeerConnection = {
      channel,
      isHeard: false,
      destroy: () => channel.destroy(),
      get isUnheard() {
        return !connection.isHeard && peer.isUnheard;
      },
      get peer() {
        return peer;
      },
    };
    const peer = new Peer(channel, {
      limits,
      powers,
      budget: this.#budget,
      turns: this.#options.turns,
      onRequest: (method, params) => this.#serve(connection, method, params),
      onDrain: () => {
        connection.link?.outbox.release();
        this.#options.pipeline.queue.wake();
      },
      onClose: () => {
        silent.cancel();
        this.#connections.leave(connection);
        if (connection.link) this.#sessions.leave(connection.link);
      },
    });
    if (!this.#connections.enter(connection)) channel.destroy();
  }

  /**
   * Opens a session for a front end inside this process, by the same rules as for connections. The front end has established the identity
   * itself. Throws RpcError.
   */
  openSession({ identity, ...asked }: LocalOpening, receiver: NoticeReceiver = SILENT): LocalSession {
    if (this.#moving) throw movedOn();
    if (this.#closing) throw new RpcError('OVERLOADED', 'the daemon is shutting down');
    const connection: Connection = { peer: receiver, destroy: () => receiver.close() };
    const opened = workspaceFor(identity, asked.workspace, this.#workspaceOf);
    const link = this.#open(connection, { ...asked, ...opened, identity, role: 'agent', resumeMs: 0 });
    return toLocalSession(link, {
      ...this.#options,
      drained: () => this.#options.pipeline.queue.wake(),
      isMoving: () => this.#moving,
      end: (it, reason) => this.#sessions.end(it, reason),
    });
  }

  /** Number of people who could answer a question about a call of this session now: listening operators, and the person at its client. */
  approversOf = (id: string): number => this.approvers + (this.#sessions.linkOf(id)?.connection?.peer.asks ? 1 : 0);

  /** Whether the session's client speaks MCP: those give a call up after a minute. */
  isImpatient = (id: string): boolean => this.#sessions.linkOf(id)?.connection?.peer.asks !== undefined;

  /** Number of operators who listen for approvals now. */
  get approvers(): number {
    const listens = (it: ClientLink) => it.connection && it.subscriptions.some(({ topics }) => topics.has('approvals'));
    return this.#sessions.all.filter(listens).length;
  }

  /** Why no calls should be sent to the daemon now; empty if they may. */
  get unready(): string[] {
    if (this.#moving) return ['the daemon hands over to a new one'];
    return [...(this.#closing ? ['the daemon is shutting down'] : []), ...this.metrics.problems];
  }

  /**
   * Lets running calls continue for up to `drainMs` while clients go to a new daemon, then ends everything.
   * `goOver` is called when the first calls have ended; `stayers` counts other clients; `hurry` ends it early.
   */
  async handOver(drainMs: number, { goOver, stayers, hurry }: HandOverOptions): Promise<void> {
    const refuseNew = () => {
      this.#moving = true;
      goOver();
    };
    const connections = () => this.#connections.size + stayers();
    const parts = { ...this.#options, sessions: this.#sessions, hurry, connections, refuseNew };
    await handOver(parts, drainMs);
    await this.close(0, UPGRADE);
  }

  /** Refuses new calls, lets running ones continue for `graceMs`, then ends the remaining calls and all connections. */
  async close(graceMs: number, reason: string): Promise<void> {
    this.#closing = true;
    const { powers, durable, pipeline } = this.#options;
    const error = new ToolError('SHUTTING_DOWN', `the daemon is shutting down: ${reason}`);
    this.#sessions.refuse(error, reason);
    const until = powers.monotonicMs() + graceMs;
    while (pipeline.queue.running > 0 && powers.monotonicMs() < until) await pause(10, powers);
    this.#records.shutdown(reason);
    await Promise.all([this.#sessions.close(error, reason), durable.end(error)]);
    for (const { peer } of this.#connections.all) peer.close();
  }

  /** Dispatches a request. Protocol errors echo what was sent, so they are redacted before they are recorded and answered. */
  async #serve(connection: PeerConnection, method: string, raw: unknown): Promise<unknown> {
    try {
      return await this.#dispatch(connection, method, raw);
    } catch (thrown) {
      if (!(thrown instanceof RpcError)) throw thrown;
      const { code, message, data } = thrown;
      const error = new RpcError(code, redactText(message), redactValue(data) as typeof data);
      const { link, channel } = connection;
      this.#records.refused(error, { session: link?.session, principal: principalOf(channel), method });
      throw error;
    }
  }

  #dispatch(connection: PeerConnection, method: string, raw: unknown): unknown {
    const { link } = connection;
    connection.isHeard = true;
    if (!link && method !== 'hello') {
      throw new RpcError('NOT_READY', `the first request must be hello, not ${method.slice(0, 64)}`);
    }
    if (!Object.hasOwn(schemas, method)) {
      throw new RpcError('METHOD_NOT_FOUND', `there is no method ${method.slice(0, 64)}`);
    }
    if (OPERATOR_METHODS.has(method) && link?.session.options.role !== 'operator')
      throw new RpcError('FORBIDDEN', `only operators may use ${method}`);
    if (method === 'hello') assertVersion(raw);
    const parsed = parseParams(method as Method, raw);
    if (method === 'hello') return this.#hello(connection, parsed as Params<'hello'>);
    if (this.#moving && BEGINNING_METHODS.has(method)) throw movedOn();
    // Each method accepts the output of its own schema.
    const answer = this.#methods[method as keyof Methods] as
      | ((caller: ClientLink, params: unknown) => unknown)
      | undefined;
    if (!answer) throw new RpcError('METHOD_NOT_FOUND', `this daemon lacks the capability that answers ${method}`);
    return answer(link as ClientLink, parsed);
  }

  #hello(connection: PeerConnection, params: Params<'hello'>): object {
    if (connection.link) throw new RpcError('INVALID_REQUEST', 'this connection has already sent hello');
    if (this.#moving) throw movedOn();
    if (this.#closing) throw new RpcError('OVERLOADED', 'the daemon is shutting down');
    const { channel } = connection;
    const identity = authenticate(channel, params, this.#options.credentials.identify);
    this.#connections.admit(connection, { ...identity, role: params.role === 'operator' ? 'operator' : 'agent' });
    const uid = channel.credentials?.uid;
    const { resume } = params;
    if (resume) return this.#resume(connection, params, { resume, identity, uid });
    const isAnywhere = params.role === 'operator' && params.workspace === undefined;
    const opened = isAnywhere
      ? this.#options.workspaces.forOperator()
      : workspaceFor(identity, params.workspace, this.#workspaceOf);
    return greeting(this.#open(connection, { ...params, ...opened, identity, uid }), this.#options);
  }

  #open(connection: Connection, asked: NewSession): ClientLink {
    const { limits, powers } = this.#options;
    const { delegation, fence } = asked.identity;
    const resumeMs = delegation || fence?.workspace ? 0 : Math.min(asked.resumeMs, limits.resumeMaxMs);
    const link = this.#newLink({
      ...asked,
      resumeMs,
      id: powers.uuid(),
      secret: powers.secret(),
      client: safeText(redactText(`${asked.client.name} ${asked.client.version}`)),
      restored: false,
    });
    this.#sessions.add(link, connection);
    this.#options.recordSession(link.session);
    this.#options.warm(link.session);
    const { id, client, workspace } = link.session.options;
    powers.log.info({ sessionId: id, client, workspace }, 'session opened');
    return link;
  }

  /** Returns a session to its client; the policies of its principal and workspace are read again. */
  #resume(connection: PeerConnection, params: Params<'hello'>, claim: ResumeRequest): object {
    const found = this.#sessions.find(claim);
    const opened = openedWith(found);
    const { powers } = this.#options;
    const { workspace, root } = this.#workspaceOf(opened.workspace);
    const { identity } = claim;
    if (params.workspace !== undefined && this.#workspaceOf(params.workspace).workspace !== workspace)
      throw new RpcError('INVALID_PARAMS', `the session works in ${workspace}; resume it there, or open another one`);
    assertSameOpening({ ...params, identity }, opened);
    powers.log.info({ sessionId: claim.resume.sessionId, workspace }, 'session resumed');
    if ('link' in found) {
      const { link } = found;
      const asked = { workspace, identity, policy: opened.askedPolicy, mode: opened.mode };
      link.session.policy = authorityOf(asked, this.#options).policy;
      this.#options.fences.join(link.session.options.id, identity);
      const resumed = this.#sessions.attach(link, connection);
      this.#options.pipeline.queue.wake();
      this.#records.note(link.session, 'resumed');
      return greeting(link, this.#options, resumed);
    }
    const { id, client, uid, resumeMs, asked: policy, mode, role } = found.stored;
    const link = this.#newLink({
      id,
      secret: claim.resume.secret,
      client,
      uid,
      resumeMs,
      policy,
      mode,
      role,
      workspace,
      root,
      identity,
      restored: true,
    });
    this.#sessions.add(link, connection);
    this.#records.note(link.session, 'resumed');
    return greeting(link, this.#options, { notices: 0, dropped: 0 });
  }

  readonly #workspaceOf = (workspace: string | undefined): { workspace: string; root: string } =>
    this.#options.workspaces.resolve(workspace ?? (this.#options.workspaces.all[0] as string));

  #newLink({ id, secret, role, client, workspace, root, identity, ...asked }: NewLink): ClientLink {
    const { powers, limits, pipeline, results, durable, fences } = this.#options;
    const outbox = new Outbox(limits);
    const subscriptions: ClientLink['subscriptions'] = [];
    const { resumeMs, restored, onUpdate } = asked;
    const { toolset, policy } = authorityOf({ ...asked, identity, workspace }, this.#options);
    const session: Session = new Session({
      id,
      secret,
      role,
      client,
      workspace,
      root,
      limits,
      powers,
      ...(!identity.delegation && { name: asked.sessionName }),
      principal: identity.principal,
      get toolset() {
        return toolset();
      },
      mode: asked.mode,
      delegation: identity.delegation,
      policy,
      withOpenings: pipeline.withOpenings,
      run: withChildCalls(pipeline.run, { session: () => session, open: (asked) => this.openSession(asked) }),
      keeping: durable.keeping({ resumable: resumeMs > 0, restored, fence: fences.join(id, identity) }),
      untrusted: markOf(() => session, { ...this.#options, records: this.#records }),
      forgets: onUpdate !== undefined,
      congested: () => outbox.congested || session.isFull || this.#pause.of(session) !== undefined,
      onUpdate: (call, state) => {
        this.#update({ outbox, subscriptions }, call, state);
        onUpdate?.(call, state);
      },
      onOutput: (call, stream, data) => {
        const { seq, written } = results.output(call, stream, data);
        if (call.options.progress) outbox.notify('call.output', { callId: call.id, seq, stream, data });
        return written;
      },
    });
    return { session, outbox, subscriptions, uid: asked.uid, askedPolicy: asked.policy, resumeMs };
  }

  #update({ outbox, subscriptions }: Pick<ClientLink, 'outbox' | 'subscriptions'>, call: Call, state: CallState): void {
    const { sessionId, id: callId } = call;
    this.#options.results.update(call, state);
    const tool = call.toolset.get(call.name)?.tool.name ?? redactText(call.name);
    const params = { callId, state, sessionId, tool };
    const event = this.#events.publish({ topic: 'calls', sessionId, method: 'call.update', params });
    // A subscription has already sent this state.
    const isTold = subscriptions.some((it) => it.topics.has('calls'));
    if (call.options.progress && !isTold) outbox.notify('call.update', { callId, seq: event.seq, state });
  }
}
