/**
 * Newline-delimited JSON-RPC over a stream socket, as an SDK transport. Bounds what the SDK does not: lengths, nesting, pending requests,
 * and buffered data for slow readers.
 */
import type { Socket } from 'node:net';
import { isJSONRPCRequest, type JSONRPCMessage, ProtocolError, type Transport } from '@modelcontextprotocol/server';
import { RpcError } from '../../base/errors.ts';
import type { Limits } from '../../base/limits.ts';
import type { Powers, Timer } from '../../base/powers.ts';
import { BatchedWrites } from '../../wire/protocol/frame.ts';
import { decodeJson } from '../../wire/protocol/json.ts';
import type { RequestBudget } from '../../wire/protocol/peer.ts';
import { ServingTurns } from '../../wire/protocol/serving-turns.ts';
import { LineReader, TOO_LONG } from './line-reader.ts';

type Id = string | number;
type JsonObject = Record<string, unknown>;

export interface SocketTransportOptions {
  readonly limits: Limits;
  readonly powers: Powers;
  /** Bytes of pending requests; bounded by requestBytesMax over all connections. */
  readonly budget: RequestBudget;
  /** Shared by all connections; belongs to this one alone when absent. */
  readonly turns?: ServingTurns;
  /** Sees each message before the SDK does; returns whether it handled the message. Errors that it throws answer the request. */
  intercept?(message: JsonObject, isFirst: boolean): boolean;
  /** Called when the other side reads again after congestion. */
  onDrain?(): void;
  /** Called when the connection has ended. */
  onEnd?(): void;
}

/** A request of the other side, for as long as it holds memory. */
interface Request {
  readonly bytes: number;
  /** Whether it was answered, or cancelled, which gets no answer. */
  isOver: boolean;
  /** Whether work on it is still running. */
  isHeld: boolean;
}

export class SocketTransport implements Transport {
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: (message: JSONRPCMessage) => void;
  readonly #socket: Socket;
  readonly #options: SocketTransportOptions;
  readonly #turns: ServingTurns;
  readonly #serve = (): boolean => this.#serveOne();
  readonly #lines: LineReader;
  readonly #writes: BatchedWrites;
  #inbox: Buffer[] = [];
  readonly #underWay = new Map<Id, Request>();
  /** Count and bytes of all requests that hold memory, including cancelled ones with running work. */
  #requests = 0;
  #requestBytes = 0;
  #isFirst = true;
  #hasEnded = false;
  #closed = false;
  /** Timers that end a connection which sends nothing, or only half a line. */
  #silent: Timer | undefined;
  #halfLine: Timer | undefined;
  /** Timer that ends a closing connection whose other side does not read. */
  #unread: Timer | undefined;

  constructor(socket: Socket, options: SocketTransportOptions) {
    this.#socket = socket;
    this.#options = options;
    this.#writes = new BatchedWrites(socket);
    this.#lines = new LineReader(options.limits.mcpMessageBytesMax);
    this.#turns = options.turns ?? new ServingTurns(options.limits, options.powers);
  }

  get congested(): boolean {
    return this.#socket.writableLength > this.#options.limits.writeBufferBytesMax;
  }

  get closed(): boolean {
    return this.#closed;
  }

