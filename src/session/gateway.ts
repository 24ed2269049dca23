/** Connections to sessions, requests to what answers them. No tool code runs here. */
import type { CallState } from '../call.ts';
import { RpcError, ToolError } from '../errors.ts';
import type { Limits } from '../limits.ts';
import type { Call, Pipeline, Toolset } from '../pipeline/pipeline.ts';
import type { Powers } from '../powers.ts';
import {
  METHODS_TO_COME,
  type Method,
  OPERATOR_METHODS,
  type Params,
  params as schemas,
} from '../protocol/messages.ts';
import { Peer, type RequestBudget } from '../protocol/peer.ts';
import { redactText, redactValue } from '../redact.ts';
import type { AuditEntry } from '../store/audit-log.ts';
import type { Channel } from '../transport/transport.ts';
import type { Batches } from './batches.ts';
import type { Connection } from './connection.ts';
import type { Events } from './events.ts';
import { authenticate, type Identify, type Identity, principalOf } from './identity.ts';
import { createMethods, type Methods, type StatusParts } from './methods.ts';
import type { Oversight } from './oversight.ts';
import { parseParams } from './parse-params.ts';
import type { Policies } from './policies.ts';
import type { Results } from './results.ts';
import { Session } from './session.ts';
import { SessionRecords } from './session-records.ts';
import { toolNames } from './tool-list.ts';

const PROTOCOL = 1;

export interface GatewayOptions extends StatusParts {
  readonly pipeline: Pipeline;
  readonly toolset: Toolset;
  readonly policies: Policies;
  readonly oversight: Oversight;
  readonly events: Events;
  readonly results: Results;
  readonly batches: Batches;
  readonly limits: Limits;
  readonly powers: Powers;
  /** Absolute, real; the first is the default. */
  readonly workspaces: readonly string[];
  /** The real path of a directory that lies in one of them, and the outermost of those. Throws RpcError FORBIDDEN. */
  resolveWorkspace(path: string): { workspace: string; root: string };
  readonly identify: Identify;
  warm(session: Session): void;
  recordSession(session: Session): void;
  record(entry: AuditEntry): void;
  sessionEnded(session: Session): void;
  /** Begins the daemon's end; the answer is sent before it. */
  shutdown(graceMs: number): void;
}

export class Gateway {
  readonly #options: GatewayOptions;
  readonly #connections = new Set<Connection>();
  readonly #events: Events;
  readonly #records: SessionRecords;
  readonly #budget: RequestBudget = { bytes: 0 };
  readonly #methods: Methods;
  #closing = false;

  constructor(options: GatewayOptions) {
    this.#options = options;
    this.#events = options.events;
    this.#records = new SessionRecords((it) => options.record(it));
    this.#methods = createMethods({
      ...options,
      records: this.#records,
      startedAt: options.powers.monotonicMs(),
      sessions: () => this.#sessions,
      approvers: () => this.approvers,
    });
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
      this.#records.refused(error, { session, principal: principalOf(channel), method });
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
    const parsed = parseParams(method as Method, raw);
    if (method === 'hello') return this.#hello(connection, parsed as Params<'hello'>);
    // Each row takes what its own schema gives.
    const answer = this.#methods[method as keyof Methods] as (caller: Connection, params: unknown) => unknown;
    return answer(connection, parsed);
  }

  #hello(connection: Connection, params: Params<'hello'>): object {
    if (connection.session) throw new RpcError('INVALID_REQUEST', 'hello was said already');
    if (this.#closing) throw new RpcError('OVERLOADED', 'the daemon is shutting down');
    if (params.protocol !== PROTOCOL) {
      throw new RpcError('VERSION_UNSUPPORTED', `protocol ${params.protocol} is not served`, { supported: [PROTOCOL] });
    }
    const identity = authenticate(connection.channel, params, this.#options.identify);
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

  #update(connection: Connection, call: Call, state: CallState): void {
    const { sessionId, id: callId } = call;
    this.#options.results.update(call, state);
    const event = this.#events.publish({ topic: 'calls', sessionId, method: 'call.update', params: { callId, state } });
    if (call.options.progress) connection.peer.notify('call.update', { callId, seq: event.seq, state });
  }
}
