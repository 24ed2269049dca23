/** The library that agents, the CLI, tests and benches use: `ringfence/client`. */
import type * as z from 'zod';
import type { CallOptions, CallRecord, CallState, ToolResult } from './call.ts';
import { RPC_CODES } from './errors.ts';
import { defaultLimits } from './limits.ts';
import { type Powers, systemPowers } from './powers.ts';
import { Peer, RemoteError } from './protocol/peer.ts';
import type { builtinTools } from './tools/builtin.ts';
import type { ToolInfo } from './tools/registry.ts';
import type { Channel } from './transport/transport.ts';
import { connectUnix } from './transport/unix-socket.ts';

export type { CallOptions, CallRecord, CallState, ToolResult } from './call.ts';
export { RemoteError } from './protocol/peer.ts';

type Builtin = typeof builtinTools;
/** The built-in tools by name; `client.call` completes and checks their input. */
export type ToolName = keyof Builtin;
export type ToolInput<N extends ToolName> = z.input<Builtin[N]['input']>;
export type ToolData<N extends ToolName> = z.output<Builtin[N]['output']>;

export interface ClientOptions {
  /** Path of the daemon's socket. */
  readonly socket: string;
  /** Absolute path; the daemon's first workspace when absent. */
  readonly workspace?: string;
  readonly name?: string;
  readonly version?: string;
  readonly role?: 'agent' | 'operator';
  /** The operator's token, where the role is that. */
  readonly token?: string;
  /** Name of a built-in policy that narrows the daemon's. */
  readonly policy?: string;
  /**
   * How long session and calls wait for us when the connection ends. The client then connects again by itself and goes on: calls
   * keep their results, progress and notifications come, each once. Absent: calls end with their connection.
   */
  readonly resumeMs?: number;
}

export interface Hello {
  protocol: number;
  server: { name: string; version: string };
  session: {
    id: string;
    secret: string;
    role: string;
    workspace: string;
    policy: string;
    toolset: string[];
    /** How long it waits for us, as granted. */
    resumeMs: number;
    /** Of a session that was resumed: notices that were kept for us, and how many found no place (output: `results.read` has it). */
    resumed?: { notices: number; dropped: number };
  };
  confinement: { level: string; backend: string; cgroup: string; missing: string[] };
  limits: Record<string, unknown>;
}

/** What a call tells while it runs. */
export type Progress =
  | { readonly kind: 'state'; readonly seq: number; readonly state: CallState }
  | { readonly kind: 'output'; readonly seq: number; readonly stream: 'stdout' | 'stderr'; readonly data: Uint8Array };

export interface CallSettings extends CallOptions {
  /** Cancels the call; its result is then CANCELLED. */
  readonly signal?: AbortSignal;
}

/** A piece of a call's output; a character may be cut at its end. */
export interface OutputEntry {
  /** Counted from 1 in each call, as in its progress. */
  readonly seq: number;
  readonly stream: 'stdout' | 'stderr';
  readonly data: Uint8Array;
}

export interface OutputSettings {
  /** Only what came after this entry; 0 for all. */
  readonly afterSeq?: number;
  /** Whether to wait for what is still to come; true when absent. */
  readonly follow?: boolean;
}

/** A call under way: await it for its result, iterate it for its progress (which ends with the call). */
export interface RunningCall<Data> extends Promise<ToolResult<Data>>, AsyncIterable<Progress> {
  readonly callId: string;
}

/** Connects and says hello. Rejects with the system's error when no daemon listens, with RemoteError when it refuses. */
export async function createClient(options: ClientOptions): Promise<Client> {
  const client = new Client(options, systemPowers());
  await client.hello;
  return client;
}

/** What the daemon tells a subscriber: `approval.requested`, `call.update` … with their params. */
export interface Notification {
  readonly method: string;
  readonly params: Record<string, unknown>;
}

type Listener = (progress: Progress) => void;

interface Connected {
  readonly peer: Peer;
  readonly hello: Hello;
}

/** Between two attempts to reach a daemon that is not there. */
const RETRY_MS = 20;
const RETRY_MS_MAX = 1000;
/** Requests that are not repeated where nobody knows whether they were served. */
const ONCE: ReadonlySet<string> = new Set(['approvals.resolve', 'events.subscribe', 'policy.reload', 'shutdown']);

const isDetached = (params: unknown): boolean => (params as { options?: CallOptions }).options?.detached === true;

export class Client implements AsyncDisposable {
  readonly #options: ClientOptions;
  readonly #powers: Powers;
  readonly #listeners = new Map<string, Listener>();
  readonly #subscribers = new Set<(it: Notification) => void>();
  #connection: Promise<Connected>;
  #connected: Connected | undefined;
  #reconnecting: Promise<Connected> | undefined;
  #closed = false;
  #over = Promise.withResolvers<void>();

