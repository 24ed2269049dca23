/** The library that agents, the CLI, tests and benches use: `ringfence/client`. */
import type * as z from 'zod';
import type {
  BatchCall,
  BatchEstimate,
  BatchOptions,
  BatchResult,
  CallOptions,
  CallRecord,
  CallState,
  Tier,
  ToolResult,
  UndoResult,
} from '../base/call.ts';
import { type Powers, systemPowers } from '../base/powers.ts';
import type { builtinTools } from '../tools/builtin.ts';
import type { ToolFormat, ToolFormats } from '../tools/registry.ts';
import type { Answer } from '../wire/protocol/answers.ts';
import { type ApprovalHandler, type ApprovalWatch, watchApprovals } from './approval-watch.ts';
import { ClientConnection, type ClientOptions, type Hello } from './line.ts';

export type {
  BatchCall,
  BatchEstimate,
  BatchResult,
  CallOptions,
  CallRecord,
  CallState,
  Denial,
  ToolResult,
  UndoResult,
} from '../base/call.ts';
export type { Approval } from '../store/approvals/approval.ts';
export type { ToolInfo } from '../tools/capability.ts';
export type { AnthropicTool, McpTool, OpenAiTool, ToolFormat, ToolFormats } from '../tools/registry.ts';
export { RemoteError } from '../wire/protocol/peer.ts';
export type { ApprovalAnswer, ApprovalHandler, ApprovalWatch } from './approval-watch.ts';
export type { ClientOptions, Hello } from './line.ts';
export { type ToolMessages, toToolMessage } from './tool-message.ts';

type Builtin = typeof builtinTools;
/** The built-in tools by name; `client.call` completes and checks their input. */
export type ToolName = keyof Builtin;
export type ToolInput<N extends ToolName> = z.input<Builtin[N]['input']>;
export type ToolData<N extends ToolName> = z.output<Builtin[N]['output']>;
/** Tools of plugins and providers. Their input and output types are not known here. */
export type AddedToolName = `${string}__${string}`;
/** A literal name of a known tool, or any `string` computed at run time: from a model, a person, a file. */
type CallableName<N extends string> = N extends ToolName | AddedToolName ? N : string extends N ? N : never;
type InputOf<N extends string> = N extends ToolName ? ToolInput<N> : unknown;
type DataOf<N extends string> = N extends ToolName ? ToolData<N> : unknown;

export type Progress =
  | { readonly kind: 'state'; readonly seq: number; readonly state: CallState }
  | { readonly kind: 'output'; readonly seq: number; readonly stream: 'stdout' | 'stderr'; readonly data: Uint8Array };

export interface CallSettings extends Omit<CallOptions, 'span'> {
  /** Cancels the call; its result is then CANCELLED. */
  readonly signal?: AbortSignal | undefined;
  /** Makes the call a part of the caller's trace, with the values of W3C Trace Context. */
  readonly trace?: { readonly traceparent: string; readonly tracestate?: string };
}

export interface BatchSettings extends BatchOptions {
  /** Names the batch for `calls.cancel`. */
  readonly batchId?: string;
  /** Cancels calls that have not ended. */
  readonly signal?: AbortSignal;
  /** Called with each result as it arrives. */
  readonly onResult?: (id: string, result: ToolResult) => void;
}

/** A piece of a call's output; a character may be cut at its end. */
export interface OutputEntry {
  /** Number of the entry in its call, from 1, as in progress. */
  readonly seq: number;
  readonly stream: 'stdout' | 'stderr';
  readonly data: Uint8Array;
}

/** Selects the tools that `client.tools` returns. */
export interface ToolSettings {
  readonly tier?: Tier;
  readonly category?: string;
  /** For models: the tools that most work needs, or all. */
  readonly tools?: 'default' | 'all';
  /** Whether the usual times of calls are told, too. */
  readonly estimates?: boolean;
}

export interface OutputSettings {
  /** Only entries after this one; 0 for all. */
  readonly afterSeq?: number;
  /** Whether to wait for output still to come; true when absent. */
  readonly follow?: boolean;
}

