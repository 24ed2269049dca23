/**
 * One side of a connection: requests and answers in both directions over any channel. Used by the daemon and by the client. Architecture
 * invariant: one of three places where errors are converted (here: to JSON-RPC errors).
 */
import { RPC_CODES, RpcError } from '../../base/errors.ts';
import type { Limits } from '../../base/limits.ts';
import type { Powers, Timer } from '../../base/powers.ts';
import type { Channel } from '../transport/transport.ts';
import { decode, encode } from './codec.ts';
import { encodeFrame, FrameReader, toFrame } from './frame.ts';
import { decodeJson, encodeJson } from './json.ts';
import { ServingTurns } from './serving-turns.ts';

type Id = string | number;
type Message = Record<string, unknown>;

/** Bytes of unanswered requests, summed over all peers that share the budget. */
export interface RequestBudget {
  bytes: number;
}

/** Encodes and decodes messages. */
export interface Codec {
  encode(message: unknown): Uint8Array;
  /** Throws RpcError PARSE. */
  decode(payload: Buffer): unknown;
}

export interface PeerOptions {
  /** Replaces our own MessagePack on channels that use it. */
  readonly codec?: Codec;
  readonly limits: Limits;
  readonly powers: Powers;
  /** Bounded by requestBytesMax; belongs to this peer alone when absent. */
  readonly budget?: RequestBudget | undefined;
  /** Shared by all peers whose requests this process serves; belongs to this peer alone when absent. */
  readonly turns?: ServingTurns | undefined;
  /** Answers a request by returning a result or throwing RpcError. */
  onRequest?(method: string, params: unknown): unknown;
  onNotification?(method: string, params: unknown): void;
  /** Called when the other side reads again after congestion. */
  onDrain?(): void;
  /** Called when the connection has ended; `reason` is a message for people if this side ended it. */
  onClose?(reason?: string): void;
}

interface PendingRequest {
  readonly resolve: (result: unknown) => void;
  readonly reject: (error: Error) => void;
}

/** The other side answered with an error. */
export class RemoteError extends Error {
  readonly code: number;
  readonly data: unknown;

  constructor(code: number, message: string, data: unknown) {
    super(message);
    this.name = 'RemoteError';
    this.code = code;
    this.data = data;
  }
}

/** A message as the bytes that a channel sends. Throws FRAME_TOO_LARGE. */
export function toBytes(
  message: unknown,
  { framing, encoding }: Pick<Channel, 'framing' | 'encoding'>,
  max: number,
): Buffer {
  if (framing === 'length' && encoding === 'msgpack') return toFrame(message, max);
  const payload = encoding === 'json' ? encodeJson(message) : encode(message);
  if (framing === 'length') return encodeFrame(payload, max);
  if (payload.length > max)
    throw new RpcError('FRAME_TOO_LARGE', `a message has ${payload.length} bytes; at most ${max} can be sent`);
  return payload;
}

export class Peer {
  readonly #channel: Channel;
  readonly #options: PeerOptions;
  readonly #reader: FrameReader;
  /** Sizes of the other side's unanswered requests, by id. */
  readonly #unanswered = new Map<Id, number>();
  readonly #pendingRequests = new Map<Id, PendingRequest>();
  readonly #budget: RequestBudget;
  readonly #turns: ServingTurns;
  readonly #serve = (): boolean => this.#serveOne();
  #unansweredBytes = 0;
  #nextId = 1;
  /** Received requests that wait for their turn. */
  #inbox: Buffer[] = [];
  #paused = false;
  #closed = false;
  /** The largest payload that the other side takes. */
  #sendBytesMax: number;
  #halfFrame: Timer | undefined;

  constructor(channel: Channel, options: PeerOptions) {
    this.#channel = channel;
    this.#options = options;
    this.#budget = options.budget ?? { bytes: 0 };
    this.#turns = options.turns ?? new ServingTurns(options.limits, options.powers);
    this.#reader = new FrameReader(options.limits.frameBytesMax);
    this.#sendBytesMax = options.limits.frameBytesMax;
    channel.open({
      data: (bytes) => this.#receive(bytes),
      drain: () => this.#onDrained(),
      close: () => this.#end(),
    });
  }

  get closed(): boolean {
    return this.#closed;
  }

  /** Whether a request waits for its answer. */
  get awaits(): boolean {
    return this.#pendingRequests.size > 0;
  }

  /** Whether a received request has not been started yet. */
  get isUnheard(): boolean {
    return this.#inbox.length > 0;
  }

