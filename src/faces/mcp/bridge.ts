/**
 * An MCP client's connection to the daemon, which outlives the daemon: when another one takes over, the bridge opens
 * the session again there, with the client's own first messages. Requests that have not begun are made again; of a call
 * that was cut off its client is told so.
 */
import type { Socket } from 'node:net';
import type { Readable, Writable } from 'node:stream';
import { jsonOr } from '../../base/text/json.ts';
import { isRecord } from '../../base/text/values.ts';
import { CLOSING_METHOD, UPGRADE } from './bridge-messages.ts';
import { cutOff } from './cut-off.ts';
import { LineReader, TOO_LONG } from './line-reader.ts';

export interface BridgeParts {
  readonly input: Readable;
  readonly output: Writable;
  /** The first line to each daemon. */
  readonly opening: string;
  /** Connects to the daemon that took over; `isUpgrade` if that one is known to come. Resolves to undefined if there is none. */
  reconnect(isUpgrade: boolean): Promise<Socket | undefined>;
  /** Ends this process; `problem` is why, if not because the client has ended. */
  end(problem?: string): void;
  wait(ms: number): Promise<void>;
}

type Id = string | number;

interface Message {
  readonly id?: Id | null;
  readonly method?: string;
  readonly params?: Record<string, unknown>;
  readonly result?: { readonly _meta?: Record<string, unknown> };
  readonly error?: { readonly message: string; readonly data?: Record<string, unknown> };
}

interface Request {
  readonly method: string;
  readonly line: Buffer;
}

/** Longest message, as the daemon has it: mcpMessageBytesMax. */
const MESSAGE_BYTES_MAX = 10 * 1024 * 1024;
/** Bytes of requests that wait for the next daemon, beyond which the client's further messages wait unread. */
const HELD_BYTES_MAX = 16 * 1024 * 1024;
/** A connection that ends sooner, unanswered, was refused: the next one would be, too. */
const REFUSED_MS = 1_000;
const LISTEN = 'subscriptions/listen';
const NEWLINE = Buffer.from('\n');

export class Bridge {
  readonly #parts: BridgeParts;
  #socket: Socket;
  /** Number of the connection, from 0. Ids of a later daemon's requests begin with it, since each daemon counts from 0. */
  #generation = 0;
  /** Whether the connection is so new that its end would be a refusal. */
  #isFresh = false;
  /** Whether the daemon has sent anything but a refusal over this connection. */
  #isServed = false;
  #refusal: string | undefined;
  /** Whether the daemon hands over: requests wait for the next one. */
  #isLeaving = false;
  #hasEnded = false;
  /** The client's `initialize` and `notifications/initialized`, for each daemon. */
  #initialize: (Request & { readonly id: Id; isAnswered: boolean }) | undefined;
  #initialized: Buffer | undefined;
  /** Called with the answer to `initialize` of a further daemon. */
  #onOpened: ((answer: Message) => void) | undefined;
  /** The client's requests that the daemon has not answered, and those that wait for the next daemon. */
  readonly #underWay = new Map<Id, Request>();
  readonly #held = new Map<Id, Request>();
  #heldBytes = 0;
  /** Subscriptions that were opened again, whose second acknowledgement the client does not expect. */
  readonly #reopened = new Set<Id>();
  /** Unanswered requests of the daemon, by the id that the client knows. */
  readonly #asked = new Map<Id, Id>();