/** A running call: await it for its result, iterate it for its progress, which ends with the call. */
export interface RunningCall<Data> extends Promise<ToolResult<Data>>, AsyncIterable<Progress> {
  readonly callId: string;
}

/** Connects and says hello. Rejects with the system's error when no daemon listens, with RemoteError when it refuses. */
export async function createClient(options: ClientOptions): Promise<Client> {
  const client = new Client(options, systemPowers());
  await client.hello;
  return client;
}

/** A notification for a subscriber: `approval.requested`, `call.update` … with their params. */
export interface Notification {
  readonly method: string;
  readonly params: Record<string, unknown>;
}

type Listener = (progress: Progress) => void;

export class Client implements AsyncDisposable {
  readonly #powers: Powers;
  readonly #listeners = new Map<string, Listener>();
  readonly #subscribers = new Set<(it: Notification) => void>();
  readonly #line: ClientConnection;

  constructor(options: ClientOptions, powers: Powers) {
    this.#powers = powers;
    this.#line = new ClientConnection(options, powers, (method, params) => this.#onNotification(method, params));
  }

  /** The daemon's answer to the hello of the current connection. */
  get hello(): Promise<Hello> {
    return this.#line.hello;
  }

  /**
   * Runs a tool. Never throws for a call that fails: look at `success`. Rejects when the connection ends and is not resumed.
   * A misspelt name or parameter does not compile. A name of type `string` (a model chose it, or it is an alias) is taken
   * with any input, which the daemon checks.
   */
  call<N extends ToolName | (string & {})>(
    tool: N & CallableName<N>,
    input: InputOf<N>,
    settings: CallSettings = {},
  ): RunningCall<DataOf<N>> {
    const { signal, trace, ...options } = settings;
    const callId = options.callId ?? this.#powers.uuid();
    const progress = new ItemQueue<Progress>();
    // A client that also subscribed receives each state twice.
    const last = { state: 0, output: 0 };
    if (options.progress)
      this.#listeners.set(callId, (it) => {
        if (it.seq <= last[it.kind]) return;
        last[it.kind] = it.seq;
        progress.push(it);
      });
    const cancel = () => void this.request('calls.cancel', { callId }).catch(() => {}); // The connection is gone and with it the call, unless the call is detached.
    const params = { tool, input, options: { ...options, callId }, _meta: trace };
    const result = this.request('tools.call', params).finally(() => {
      signal?.removeEventListener('abort', cancel);
      this.#listeners.delete(callId);
      progress.end();
    }) as Promise<ToolResult>;
    signal?.addEventListener('abort', cancel);
    if (signal?.aborted) cancel();
    return Object.assign(result, { callId, [Symbol.asyncIterator]: () => progress }) as RunningCall<DataOf<N>>;
  }

  /**
   * Runs calls in the order that their `dependsOn` and their references (`${id.data.path}` in an input) require, each as soon as possible.
   * Never throws for calls that fail; rejects with RemoteError for an invalid batch, and when the connection ends.
   */
  async batch(calls: readonly BatchCall[], settings: BatchSettings = {}): Promise<BatchResult> {
    const { signal, onResult, ...options } = settings;
    const batchId = options.batchId ?? this.#powers.uuid();
    const hear = ({ method, params }: Notification) => {
      if (method === 'batch.update' && params.batchId === batchId)
        onResult?.(params.id as string, params.result as ToolResult);
    };
    const cancel = () => void this.request('calls.cancel', { callId: batchId }).catch(() => {}); // The connection is gone and with it the batch.
    this.#subscribers.add(hear);
    signal?.addEventListener('abort', cancel);
    try {
      const progress = onResult !== undefined;
      const result = this.request('tools.batch', { calls, options: { ...options, batchId, progress } });
      if (signal?.aborted) cancel();
      return (await result) as BatchResult;
    } finally {
      this.#subscribers.delete(hear);
      signal?.removeEventListener('abort', cancel);
    }
  }

  /**
   * Plans a batch without running it: its levels, its critical path, its estimated time from past calls. Rejects as `batch` does, and for a
   * cycle.
   */
  async plan(calls: readonly BatchCall[]): Promise<BatchEstimate> {
    return (await this.request('tools.batch', { calls, options: { plan: true } })) as BatchEstimate;
  }

  /**
   * Notifications of these topics from now on, until the iteration is left or the connection ends. If they are not read, the oldest ones
   * beyond a bound are dropped. `events.missed` comes where a resumed session subscribes again at a daemon that took over: what happened
   * between the two is not told. Rejects with RemoteError if the session may not subscribe to them.
   */
  async *notifications(
    topics: readonly string[],
    settings: { signal?: AbortSignal } = {},
  ): AsyncGenerator<Notification> {
    const queue = new ItemQueue<Notification>();
    const listener = (it: Notification) => queue.push(it);
    this.#subscribers.add(listener);
    const end = () => queue.end();
    settings.signal?.addEventListener('abort', end);
    const missed = () => queue.push({ method: 'events.missed', params: { topics } });
    let subscribed: Disposable | undefined;
    try {
      subscribed = await this.#line.subscribe({ topics, missed, end });
      void this.ended.then(end);
      if (settings.signal?.aborted) end();
      yield* { [Symbol.asyncIterator]: () => queue };
    } finally {
      settings.signal?.removeEventListener('abort', end);
      this.#subscribers.delete(listener);
      subscribed?.[Symbol.dispose]();
    }
  }

  /**
   * The kept output of a call up to its end. Returns why the output ends earlier, if it does: `size`, `disk` or `crash`. Reading can
   * continue after any entry, also on another connection of an operator. Rejects with RemoteError for a call that is not of this session or
   * is forgotten.
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

  /** Reports state changes of calls made with `progress`, until the client is closed. */
  onUpdate(listener: (callId: string, state: CallState) => void): void {
    this.#subscribers.add(({ method, params }) => {
      if (method === 'call.update') listener(params.callId as string, params.state as CallState);
    });
  }

  /** The tools of this session, in Ringfence's own format or in that of a model's API. */
  async tools<F extends ToolFormat = 'ringfence'>(format?: F, settings: ToolSettings = {}): Promise<ToolFormats[F][]> {
    const params = { ...settings, format };
    return ((await this.request('tools.list', params)) as { tools: ToolFormats[F][] }).tools;
  }

  /** Cancels a call, or a batch by its `batchId`. Returns whether there was something to cancel. */
  async cancel(callId: string): Promise<boolean> {
    return (await this.request('calls.cancel', { callId })).cancelled;
  }

  /**
   * Undoes a call's changes to files: all of them or, if there are `conflicts`, none; `force` also overwrites later changes. Rejects with
   * RemoteError for a call that this session may not undo.
   */
  async undo(callId: string, settings: { readonly force?: boolean } = {}): Promise<UndoResult> {
    return await this.request('calls.undo', { callId, ...settings });
  }

  /**
   * Lets a handler answer questions about calls, both pending and future ones; needs the role `operator`. Rejects with RemoteError
   * otherwise.
   */
  onApproval(handler: ApprovalHandler): Promise<ApprovalWatch> {
    return watchApprovals(this, handler);
  }

  async record(callId: string): Promise<CallRecord> {
    return await this.request('calls.get', { callId });
  }

  /** Sends any request of docs/protocol-reference.md; see `Line.request`. */
  request<M extends string>(method: M, params: unknown): Promise<Answer<M>> {
    return this.#line.request(method, params) as Promise<Answer<M>>;
  }

  /** Settles when the current connection is over and its session is not resumed. */
  get ended(): Promise<void> {
    return this.#line.ended;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#line[Symbol.asyncDispose]();
  }

  #onNotification(method: string, params: Record<string, unknown>): void {
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

type OutputPage = Extract<Answer<'results.read'>, { entries: unknown }>;

/** Unread items; the oldest are dropped beyond `max`. */
class ItemQueue<Item> implements AsyncIterator<Item> {
  static readonly max = 1024;
  readonly #items: Item[] = [];
  #ended = false;
  #wake: (() => void) | undefined;

  push(item: Item): void {
    if (this.#ended) return;
    this.#items.push(item);
    if (this.#items.length > ItemQueue.max) this.#items.shift();
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
