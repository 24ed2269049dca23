/**
 * The bytes of one session over the bus, as a stream. Each side may send as much as the other has room for, so that a slow
 * reader holds up its own session and nobody else's connection to the bus.
 */
import { Duplex } from 'node:stream';
import { bootMs } from '../../base/powers.ts';
import type { FlowGate } from './flow-gate.ts';
import type { Sealing } from './sealing.ts';

/** Largest piece that is sent as one message. */
const PIECE_BYTES = 32 * 1024;
/** Kinds of messages, as their first byte. */
const DATA = 0;
const CREDIT = 1;
const ALIVE = 2;
const END = 3;

export interface SessionStreamOptions {
  readonly sealing: Sealing;
  /** Bytes that may be on their way. */
  readonly windowBytes: number;
  /** Lets data onto the connection, which the session shares with others. */
  readonly gate: FlowGate;
  /** Publishes a message for the other side. */
  send(sealed: Uint8Array): void;
}

export class SessionStream extends Duplex {
  readonly #options: SessionStreamOptions;
  /** Bytes that the other side has room for. */
  #credit: number;
  /** Pieces that the reader has not asked for yet; at most a window. */
  readonly #inbox: Buffer[] = [];
  #inboxBytes = 0;
  /** Bytes that were read since the last credit was given. */
  #consumed = 0;
  #isWanted = false;
  #isEnded = false;
  #hasSentEnd = false;
  #waiting: { data: Buffer; done: () => void } | undefined;
  #heardAtMs = bootMs();

  constructor(options: SessionStreamOptions) {
    super({ readableHighWaterMark: PIECE_BYTES, writableHighWaterMark: PIECE_BYTES, allowHalfOpen: false });
    this.#options = options;
    this.#credit = options.windowBytes;
  }

  /** When the last message of the other side came, by a clock that goes on while the machine sleeps. */
  get heardAtMs(): number {
    return this.#heardAtMs;
  }

  /** Takes a message of the bus. One that is not the next of the other side ends the stream. */
  receive(sealed: Uint8Array): void {
    if (this.destroyed || this.#isEnded) return;
    const plain = this.#options.sealing.open(sealed);
    if (!plain) return void this.destroy(new Error('a message of the session was lost or changed'));
    this.#heardAtMs = bootMs();
    const body = plain.subarray(1);
    switch (plain[0]) {
      case DATA:
        return this.#takeData(body);
      case CREDIT:
        if (body.length === 4) this.#credit += body.readUInt32BE();
        return this.#sendWaiting();
      case END:
        this.#isEnded = true;
        return this.#deliver();
      default: // ALIVE says nothing more.
    }
  }

  /** Tells the other side that this one is there. */
  keepAlive(): void {
    if (!this.destroyed) this.#send(ALIVE, Buffer.alloc(0));
  }

  #takeData(data: Buffer): void {
    this.#inbox.push(data);
    this.#inboxBytes += data.length;
    const { windowBytes } = this.#options;
    if (this.#inboxBytes + this.#consumed > windowBytes)
      this.destroy(new Error(`the other side sent more than the ${windowBytes} bytes that it had room for`));
    else this.#deliver();
  }

  override _read(): void {
    this.#isWanted = true;
    this.#deliver();
  }

  /** Hands pieces to the reader, and gives the other side room for them. */
  #deliver(): void {
    for (let piece = this.#isWanted && this.#inbox.shift(); piece; piece = this.#isWanted && this.#inbox.shift()) {
      this.#inboxBytes -= piece.length;
      this.#consumed += piece.length;
      this.#isWanted = this.push(piece);
    }
    if (this.#isEnded && this.#inbox.length === 0) this.push(null);
    else if (this.#consumed >= this.#options.windowBytes / 2) this.#giveCredit();
  }

  #giveCredit(): void {
    const credit = Buffer.alloc(4);
    credit.writeUInt32BE(this.#consumed);
    this.#consumed = 0;
    this.#send(CREDIT, credit);
  }

  override _write(data: Buffer, _: string, done: () => void): void {
    this.#waiting = { data, done };
    this.#sendWaiting();
  }

  override _final(done: () => void): void {
    this.#sendEnd();
    done();
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.#sendEnd();
    done(error);
  }

  #sendEnd(): void {
    if (!this.#hasSentEnd) this.#send(END, Buffer.alloc(0));
    this.#hasSentEnd = true;
  }

  /** `done` is called when all of the data has been published. */
  readonly #sendWaiting = (): void => {
    const { gate } = this.#options;
    while (this.#waiting && this.#credit > 0 && !this.destroyed) {
      if (!gate.isOpen) return gate.whenOpen(this.#sendWaiting);
      const { data, done } = this.#waiting;
      const piece = data.subarray(0, Math.min(PIECE_BYTES, this.#credit));
      this.#credit -= piece.length;
      gate.sent(piece.length);
      this.#send(DATA, piece);
      if (piece.length < data.length) this.#waiting = { data: data.subarray(piece.length), done };
      else {
        this.#waiting = undefined;
        done();
      }
    }
  };

  #send(kind: number, body: Uint8Array): void {
    this.#options.send(this.#options.sealing.seal(Buffer.of(kind), body));
  }
}