  constructor(socket: Socket, parts: BridgeParts) {
    this.#parts = parts;
    this.#socket = socket;
    const lines = new LineReader(MESSAGE_BYTES_MAX);
    const { input, output } = parts;
    input.on('data', (chunk: Buffer) => {
      for (const line of lines.read(chunk)) this.#fromClient(line);
    });
    input.on('end', () => {
      this.#hasEnded = true;
      this.#socket.end();
    });
    output.on('drain', () => this.#socket.resume());
    this.#attach(socket);
  }

  #attach(socket: Socket): void {
    const lines = new LineReader(Number.MAX_SAFE_INTEGER);
    socket.on('data', (chunk: Buffer) => {
      for (const line of lines.read(chunk)) this.#fromDaemon(line as Buffer);
    });
    socket.on('drain', () => this.#letClientGoOn());
    socket.on('error', ({ message }) => {
      this.#refusal ??= `the connection to the daemon broke: ${message}`;
    });
    socket.on('close', () => void this.#onClosed());
    socket.write(this.#parts.opening);
  }

  #fromClient(line: Buffer | typeof TOO_LONG): void {
    if (line === TOO_LONG) return this.#refuseLong();
    const message = parse(line);
    const { id, method, params } = message ?? {};
    if (method === undefined && message) return this.#answerFromClient(message);
    if (method === 'notifications/initialized') this.#initialized = line;
    if (method === 'notifications/cancelled') {
      const requestId = params?.requestId as Id;
      this.#underWay.delete(requestId);
      if (this.#release(requestId)) return;
    }
    if (method === undefined || id === undefined || id === null) return this.#toDaemon(line);
    const request = { method, line };
    if (method === 'initialize') this.#initialize ??= { ...request, id, isAnswered: false };
    if (this.#isLeaving) return this.#hold(id, request);
    this.#underWay.set(id, request);
    this.#toDaemon(line);
  }

  /** Passes on an answer, unless its question was that of a daemon that is gone. */
  #answerFromClient(message: Message): void {
    const { id = null } = message;
    const asked = id === null ? undefined : this.#asked.get(id);
    if (id === null || asked === undefined) return;
    this.#asked.delete(id);
    this.#toDaemon(Buffer.from(JSON.stringify({ ...message, id: asked })));
  }

  #fromDaemon(line: Buffer): void {
    const message = parse(line);
    const { id, method, params } = message ?? {};
    if (id !== null) this.#isServed = true;
    else this.#refusal ??= message?.error?.message;
    if (!message || id === null) return this.#toClient(line);
    if (method !== undefined && id !== undefined) return this.#askClient(message, id);
    if (method === CLOSING_METHOD) return this.#leave();
    if (method === 'notifications/cancelled') return this.#takeBack(message, params);
    if (method === 'notifications/subscriptions/acknowledged' && this.#reopened.delete(subscriptionOf(params))) return;
    if (method === undefined && id !== undefined) return this.#answer(message, id, line);
    this.#toClient(line);
  }

  #askClient(message: Message, id: Id): void {
    const known = this.#known(id);
    this.#asked.set(known, id);
    this.#toClient(Buffer.from(JSON.stringify({ ...message, id: known })));
  }

  #takeBack(message: Message, params: Message['params']): void {
    const requestId = this.#known(params?.requestId as Id);
    this.#asked.delete(requestId);
    this.#toClient(Buffer.from(JSON.stringify({ ...message, params: { ...params, requestId } })));
  }

  /** The id by which the client knows a request of the daemon. */
  #known(id: Id): Id {
    return this.#generation === 0 ? id : `${this.#generation}:${id}`;
  }

