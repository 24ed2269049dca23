/** A server that plays one side of the protocol as a case of the conformance kit wants, down to single bytes. */
import { once } from 'node:events';
import { createServer, type Server, type Socket } from 'node:net';
import { defaultLimits } from '../src/base/limits.ts';
import { pause, systemPowers, type Timer } from '../src/base/powers.ts';
import { decode } from '../src/wire/protocol/codec.ts';
import { FrameReader, toFrame } from '../src/wire/protocol/frame.ts';

/** Requests of a connection that no case has looked at yet; a client that sends more is cut off. */
const UNREAD_REQUESTS_MAX = 1000;

/** What a client did instead of what the case expects. */
export class Departure extends Error {}

export interface Request {
  readonly id: string | number;
  readonly method: string;
  readonly params: Record<string, unknown>;
  /** The size of the frame's payload. */
  readonly bytes: number;
}

/** Fails the case unless `holds`. */
export function expectThat(holds: boolean, otherwise: string): asserts holds {
  if (!holds) throw new Departure(otherwise);
}

/** Waits for a step of the client. Throws Departure with `otherwise` if it takes longer than `ms`. */
export async function within<T>(step: Promise<T>, ms: number, otherwise: string): Promise<T> {
  let timer: Timer | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = systemPowers().after(ms, () => reject(new Departure(`${otherwise} within ${ms / 1000} s`)));
  });
  try {
    return await Promise.race([step, late]);
  } finally {
    timer?.cancel();
  }
}

/** Listens on a Unix socket and hands over its connections one by one. */
export class PlayedServer implements AsyncDisposable {
  readonly #server: Server;
  readonly #waiting: PlayedConnection[] = [];
  readonly #all: PlayedConnection[] = [];
  readonly #stepMs: number;
  #wake: (() => void) | undefined;

  private constructor(server: Server, stepMs: number) {
    this.#server = server;
    this.#stepMs = stepMs;
    server.on('connection', (socket) => {
      const connection = new PlayedConnection(socket, stepMs);
      this.#all.push(connection);
      this.#waiting.push(connection);
      this.#wake?.();
    });
  }

  /** Listens at `path`. A client may take `stepMs` for each step that is waited for. */
  static async listen(path: string, stepMs: number): Promise<PlayedServer> {
    const server = createServer();
    const played = new PlayedServer(server, stepMs);
    server.listen(path);
    await once(server, 'listening');
    return played;
  }

  /** The next connection of the client. */
  async connection(): Promise<PlayedConnection> {
    await within(this.#some(), this.#stepMs, 'the client did not connect');
    return this.#waiting.shift() as PlayedConnection;
  }

  /** The next connection, or nothing if the client makes none for `ms`. */
  async connectionIfAny(ms: number): Promise<PlayedConnection | undefined> {
    await Promise.race([this.#some(), pause(ms, systemPowers())]);
    return this.#waiting.shift();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const it of this.#all) it.cut();
    this.#server.close();
    await once(this.#server, 'close');
  }

  async #some(): Promise<void> {
    while (this.#waiting.length === 0)
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
  }
}

/** One connection of the client under test. */
export class PlayedConnection {
  readonly #socket: Socket;
  readonly #stepMs: number;
  readonly #reader = new FrameReader(defaultLimits.frameBytesMax);
  readonly #requests: Request[] = [];
  #problem: Error | undefined;
  #over = false;
  #wake: (() => void) | undefined;

  constructor(socket: Socket, stepMs: number) {
    this.#socket = socket;
    this.#stepMs = stepMs;
    socket.on('data', (bytes: Buffer) => this.#take(bytes));
    socket.on('error', () => {}); // A cut connection is seen by its end.
    socket.on('close', () => {
      this.#over = true;
      this.#wake?.();
    });
  }

  /** The next request. Throws Departure if it is another one than `method`, or does not come. */
  async request(method: string): Promise<Request> {
    const request = await this.requestIfAny(this.#stepMs);
    expectThat(request !== undefined, `the client did not send ${method} within ${this.#stepMs / 1000} s`);
    expectThat(request.method === method, `the client sent ${request.method} where ${method} was expected`);
    return request;
  }

  /** The next request, or nothing if none comes for `ms` or the connection ends before. */
  async requestIfAny(ms: number): Promise<Request | undefined> {
    let isLate = false;
    const timer = systemPowers().after(ms, () => {
      isLate = true;
      this.#wake?.();
    });
    try {
      for (;;) {
        if (this.#problem) throw this.#problem;
        const request = this.#requests.shift();
        if (request || isLate || this.#over) return request;
        await this.#change();
      }
    } finally {
      timer.cancel();
    }
  }

  answer({ id }: Request, result: unknown): void {
    this.send({ id, result });
  }

  refuse({ id }: Request, error: { code: number; message: string; data: Record<string, unknown> }): void {
    this.send({ id, error });
  }

  send(message: unknown): void {
    this.write(frameOf(message));
  }

  /** Sends bytes as they are. */
  write(bytes: Uint8Array): void {
    this.#socket.write(bytes);
  }

  /** Sends bytes one by one, each in a segment of its own. */
  async writeByteByByte(bytes: Uint8Array): Promise<void> {
    this.#socket.setNoDelay(true);
    for (const byte of bytes) {
      this.#socket.write(Uint8Array.of(byte));
      await new Promise((resolve) => setImmediate(resolve));
    }
  }

  /** Stops or resumes reading what the client sends. */
  pause(): void {
    this.#socket.pause();
  }

  resume(): void {
    this.#socket.resume();
  }

  /** Ends the connection at once, as a broken line does. */
  cut(): void {
    this.#socket.destroy();
  }

  /** Ends the connection after what was sent. */
  end(): void {
    this.#socket.end();
  }

  /** Waits until the client has ended the connection. */
  async ended(): Promise<void> {
    const isOver = async () => {
      while (!this.#over) await this.#change();
    };
    await within(isOver(), this.#stepMs, 'the client did not close the connection');
  }

  #change(): Promise<void> {
    return new Promise((resolve) => {
      this.#wake = resolve;
    });
  }

  #take(bytes: Buffer): void {
    try {
      for (const payload of this.#reader.push(bytes)) this.#requests.push(requestOf(payload));
      if (this.#requests.length > UNREAD_REQUESTS_MAX)
        throw new Departure(`the client sent over ${UNREAD_REQUESTS_MAX} requests that nothing asked for`);
    } catch (error) {
      this.#problem ??= new Departure(`the client sent what no server takes: ${(error as Error).message}`);
      this.cut();
    }
    this.#wake?.();
  }
}

/** A message with its length before it. */
export const frameOf = (message: unknown): Buffer => toFrame(message, defaultLimits.frameBytesMax);

function requestOf(payload: Buffer): Request {
  const message = decode(Buffer.from(payload), defaultLimits) as Partial<Request> | null;
  const { id, method, params = {} } = message ?? {};
  const isId = typeof id === 'string' || Number.isSafeInteger(id);
  expectThat(isId && typeof method === 'string', 'a request needs an id, a string or an integer, and a method');
  expectThat(
    typeof params === 'object' && params !== null && !Array.isArray(params),
    `params of ${method} must be a map`,
  );
  return { id: id as string | number, method, params, bytes: payload.length };
}
