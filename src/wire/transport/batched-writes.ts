import type { Socket } from 'node:net';

/** Writes what is sent in one turn of the event loop in one call: a call of the system for each message costs more than most messages. */
export class BatchedWrites {
  readonly #socket: Socket;
  #planned: 'this turn' | 'this round' | undefined;

  constructor(socket: Socket) {
    this.#socket = socket;
  }

  /** Sends data; with `more`, other data is expected within this round of the event loop, and is waited for. */
  send(data: Buffer | string, more: boolean): void {
    if (!this.#planned) this.#socket.cork();
    if (!more && this.#planned !== 'this turn') process.nextTick(() => this.flush());
    else if (!this.#planned) setImmediate(() => this.flush());
    this.#planned = more ? (this.#planned ?? 'this round') : 'this turn';
    this.#socket.write(data);
  }

  flush(): void {
    this.#planned = undefined;
    this.#socket.uncork();
  }
}