  /** Whether the other side reads so slowly that nothing more should be produced for it. */
  get congested(): boolean {
    return this.#channel.bufferedBytes > this.#options.limits.writeBufferBytesMax;
  }

  /** Sends a request. Rejects with RemoteError, or with Error when the connection ends first. */
  request(method: string, params: unknown): Promise<unknown> {
    if (this.#closed) return Promise.reject(new Error('the connection is closed'));
    const id = this.#nextId++;
    return new Promise((resolve, reject) => {
      this.#pendingRequests.set(id, { resolve, reject });
      try {
        this.#send({ id, method, params });
      } catch (error) {
        this.#pendingRequests.delete(id);
        reject(error as Error);
      }
    });
  }

  /**
   * Sends a notification. While the other side reads too slowly the notification is dropped, and the numbers in later ones show the gap.
   */
  notify(method: string, params: unknown): void {
    if (this.#closed || this.congested) return;
    this.#send({ method, params });
  }

  /** Bounds what is sent by what the other side said that it takes. A request beyond it rejects with FRAME_TOO_LARGE. */
  boundSending(frameBytesMax: number): void {
    this.#sendBytesMax = frameBytesMax;
  }

  /** Closes after everything sent is written. */
  close(): void {
    this.#channel.close();
  }

  #send(message: Message): void {
    const { codec } = this.#options;
    const { framing, encoding } = this.#channel;
    const isFramed = codec && framing === 'length' && encoding === 'msgpack';
    const max = this.#sendBytesMax;
    const bytes = isFramed ? encodeFrame(codec.encode(message), max) : toBytes(message, this.#channel, max);
    // A write for each answer would cost more than the answer.
    this.#channel.send(bytes, this.isUnheard);
  }

  #receive(bytes: Buffer): void {
    if (this.#closed) return;
    try {
      if (this.#channel.framing === 'message') this.#onPayload(bytes);
      else {
        for (const payload of this.#reader.push(bytes)) this.#onPayload(payload);
        this.#watchHalfFrame();
      }
    } catch (error) {
      if (!(error instanceof RpcError)) throw error;
      this.#fail(error);
    }
    this.#serveSoon();
  }

  #onPayload(payload: Buffer): void {
    if (this.#options.onRequest) this.#inbox.push(payload);
    else this.#handlePayload(payload);
  }

  /** Serves received requests when it is this peer's turn; nothing more is read before that. */
  #serveSoon(): void {
    if (this.#closed) this.#inbox = [];
    // A congested peer gets its next turn after it has read.
    if (this.#inbox.length > 0 && !this.congested) this.#turns.enter(this.#serve);
    if (this.#inbox.length > 0) this.#pause();
    else this.#mayRead();
  }

  /** Begins one request; returns whether another may begin. */
  #serveOne(): boolean {
    const payload = this.#closed || this.congested ? undefined : this.#inbox.shift();
    try {
      if (payload) this.#handlePayload(payload);
    } catch (error) {
      if (!(error instanceof RpcError)) throw error;
      this.#fail(error);
    }
    if (this.#closed) this.#inbox = [];
    if (this.#inbox.length > 0) return !this.congested;
    this.#mayRead();
    return false;
  }

  #pause(): void {
    if (this.#paused) return;
    this.#paused = true;
    this.#channel.pause();
  }

  /** Sends an error that belongs to no request, and ends the connection. */
  #fail(error: RpcError): void {
    if (this.#closed) return;
    this.#options.powers.log.warn({ code: error.code, transport: this.#channel.kind }, error.message);
    this.#send({ id: null, error: error.toWire() });
    this.#channel.close();
    this.#end(error.message);
  }

  #watchHalfFrame(): void {
    const { powers, limits } = this.#options;
    if (!this.#reader.pending) {
      this.#halfFrame?.cancel();
      this.#halfFrame = undefined;
      return;
    }
    this.#halfFrame ??= powers.after(limits.frameIdleMs, () => {
      this.#channel.destroy();
      this.#end('half a frame and no more');
    });
  }

  #handlePayload(payload: Buffer): void {
    const { codec, limits } = this.#options;
    const isJson = this.#channel.encoding === 'json';
    const message = isJson ? decodeJson(payload, limits) : codec ? codec.decode(payload) : decode(payload, limits);
    if (typeof message !== 'object' || message === null || Array.isArray(message)) {
      return this.#answerError(null, new RpcError('INVALID_REQUEST', 'a message must be a map'));
    }
    const { id, method, params } = message as Message;
    const isId = typeof id === 'string' || Number.isSafeInteger(id);
    if (typeof method !== 'string') {
      if ('result' in message || 'error' in message || !isId) return this.#settle(message as Message);
      // The sender waits for an answer with this id.
      return this.#answerError(id as Id, new RpcError('INVALID_REQUEST', 'method must be a string'));
    }
    if (id === undefined) return this.#options.onNotification?.(method, params);
    if (!isId) return this.#answerError(null, new RpcError('INVALID_REQUEST', 'id must be a string or an integer'));
    void this.#answerTo(id as Id, { method, params, bytes: payload.length });
  }

  async #answerTo(
    id: Id,
    { method, params, bytes }: { method: string; params: unknown; bytes: number },
  ): Promise<void> {
    const refusal = this.#refusal(id, bytes);
    if (refusal) return this.#answerError(id, refusal);
    this.#unanswered.set(id, bytes);
    this.#unansweredBytes += bytes;
    this.#budget.bytes += bytes;
    try {
      this.#settleRequest({ id, result: await this.#options.onRequest?.(method, params) });
    } catch (error) {
      this.#answerError(id, this.#toRpcError(error, method));
    } finally {
      this.#unanswered.delete(id);
      this.#unansweredBytes -= bytes;
      this.#budget.bytes -= bytes;
    }
  }

  #refusal(id: Id, bytes: number): RpcError | undefined {
    const { peerRequestsMax, peerRequestBytesMax, requestBytesMax } = this.#options.limits;
    if (!this.#options.onRequest) return new RpcError('METHOD_NOT_FOUND', 'this side serves no requests');
    if (this.#unanswered.has(id))
      return new RpcError(
        'INVALID_REQUEST',
        `a request with id ${JSON.stringify(id)} is already waiting for an answer`,
      );
    if (this.#unanswered.size >= peerRequestsMax) {
      return new RpcError(
        'OVERLOADED',
        `${peerRequestsMax} requests of this connection wait for an answer; wait until some are answered`,
      );
    }
    if (this.#unansweredBytes + bytes > peerRequestBytesMax) {
      return new RpcError(
        'OVERLOADED',
        `unanswered requests of this connection hold over ${peerRequestBytesMax} bytes`,
      );
    }
    if (this.#budget.bytes + bytes > requestBytesMax)
      return new RpcError('OVERLOADED', `unanswered requests of all connections hold over ${requestBytesMax} bytes`);
    return undefined;
  }

  #toRpcError(error: unknown, method: string): RpcError {
    if (error instanceof RpcError) return error;
    this.#options.powers.log.error({ error, method }, 'a request failed with an internal error');
    return new RpcError('INTERNAL', 'something went wrong inside Ringfence; the daemon log has the cause');
  }

  #answerError(id: Id | null, error: RpcError): void {
    this.#settleRequest({ id, error: error.toWire() });
  }

  #settleRequest(message: Message): void {
    if (this.#closed) return;
    try {
      this.#send(message);
    } catch (error) {
      const wire = this.#toRpcError(error, 'answer').toWire();
      this.#send({ id: message.id, error: wire });
    }
    if (this.congested) this.#pause();
  }

  #onDrained(): void {
    if (!this.#paused) return;
    this.#options.onDrain?.();
    this.#serveSoon();
  }

  #mayRead(): void {
    if (!this.#paused || this.congested) return;
    this.#paused = false;
    this.#channel.resume();
  }

  /** Handles an answer to one of our requests; an unexpected answer is a protocol error. */
  #settle({ id, result, error }: Message): void {
    const waiting = this.#pendingRequests.get(id as Id);
    if (!waiting) {
      // Only a server ends the connection this way; from a client it is an ordinary protocol error.
      if (id === null && error !== undefined && !this.#options.onRequest) {
        this.#channel.close();
        return this.#end(String((error as Message).message));
      }
      return this.#answerError(
        null,
        new RpcError('INVALID_REQUEST', 'neither a request nor an answer that is awaited'),
      );
    }
    this.#pendingRequests.delete(id as Id);
    if (error === undefined) return waiting.resolve(result);
    const { code, message, data } = error as { code?: unknown; message?: unknown; data?: unknown };
    waiting.reject(new RemoteError(Number(code ?? RPC_CODES.INTERNAL), String(message), data));
  }

  #end(reason?: string): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#halfFrame?.cancel();
    const error = new Error(reason ? `the connection was closed: ${reason}` : 'the connection was closed');
    for (const { reject } of this.#pendingRequests.values()) reject(error);
    this.#pendingRequests.clear();
    this.#options.onClose?.(reason);
  }
}