  async start(): Promise<void> {
    const { limits, powers } = this.#options;
    this.#silent = powers.after(limits.mcpOpenMs, () => this.destroy());
    this.#socket
      .on('data', (bytes: Buffer) => this.#receive(bytes))
      .on('drain', () => this.#onDrained())
      .on('end', () => this.#onInputEnd())
      .on('error', () => this.#socket.destroy())
      .on('close', () => this.#onClosed());
  }

  /** Sends a message; notifications are dropped while the other side reads too slowly. An answer that is too long becomes an error. */
  async send(message: JSONRPCMessage): Promise<void> {
    if (this.#closed) return;
    const { id, method } = message as JsonObject;
    if (method === undefined) this.#requestOver(id as Id);
    else if (id === undefined && this.congested) return;
    const max = this.#options.limits.mcpMessageBytesMax;
    const line = `${JSON.stringify(message)}\n`;
    // A UTF-16 code unit takes at most three bytes, so most messages need not be measured.
    if (3 * line.length > max && Buffer.byteLength(line) > max) {
      if (id !== undefined)
        this.#refuse(id, new RpcError('INTERNAL', `the message is longer than ${max} bytes, which is the maximum`));
    } else this.#write(line);
    if (this.#hasEnded) this.#endWhenIdle();
  }

  /**
   * Runs the work of a request. The request counts until the work ends, even if it is cancelled meanwhile. Throws RpcError if it is already
   * cancelled.
   */
  async hold<T>(id: Id, work: () => Promise<T>): Promise<T> {
    const request = this.#underWay.get(id);
    if (!request) throw new RpcError('INVALID_REQUEST', 'the request was cancelled');
    request.isHeld = true;
    try {
      return await work();
    } finally {
      request.isHeld = false;
      this.#release(request);
    }
  }

  /** Closes after everything sent is written, if the other side reads it soon. */
  async close(): Promise<void> {
    const { limits, powers } = this.#options;
    this.#writes.flush();
    this.#socket.end(() => this.destroy());
    this.#unread ??= powers.after(limits.mcpEndGraceMs, () => this.destroy());
  }

  destroy(): void {
    this.#socket.destroy();
  }

  #write(line: string): void {
    this.#writes.write(line, this.#inbox.length > 0);
  }

  #receive(bytes: Buffer): void {
    const max = this.#options.limits.mcpMessageBytesMax;
    for (const line of this.#lines.read(bytes)) {
      if (line !== TOO_LONG) this.#inbox.push(line);
      else
        this.#refuse(
          null,
          new RpcError('FRAME_TOO_LARGE', `a message longer than ${max} bytes, which is the maximum, was not sent`),
        );
    }
    this.#watchHalfLine();
    this.#serveSoon();
  }

  #watchHalfLine(): void {
    const { powers, limits } = this.#options;
    if (!this.#lines.isInLine) {
      this.#halfLine?.cancel();
      this.#halfLine = undefined;
    } else this.#halfLine ??= powers.after(limits.frameIdleMs, () => this.destroy());
  }

  /** Serves received messages when it is this connection's turn; waits while the other side reads too slowly. */
  #serveSoon(): void {
    if (this.#inbox.length > 0 && !this.congested && !this.#closed) this.#turns.enter(this.#serve);
    if (this.#inbox.length > 0) this.#socket.pause();
    else this.#served();
  }

  /** Begins one request; returns whether another may begin. */
  #serveOne(): boolean {
    const line = this.#closed || this.congested ? undefined : this.#inbox.shift();
    if (line) this.#receiveLine(line);
    if (this.#inbox.length > 0) return !this.congested && !this.#closed;
    this.#served();
    return false;
  }

  #served(): void {
    if (!this.congested) this.#socket.resume();
    if (this.#hasEnded) this.#endWhenIdle();
  }

  #receiveLine(line: Buffer): void {
    let id: Id | null = null;
    try {
      const message = decodeJson(line, this.#options.limits) as JsonObject;
      id = idOf(message);
      const isFirst = this.#isFirst;
      this.#isFirst = false;
      this.#silent?.cancel();
      const isAnswer = message.method === undefined;
      // The SDK does not answer invalid requests.
      if (!isAnswer && id !== null && !isPlainRequest(message) && !isJSONRPCRequest(message))
        throw new RpcError('INVALID_REQUEST', 'not a request: its _meta is not valid, or it has unknown members');
      if (!isAnswer && id !== null) this.#assertMayBegin(id, line.length);
      if (this.#options.intercept?.(message, isFirst)) return;
      if (!isAnswer && id !== null) this.#requestBegins(id, line.length);
      else if (message.method === 'notifications/cancelled')
        // A cancelled request gets no answer.
        this.#requestOver((message.params as { requestId?: Id } | undefined)?.requestId as Id);
      this.onmessage?.(message as never);
    } catch (error) {
      if (!(error instanceof RpcError || error instanceof ProtocolError)) throw error;
      this.#refuse(id, error);
    }
  }

  #assertMayBegin(id: Id, bytes: number): void {
    const { budget, limits } = this.#options;
    const { mcpRequestsMax, peerRequestBytesMax, requestBytesMax } = limits;
    if (this.#underWay.has(id))
      throw new RpcError('INVALID_REQUEST', `a request with id ${JSON.stringify(id)} is already waiting for an answer`);
    const full =
      (this.#requests >= mcpRequestsMax && `${mcpRequestsMax} requests of this connection wait for an answer`) ||
      (this.#requestBytes + bytes > peerRequestBytesMax &&
        `unanswered requests of this connection hold more than ${peerRequestBytesMax} bytes`) ||
      (budget.bytes + bytes > requestBytesMax &&
        `requests under way of all connections hold over ${requestBytesMax} bytes`);
    if (full) throw new RpcError('OVERLOADED', `${full}; wait until some are answered`);
  }

  #requestBegins(id: Id, bytes: number): void {
    this.#underWay.set(id, { bytes, isOver: false, isHeld: false });
    this.#requests += 1;
    this.#requestBytes += bytes;
    this.#options.budget.bytes += bytes;
  }

  #requestOver(id: Id): void {
    const request = this.#underWay.get(id);
    if (!request) return;
    this.#underWay.delete(id);
    request.isOver = true;
    this.#release(request);
  }

  #release({ bytes, isOver, isHeld }: Request): void {
    if (!isOver || isHeld) return;
    this.#requests -= 1;
    this.#requestBytes -= bytes;
    this.#options.budget.bytes -= bytes;
  }

  #refuse(id: unknown, error: RpcError | ProtocolError): void {
    const { code, message, data } = error instanceof RpcError ? error.toWire() : error;
    this.#write(`${JSON.stringify({ jsonrpc: '2.0', id, error: { code, message, data } })}\n`);
  }

  #onDrained(): void {
    if (this.congested) return;
    this.#options.onDrain?.();
    this.#serveSoon();
  }

  /** Handles the end of input; pending requests may still be answered. */
  #onInputEnd(): void {
    this.#hasEnded = true;
    this.#options.powers.after(this.#options.limits.mcpEndGraceMs, () => void this.close());
    this.#serveSoon();
  }

