/**
 * One client of MCP at a gateway: its lines go to the node of its session and back, where the daemon serves them. The
 * gateway looks at them for two reasons: the first one may say what the client wants, and when the node is lost, each
 * request must get an answer that says what became of it.
 */
import type { Socket } from 'node:net';
import { RpcError } from '../../base/errors.ts';
import { outcomeOnLoss } from '../../base/fencing.ts';
import type { Limits } from '../../base/limits.ts';
import type { Powers, Timer } from '../../base/powers.ts';
import { jsonOr } from '../../base/text/json.ts';
import { isRecord } from '../../base/text/values.ts';
import { OPEN_METHOD } from '../../faces/mcp/bridge-messages.ts';
import { cutOff } from '../../faces/mcp/cut-off.ts';
import { LineReader, TOO_LONG } from '../../faces/mcp/line-reader.ts';
import { type OpeningOptions, parseOpening } from '../../faces/mcp/opening-options.ts';
import type { SessionStream } from './stream.ts';

export interface McpRelayOptions {
  readonly limits: Limits;
  readonly powers: Powers;
  /** Opens a session. Throws RpcError with the reason why there is none. */
  open(wanted: OpeningOptions): Promise<SessionStream>;
}

type Id = string | number;

interface PendingRequest {
  readonly method: string;
  /** Whether all of it has been sent to the node. */
  reachedNode: boolean;
}

export class McpRelay {
  readonly #socket: Socket;
  readonly #options: McpRelayOptions;
  readonly #fromClient: LineReader;
  readonly #fromNode: LineReader;
  /** Lines of the client that wait for its session. */
  readonly #waiting: Buffer[] = [];
  /** Requests without an answer, by their ids. */
  readonly #pending = new Map<Id, PendingRequest>();
  readonly #silent: Timer;
  #stream: SessionStream | undefined;
  /** Why there is no session; the client's requests are answered with it. */
  #refusal: RpcError | undefined;
  #isOpening = false;
  #isLegacy = false;
  #hasEnded = false;