  #answer(message: Message, id: Id, line: Buffer): void {
    const request = this.#underWay.get(id);
    this.#underWay.delete(id);
    if (this.#onOpened && id === this.#initialize?.id) return this.#onOpened(message);
    if (this.#initialize?.id === id) this.#initialize.isAnswered = true;
    // A daemon that hands over also ends the subscriptions.
    const isUnserved = isNotBegun(message) || (this.#isLeaving && request?.method === LISTEN);
    if (request && isUnserved) this.#hold(id, request);
    else this.#toClient(line);
    if (this.#isLeaving) this.#leave();
  }

  /** Leaves a daemon that hands over, once it has answered. */
  #leave(): void {
    this.#isLeaving = true;
    const isOpen = [...this.#underWay.values()].some(({ method }) => method !== LISTEN);
    if (isOpen || this.#socket.writableEnded) return;
    for (const [requestId, request] of this.#underWay) {
      this.#send({ method: 'notifications/cancelled', params: { requestId } });
      this.#hold(requestId, request);
    }
    this.#underWay.clear();
    this.#socket.end();
  }

  #hold(id: Id, request: Request): void {
    this.#held.set(id, request);
    this.#heldBytes += request.line.length;
    if (this.#heldBytes > HELD_BYTES_MAX) this.#parts.input.pause();
  }

  /** Forgets a request that waits; false if there is none. */
  #release(id: Id): boolean {
    const request = this.#held.get(id);
    this.#heldBytes -= request?.line.length ?? 0;
    return this.#held.delete(id);
  }

  async #onClosed(): Promise<void> {
    const parts = this.#parts;
    if (this.#hasEnded) return parts.end();
    if (this.#isFresh && !this.#isServed) return parts.end(this.#refusal ?? 'the daemon ends the connection at once');
    parts.input.pause();
    for (const requestId of this.#asked.keys())
      this.#tell({ method: 'notifications/cancelled', params: { requestId } });
    this.#asked.clear();
    this.#onOpened = undefined;
    const next = await parts.reconnect(this.#isLeaving);
    if (!next) return parts.end('the daemon has ended; start the MCP server again to start it anew');
    this.#settleCutOff();
    this.#socket = next;
    this.#generation += 1;
    this.#isFresh = true;
    void parts.wait(REFUSED_MS).then(() => {
      if (this.#socket === next) this.#isFresh = false;
    });
    this.#isServed = false;
    this.#refusal = undefined;
    this.#attach(next);
    this.#openAgain();
  }

  /** Answers the calls that were under way, of which nobody knows what they did; the rest only reads and is asked again. */
  #settleCutOff(): void {
    for (const [id, request] of this.#underWay) {
      if (request.method === 'tools/call') this.#tell({ id, result: lostResult(this.#initialize !== undefined) });
      else if (request.method !== 'initialize') this.#hold(id, request);
    }
    this.#underWay.clear();
  }

  #openAgain(): void {
    const initialize = this.#initialize;
    if (!initialize) return this.#goOn();
    if (initialize.isAnswered)
      this.#onOpened = ({ error }) => {
        this.#onOpened = undefined;
        if (error) return this.#parts.end(`the new daemon refuses this client: ${error.message}`);
        if (this.#initialized) this.#toDaemon(this.#initialized);
        // A new version may have other tools.
        this.#tell({ method: 'notifications/tools/list_changed' });
        this.#goOn();
      };
    this.#toDaemon(initialize.line);
    if (!initialize.isAnswered) this.#goOn();
  }

  /** Makes the requests that waited, and goes on as before. */
  #goOn(): void {
    this.#isLeaving = false;
    for (const [id, request] of this.#held) {
      this.#underWay.set(id, request);
      if (request.method === LISTEN) this.#reopened.add(id);
      this.#toDaemon(request.line);
    }
    this.#held.clear();
    this.#heldBytes = 0;
    this.#letClientGoOn();
  }

  #letClientGoOn(): void {
    const isWaiting = this.#onOpened !== undefined || this.#heldBytes > HELD_BYTES_MAX;
    if (!isWaiting && !this.#socket.closed) this.#parts.input.resume();
  }

  #refuseLong(): void {
    const message = `a message longer than ${MESSAGE_BYTES_MAX} bytes, which is the maximum, was not sent`;
    this.#tell({ id: null, error: { code: -32001, message, data: { code: 'FRAME_TOO_LARGE' } } });
  }

  #send(message: object): void {
    this.#toDaemon(Buffer.from(JSON.stringify({ jsonrpc: '2.0', ...message })));
  }

  #tell(message: object): void {
    this.#toClient(Buffer.from(JSON.stringify({ jsonrpc: '2.0', ...message })));
  }

  #toDaemon(line: Buffer): void {
    if (this.#socket.writable && !this.#socket.write(Buffer.concat([line, NEWLINE]))) this.#parts.input.pause();
  }

  #toClient(line: Buffer): void {
    if (!this.#parts.output.write(Buffer.concat([line, NEWLINE]))) this.#socket.pause();
  }
}

/** The message of a line; undefined for anything but an object, which the other side refuses. */
function parse(line: Buffer): Message | undefined {
  const message = jsonOr(line.toString(), undefined);
  return isRecord(message) ? message : undefined;
}

/** Whether the daemon refused a request before anything was done, since it hands over. */
function isNotBegun({ result, error }: Message): boolean {
  const call = result?._meta?.['ringfence/call'] as { error?: { details?: Record<string, unknown> } } | undefined;
  const { reason, begun } = (error ? error.data : call?.error?.details) ?? {};
  return reason === UPGRADE && begun === false;
}

const subscriptionOf = (params: Message['params']): Id =>
  (params?._meta as Record<string, Id> | undefined)?.['io.modelcontextprotocol/subscriptionId'] as Id;

/** The result of a call that was under way when its daemon ended. */
const lostResult = (isLegacy: boolean): object =>
  cutOff({
    message: 'the daemon ended while this call was under way: what the call has done is unknown',
    advice: 'Check what it was meant to change, then make the call again.',
    outcome: 'unknown',
    isLegacy,
  });