  constructor(options: ClientOptions, powers: Powers) {
    this.#options = options;
    this.#powers = powers;
    this.#connection = this.#connect();
    this.#connection.catch(() => {});
  }

  /** What the daemon said to the hello of the present connection. */
  get hello(): Promise<Hello> {
    return this.#connection.then((it) => it.hello);
  }

  /** Runs a tool. Never throws for a call that fails: look at `success`. Rejects when the connection ends and is not resumed. */
  call<N extends ToolName>(tool: N, input: ToolInput<N>, settings?: CallSettings): RunningCall<ToolData<N>>;
  call(tool: string, input: unknown, settings?: CallSettings): RunningCall<unknown>;
  call(tool: string, input: unknown, settings: CallSettings = {}): RunningCall<unknown> {
    const { signal, ...options } = settings;
    const callId = options.callId ?? this.#powers.uuid();
    const progress = new Queue<Progress>();
    // Who also subscribed is told of each state twice.
    const last = { state: 0, output: 0 };
    if (options.progress)
      this.#listeners.set(callId, (it) => {
        if (it.seq <= last[it.kind]) return;
        last[it.kind] = it.seq;
        progress.push(it);
      });
    const cancel = () => void this.request('calls.cancel', { callId }).catch(() => {}); // The connection is gone, and the call with it, or it is detached.
    const result = this.request('tools.call', { tool, input, options: { ...options, callId } }).finally(() => {
      signal?.removeEventListener('abort', cancel);
      this.#listeners.delete(callId);
      progress.end();
    }) as Promise<ToolResult>;
    signal?.addEventListener('abort', cancel);
    if (signal?.aborted) cancel();
    return Object.assign(result, { callId, [Symbol.asyncIterator]: () => progress }) as RunningCall<unknown>;
  }

  /**
   * Notifications of these topics from now on, until the iteration is left or the connection ends; nobody reading them, the
   * oldest of too many are lost. Rejects with RemoteError when the session may not have them.
   */
  async *notifications(
    topics: readonly string[],
    settings: { signal?: AbortSignal } = {},
  ): AsyncGenerator<Notification> {
    const queue = new Queue<Notification>();
    const listener = (it: Notification) => queue.push(it);
    this.#subscribers.add(listener);
    const end = () => queue.end();
    settings.signal?.addEventListener('abort', end);
    try {
      await this.request('events.subscribe', { topics });
      void this.ended.then(end);
      if (settings.signal?.aborted) end();
      yield* { [Symbol.asyncIterator]: () => queue };
    } finally {
      settings.signal?.removeEventListener('abort', end);
      this.#subscribers.delete(listener);
    }
  }

  /**
   * Output of a call as the daemon keeps it, to the end of the call. Gives why it ends before that, if it does: `size`, `disk`
   * or `crash`. It can be gone on with after any entry, by another connection too where that is an operator's. Rejects with
   * RemoteError for a call that is none of the session's, or is forgotten.
   */
  async *output(
    callId: string,
    { afterSeq = 0, follow = true }: OutputSettings = {},
  ): AsyncGenerator<OutputEntry, string | undefined> {
    for (let seq = afterSeq; ; ) {
      const params = { callId, afterSeq: seq, waitMs: follow ? OUTPUT_WAIT_MS : 0 };
      const page = (await this.request('results.read', params)) as OutputPage;
      yield* page.entries;
      if (page.eof || (!follow && page.entries.length === 0)) return page.cut;
      seq = page.seq;
    }
  }

  async tools(): Promise<ToolInfo[]> {
    return ((await this.request('tools.list', {})) as { tools: ToolInfo[] }).tools;
  }

  async record(callId: string): Promise<CallRecord> {
    return (await this.request('calls.get', { callId })) as CallRecord;
  }

  /**
   * Any request of docs/protocol.md. A connection that has ended is made anew; what was under way in it is not repeated, unless
   * its session was resumed (`resumeMs`) and repeating it does nothing twice.
   */
  async request(method: string, params: unknown): Promise<unknown> {
    if (this.#closed) throw new Error('this client is closed');
    // At once where it can be, so that requests keep their order.
    const connection = this.#live ?? (await this.#connection.catch(() => this.#reconnect()));
    const { peer, hello } = connection.peer.closed ? await this.#reconnect() : connection;
    try {
      return await peer.request(method, params);
    } catch (error) {
      if (error instanceof RemoteError || !peer.closed || this.#closed || !this.#resumeMs || ONCE.has(method))
        throw error;
      const again = await this.#reconnect();
      // In another session its id is free, so that it would run a second time; that of a detached call is not.
      if (again.hello.session.id !== hello.session.id && !isDetached(params)) throw error;
      return await this.request(method, params);
    }
  }

  /** Settles when the present connection is over, and its session is not resumed. */
  get ended(): Promise<void> {
    return this.#over.promise;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed = true;
    const connection = await this.#connection.catch(() => undefined);
    connection?.peer.close();
    this.#over.resolve();
  }

  get #live(): Connected | undefined {
    return this.#connected?.peer.closed === false ? this.#connected : undefined;
  }

  get #resumeMs(): number {
    return this.#options.resumeMs ?? 0;
  }

  #reconnect(): Promise<Connected> {
    if (this.#live) return this.#connection;
    if (this.#reconnecting) return this.#reconnecting;
    const before = this.#connected;
    this.#connected = undefined;
    this.#connection = before && this.#resumeMs > 0 ? this.#resume(before.hello) : this.#connect();
    const made = this.#connection;
    this.#reconnecting = made;
    const settled = () => {
      this.#reconnecting = undefined;
    };
    made.then(settled, settled);
    return made;
  }

  /** Tries until the daemon is there, as long as it waits for us; a session that is gone is followed by another. */
  async #resume({ session }: Hello): Promise<Connected> {
    const { id: sessionId, secret, resumeMs } = session;
    const until = this.#powers.monotonicMs() + Math.max(resumeMs, this.#resumeMs);
    for (let pauseMs = RETRY_MS; ; pauseMs = Math.min(2 * pauseMs, RETRY_MS_MAX)) {
      try {
        return await this.#connect({ sessionId, secret });
      } catch (error) {
        if (error instanceof RemoteError && error.code === RPC_CODES.FORBIDDEN) return this.#connect();
        // The daemon may be on its way out, or not there yet.
        const mayCome = !(error instanceof RemoteError) || error.code === RPC_CODES.OVERLOADED;
        if (!mayCome || this.#closed || this.#powers.monotonicMs() > until) throw error;
        await new Promise<void>((resolve) => this.#powers.after(pauseMs, resolve));
      }
    }
  }

  /** A connection ended: the client goes on by itself where its session waits, else whoever listened is told. */
  #lost(over: PromiseWithResolvers<void>): void {
    if (this.#closed || this.#resumeMs === 0 || !this.#connected) return over.resolve();
    const { id } = this.#connected.hello.session;
    this.#reconnect().then(
      ({ hello }) => {
        // Subscriptions belong to the session.
        if (hello.session.id !== id) over.resolve();
      },
      () => over.resolve(),
    );
  }

  async #connect(resume?: { sessionId: string; secret: string }): Promise<Connected> {
    const { socket, workspace, role, token, policy, name = 'ringfence/client', version = '1' } = this.#options;
    const channel: Channel = await connectUnix(socket);
    const over = resume ? this.#over : Promise.withResolvers<void>();
    this.#over = over;
    const peer = new Peer(channel, {
      onClose: () => this.#lost(over),
      limits: { ...defaultLimits, messageElementsMax: 2 * defaultLimits.messageElementsMax },
      powers: this.#powers,
      onNotification: (method, params) => this.#hear(method, params as Record<string, unknown>),
    });
    const hello = (await peer.request('hello', {
      protocol: 1,
      client: { name, version },
      ...{ workspace, role, token, policy },
      ...(this.#resumeMs > 0 && { resumeMs: this.#resumeMs }),
      ...(resume && { resume }),
    })) as Hello;
    this.#connected = { peer, hello };
    return this.#connected;
  }

  #hear(method: string, params: Record<string, unknown>): void {
    for (const tell of this.#subscribers) tell({ method, params });
    const listener = this.#listeners.get(params.callId as string);
    const { seq } = params as { seq: number };
    if (method === 'call.update') listener?.({ kind: 'state', seq, state: params.state as CallState });
    if (method === 'call.output') {
      const { stream, data } = params as { stream: 'stdout' | 'stderr'; data: Uint8Array };
      listener?.({ kind: 'output', seq, stream, data });
    }
  }
}

const OUTPUT_WAIT_MS = 30_000;

interface OutputPage {
  entries: OutputEntry[];
  seq: number;
  eof: boolean;
  cut?: string;
}

/** What nobody has asked for yet; the oldest goes when there is too much of it. */
class Queue<Item> implements AsyncIterator<Item> {
  static readonly max = 1024;
  readonly #items: Item[] = [];
  #ended = false;
  #wake: (() => void) | undefined;

  push(item: Item): void {
    if (this.#ended) return;
    this.#items.push(item);
    if (this.#items.length > Queue.max) this.#items.shift();
    this.#wake?.();
  }

  end(): void {
    this.#ended = true;
    this.#wake?.();
  }

  async next(): Promise<IteratorResult<Item>> {
    while (this.#items.length === 0 && !this.#ended) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
    const value = this.#items.shift();
    return value === undefined ? { done: true, value } : { done: false, value };
  }
}