  constructor(socket: Socket, options: McpRelayOptions) {
    const { limits, powers } = options;
    this.#socket = socket;
    this.#options = options;
    this.#fromClient = new LineReader(limits.mcpMessageBytesMax);
    this.#fromNode = new LineReader(limits.mcpMessageBytesMax);
    this.#silent = powers.after(limits.mcpOpenMs, () => socket.destroy());
    socket.on('data', (bytes: Buffer) => {
      for (const line of this.#fromClient.read(bytes)) this.#takeFromClient(line);
    });
    socket.on('error', () => socket.destroy());
    socket.once('end', () => this.#end());
    socket.once('close', () => {
      this.#silent.cancel();
      this.#stream?.destroy();
    });
  }

  /** Answers the requests that wait, since their node is lost, and ends the connection. */
  lose(why: string): void {
    for (const [id, request] of this.#pending) this.#send({ id, ...this.#lost(request, why) });
    this.#pending.clear();
    this.#stream?.destroy();
    this.#socket.end();
  }

  #takeFromClient(line: Buffer | typeof TOO_LONG): void {
    this.#silent.cancel();
    if (line === TOO_LONG) {
      const { mcpMessageBytesMax } = this.#options.limits;
      const refusal = new RpcError('FRAME_TOO_LARGE', `a message may have ${mcpMessageBytesMax} bytes`);
      return this.#send({ id: null, error: errorOf(refusal) });
    }
    if (this.#stream) return this.#forward(line);
    if (this.#isOpening) return void this.#waiting.push(line);
    if (this.#refusal) return this.#refuse(line, this.#refusal);
    this.#isOpening = true;
    this.#socket.pause();
    const { method, params } = messageOf(line);
    if (method !== OPEN_METHOD) this.#waiting.push(line);
    void this.#open(method === OPEN_METHOD ? params : {});
  }

  async #open(params: unknown): Promise<void> {
    try {
      const stream = await this.#options.open(parseOpening(params));
      this.#stream = stream;
      stream.on('data', (bytes: Buffer) => this.#takeFromNode(bytes));
      stream.once('close', () => this.lose('its session ended'));
      if (this.#socket.destroyed) stream.destroy();
      for (const line of this.#waiting.splice(0)) this.#forward(line);
    } catch (error) {
      if (!(error instanceof RpcError)) throw error;
      this.#refusal = error;
      for (const line of this.#waiting.splice(0)) this.#refuse(line, error);
    } finally {
      this.#isOpening = false;
      this.#socket.resume();
    }
  }

  /** Answers a request with the reason why there is no session, which clients show to their person; the connection ends. */
  #refuse(line: Buffer, refusal: RpcError): void {
    const { id, method } = messageOf(line);
    if (method === undefined || !isId(id)) return;
    this.#send({ id, error: errorOf(refusal) });
    this.#socket.end();
  }

  #forward(line: Buffer): void {
    const { id, method } = messageOf(line);
    const request = typeof method === 'string' && isId(id) ? { method, reachedNode: false } : undefined;
    if (request && isId(id)) this.#pending.set(id, request);
    if (method === 'initialize') this.#isLegacy = true;
    const sent = () => {
      if (request) request.reachedNode = true;
    };
    if (this.#stream?.write(Buffer.concat([line, NEWLINE]), sent)) return;
    this.#socket.pause();
    this.#stream?.once('drain', () => this.#socket.resume());
  }

  #takeFromNode(bytes: Buffer): void {
    for (const line of this.#fromNode.read(bytes)) {
      if (line === TOO_LONG) return this.lose('it sent a message that is too long');
      const { id, method } = messageOf(line);
      if (method === undefined && isId(id)) this.#pending.delete(id);
      if (this.#socket.destroyed || this.#socket.write(Buffer.concat([line, NEWLINE]))) continue;
      // A client that reads slowly holds up its own session only.
      this.#stream?.pause();
      this.#socket.once('drain', () => this.#stream?.resume());
    }
    if (this.#hasEnded && this.#pending.size === 0) this.#stream?.destroy();
  }

  /** Ends the session of a client that sends no more, when its requests are answered or after a while. */
  #end(): void {
    this.#hasEnded = true;
    const { powers, limits } = this.#options;
    if (this.#pending.size === 0 && !this.#isOpening) this.#socket.destroy();
    else powers.after(limits.mcpEndGraceMs, () => this.#socket.destroy());
  }

  #lost({ method, reachedNode }: PendingRequest, why: string): object {
    const outcome = outcomeOnLoss(reachedNode);
    const told = outcome === 'none' ? 'it was not sent to it' : 'what it has done is unknown';
    const message = `the node of this session is lost (${why}) while this call was under way: ${told}`;
    const advice =
      outcome === 'none' ? 'Make the call again.' : 'Check what it was meant to change, then make the call again.';
    if (method === 'tools/call') return { result: cutOff({ message, advice, outcome, isLegacy: this.#isLegacy }) };
    return { error: errorOf(new RpcError('OVERLOADED', `the node of this session is lost: ${why}`)) };
  }

  #send(message: object): void {
    if (!this.#socket.destroyed) this.#socket.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
  }
}

const NEWLINE = Buffer.from('\n');

interface Message {
  readonly id?: unknown;
  readonly method?: unknown;
  readonly params?: unknown;
}

/** What a line says; nothing for anything but an object, which the node refuses. */
function messageOf(line: Buffer): Message {
  const message = jsonOr(line.toString(), undefined);
  return isRecord(message) ? message : {};
}

const isId = (id: unknown): id is Id => typeof id === 'string' || typeof id === 'number';

function errorOf(refusal: RpcError): object {
  const { code, message, data } = refusal.toWire();
  return { code, message, data };
}