  #endWhenIdle(): void {
    if (this.#inbox.length === 0 && this.#underWay.size === 0) void this.close();
  }

  #onClosed(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#inbox = [];
    this.#silent?.cancel();
    this.#halfLine?.cancel();
    this.#unread?.cancel();
    for (const id of [...this.#underWay.keys()]) this.#requestOver(id);
    this.onclose?.();
    this.#options.onEnd?.();
  }
}

const MEMBERS: ReadonlySet<string> = new Set(['jsonrpc', 'id', 'method', 'params']);

/** Whether the message has only members that `idOf` checks, so that the SDK need not check it again. */
function isPlainRequest(message: JsonObject): boolean {
  for (const name in message) if (!MEMBERS.has(name)) return false;
  return (message.params as JsonObject | undefined)?._meta === undefined;
}

/** The id of a request; null for a notification. Throws INVALID_REQUEST for anything but JSON-RPC 2.0. */
function idOf(message: unknown): Id | null {
  if (Array.isArray(message)) throw new RpcError('INVALID_REQUEST', 'send one message per line, not an array');
  if (typeof message !== 'object' || message === null)
    throw new RpcError('INVALID_REQUEST', 'a message must be an object');
  const { jsonrpc, id, method, params } = message as JsonObject;
  if (id !== undefined && typeof id !== 'string' && !Number.isSafeInteger(id))
    throw new RpcError('INVALID_REQUEST', 'id must be a string or an integer');
  if (jsonrpc !== '2.0') throw new RpcError('INVALID_REQUEST', 'jsonrpc must be "2.0"');
  if (method !== undefined && typeof method !== 'string')
    throw new RpcError('INVALID_REQUEST', 'method must be a string');
  if (method === undefined && !('result' in message) && !('error' in message))
    throw new RpcError('INVALID_REQUEST', 'neither a request nor an answer');
  if (params !== undefined && (typeof params !== 'object' || params === null || Array.isArray(params)))
    throw new RpcError('INVALID_REQUEST', 'params must be an object');
  return (id as Id | undefined) ?? null;
}
