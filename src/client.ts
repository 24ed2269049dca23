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
} from './call.ts';
import { type ApprovalHandler, type ApprovalWatch, watchApprovals } from './client/approval-watch.ts';
import { type ClientOptions, type Hello, Line } from './client/line.ts';
import { type Powers, systemPowers } from './powers.ts';
import type { builtinTools } from './tools/builtin.ts';
import type { ToolFormat, ToolFormats } from './tools/registry.ts';

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
} from './call.ts';
export type { ApprovalAnswer, ApprovalHandler, ApprovalWatch } from './client/approval-watch.ts';
export type { ClientOptions, Hello } from './client/line.ts';
export { type ToolMessages, toToolMessage } from './client/tool-message.ts';
export { RemoteError } from './protocol/peer.ts';
export type { Approval } from './store/approval.ts';
export type { AnthropicTool, McpTool, OpenAiTool, ToolFormat, ToolFormats, ToolInfo } from './tools/registry.ts';

type Builtin = typeof builtinTools;
/** The built-in tools by name; `client.call` completes and checks their input. */
export type ToolName = keyof Builtin;
export type ToolInput<N extends ToolName> = z.input<Builtin[N]['input']>;
export type ToolData<N extends ToolName> = z.output<Builtin[N]['output']>;
/** Tools of plugins and providers. Their shapes are not known here. */
export type AddedToolName = `${string}__${string}`;
/** Any name that a program may write out, and any text that it gets at run time: of a model, a person, a file. */
type CallableName<N extends string> = N extends ToolName | AddedToolName ? N : string extends N ? N : never;
type InputOf<N extends string> = N extends ToolName ? ToolInput<N> : unknown;
type DataOf<N extends string> = N extends ToolName ? ToolData<N> : unknown;

/** What a call tells while it runs. */
export type Progress =
  | { readonly kind: 'state'; readonly seq: number; readonly state: CallState }
  | { readonly kind: 'output'; readonly seq: number; readonly stream: 'stdout' | 'stderr'; readonly data: Uint8Array };

export interface CallSettings extends CallOptions {
  /** Cancels the call; its result is then CANCELLED. */
  readonly signal?: AbortSignal;
}

export interface BatchSettings extends BatchOptions {
  /** Names the batch for `calls.cancel`. */
  readonly batchId?: string;
  /** Cancels what is not over. */
  readonly signal?: AbortSignal;
  /** Told of each result as it comes. */
  readonly onResult?: (id: string, result: ToolResult) => void;
}

/** A piece of a call's output; a character may be cut at its end. */
export interface OutputEntry {
  /** Counted from 1 in each call, as in its progress. */
  readonly seq: number;
  readonly stream: 'stdout' | 'stderr';
  readonly data: Uint8Array;
}

/** Which tools `client.tools` gives. */
export interface ToolSettings {
  readonly tier?: Tier;
  readonly category?: string;
  /** For models: those that most work takes, or all. */
  readonly tools?: 'default' | 'all';
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

export class Client implements AsyncDisposable {
  readonly #powers: Powers;
  readonly #listeners = new Map<string, Listener>();
  readonly #subscribers = new Set<(it: Notification) => void>();
  readonly #line: Line;

  constructor(options: ClientOptions, powers: Powers) {
    this.#powers = powers;
    this.#line = new Line(options, powers, (method, params) => this.#hear(method, params));
  }

  /** What the daemon said to the hello of the present connection. */
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
    return Object.assign(result, { callId, [Symbol.asyncIterator]: () => progress }) as RunningCall<DataOf<N>>;
  }

  /**
   * Runs calls in the order that their `dependsOn` and their references (`${id.data.path}` in an input) ask for, each as
   * soon as it can. Never throws for calls that fail; rejects with RemoteError for a batch that is none, and when the connection ends.
   */
  async batch(calls: readonly BatchCall[], settings: BatchSettings = {}): Promise<BatchResult> {
    const { signal, onResult, ...options } = settings;
    const batchId = options.batchId ?? this.#powers.uuid();
    const hear = ({ method, params }: Notification) => {
      if (method === 'batch.update' && params.batchId === batchId)
        onResult?.(params.id as string, params.result as ToolResult);
    };
    const cancel = () => void this.request('calls.cancel', { callId: batchId }).catch(() => {}); // The connection is gone, and the batch with it.
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

  /** What a batch would be like: its levels, its longest way, its time as the past has it. Rejects as `batch` does, and for a cycle. */
  async plan(calls: readonly BatchCall[]): Promise<BatchEstimate> {
    return (await this.request('tools.batch', { calls, options: { plan: true } })) as BatchEstimate;
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

  /** Tells of the states of calls made with `progress`, until the client is closed. */
  onUpdate(listener: (callId: string, state: CallState) => void): void {
    this.#subscribers.add(({ method, params }) => {
      if (method === 'call.update') listener(params.callId as string, params.state as CallState);
    });
  }

  /** The tools of this session, as Ringfence tells them or as the API of a model takes them. */
  async tools<F extends ToolFormat = 'ringfence'>(format?: F, settings: ToolSettings = {}): Promise<ToolFormats[F][]> {
    const params = { ...settings, ...(format !== undefined && { format }) };
    return ((await this.request('tools.list', params)) as { tools: ToolFormats[F][] }).tools;
  }

  /** Ends a call, or a batch by its `batchId`. Gives whether there was something to end. */
  async cancel(callId: string): Promise<boolean> {
    return ((await this.request('calls.cancel', { callId })) as { cancelled: boolean }).cancelled;
  }

  /**
   * Takes back what a call did to files: all of it or, with `conflicts`, nothing; `force` also loses what was changed since.
   * Rejects with RemoteError for a call that this session may not take back.
   */
  async undo(callId: string, settings: { readonly force?: boolean } = {}): Promise<UndoResult> {
    return (await this.request('calls.undo', { callId, ...settings })) as UndoResult;
  }

  /**
   * Has a handler answer the questions about calls, those that wait already and those to come, for sessions with the role
   * `operator`. Rejects with RemoteError for others.
   */
  onApproval(handler: ApprovalHandler): Promise<ApprovalWatch> {
    return watchApprovals(this, handler);
  }

  async record(callId: string): Promise<CallRecord> {
    return (await this.request('calls.get', { callId })) as CallRecord;
  }

  /** Any request of docs/protocol.md; see `Line.request`. */
  request(method: string, params: unknown): Promise<unknown> {
    return this.#line.request(method, params);
  }

  /** Settles when the present connection is over, and its session is not resumed. */
  get ended(): Promise<void> {
    return this.#line.ended;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#line[Symbol.asyncDispose]();
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
