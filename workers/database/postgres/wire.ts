/** Exchanges of messages with a PostgreSQL server. It may send anything: bytes are counted before they are read. */
import type { Duplex } from 'node:stream';
import { MessageReader, type ServerMessage, type Told } from './messages.ts';

/** The connection ended, or had to be ended. */
export class ConnectionLost extends Error {}
/** The server sent more bytes than an exchange may have. */
export class TooManyBytes extends ConnectionLost {}

interface Exchange {
  readonly take: (message: ServerMessage) => void;
  readonly done: PromiseWithResolvers<Told | undefined>;
  /** How often the server has yet to say that it is ready. */
  readiesLeft: number;
  error?: Told;
}

export interface ExchangeOptions {
  /** Most bytes of the answers. */
  readonly bytesMax: number;
  readonly take: (message: ServerMessage) => void;
  /** How often the server says that it is ready: once for each message that ends with that. Default: 1. */
  readonly readies?: number;
}

export class PostgresWire {
  readonly #stream: Duplex;
  readonly #reader = new MessageReader();
  #exchange: Exchange | undefined;
  #bytesLeft = 0;
  #failure: Error | undefined;

  constructor(stream: Duplex) {
    this.#stream = stream;
    stream.on('data', (chunk: Buffer) => this.#receive(chunk));
    stream.on('error', (error: NodeJS.ErrnoException) => this.fail(new ConnectionLost(error.code ?? 'it broke')));
    // The other side may end alone: then nothing more comes.
    for (const it of ['end', 'close']) stream.on(it, () => this.fail(new ConnectionLost('the server closed it')));
  }

  get isOpen(): boolean {
    return this.#failure === undefined;
  }

  /**
   * Sends messages, gives the answers to `take` until the server is ready for more, and gives the first error that it
   * told. Throws ConnectionLost.
   */
  exchange(messages: readonly Buffer[], { bytesMax, take, readies = 1 }: ExchangeOptions): Promise<Told | undefined> {
    const done = Promise.withResolvers<Told | undefined>();
    if (this.#failure) return Promise.reject(this.#failure);
    if (this.#exchange) return Promise.reject(new Error('an exchange is going on'));
    this.#exchange = { take, done, readiesLeft: readies };
    this.#bytesLeft = bytesMax;
    this.send(messages);
    return done.promise;
  }

  send(messages: readonly Buffer[]): void {
    this.#stream.write(Buffer.concat(messages));
  }

  /** Ends the connection, and the exchange with an error. */
  fail(failure: ConnectionLost): void {
    if (this.#failure) return;
    this.#failure = failure;
    this.#stream.destroy();
    const exchange = this.#exchange;
    this.#exchange = undefined;
    // What the server said before it closed the connection tells more.
    if (exchange?.error && !(failure instanceof TooManyBytes)) exchange.done.resolve(exchange.error);
    else exchange?.done.reject(failure);
  }

  #receive(chunk: Buffer): void {
    if (this.#failure) return;
    this.#bytesLeft -= chunk.length;
    if (this.#bytesLeft < 0) return this.fail(new TooManyBytes('the server sent too much'));
    try {
      this.#reader.push(chunk, (message) => this.#take(message));
    } catch (error) {
      this.fail(new ConnectionLost(`the server sent ${(error as Error).message}`));
    }
  }

  #take(message: ServerMessage): void {
    const exchange = this.#exchange;
    if (!exchange) return; // A notice, or the end of a server that shuts down.
    if (message.kind === 'ready') {
      exchange.readiesLeft -= 1;
      if (exchange.readiesLeft > 0) return;
      this.#exchange = undefined;
      exchange.done.resolve(exchange.error);
    } else if (message.kind === 'error') exchange.error ??= message.told;
    else exchange.take(message);
  }
}
