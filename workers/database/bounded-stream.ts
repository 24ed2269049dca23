/** The connection of a driver, which ends when the server has sent more bytes than it may. */
import type { Socket } from 'node:net';
import { Duplex } from 'node:stream';

export class BoundedStream extends Duplex {
  readonly #socket: Socket;
  #bytesLeft: number;
  #isOver = false;

  constructor(socket: Socket, bytesMax: number) {
    super({ allowHalfOpen: false });
    this.#socket = socket;
    this.#bytesLeft = bytesMax;
    socket.on('data', (chunk: Buffer) => this.#receive(chunk));
    socket.on('end', () => this.push(null));
    socket.on('error', (error) => this.destroy(error));
    socket.on('close', () => this.destroy());
  }

  /** Whether the server sent too much. */
  get isOver(): boolean {
    return this.#isOver;
  }

  /** Lets the server send so many bytes from now on. */
  allow(bytesMax: number): void {
    this.#bytesLeft = bytesMax;
  }

  override _read(): void {
    this.#socket.resume();
  }

  override _write(chunk: Buffer, _encoding: string, done: (error?: Error | null) => void): void {
    this.#socket.write(chunk, done);
  }

  override _final(done: () => void): void {
    this.#socket.end(done);
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.#socket.destroy();
    done(error);
  }

  #receive(chunk: Buffer): void {
    this.#bytesLeft -= chunk.length;
    if (this.#bytesLeft < 0) {
      this.#isOver = true;
      this.destroy();
    } else if (!this.push(chunk)) this.#socket.pause();
  }
}
