/**
 * Joins what a command writes in one turn of the event loop: programs write a few KiB at a time, and each piece
 * costs a message, a frame and a log entry. All pieces but the first wait a moment for more.
 */

import type { Powers, Timer } from '../../base/powers.ts';

const PIECE_BYTES_MAX = 128 * 1024;
const MOMENT_MS = 2;

export type StreamName = 'stdout' | 'stderr';

/** Takes a piece and owns its memory; returns a promise to have the caller wait. */
export type OnPiece = (stream: StreamName, data: Uint8Array) => Promise<void> | undefined;

export class OutputPieces {
  readonly #onPiece: OnPiece;
  readonly #onFull: (room: Promise<void>) => void;
  readonly #powers: Powers;
  #stream: StreamName = 'stdout';
  /** Buffer of one piece, filled up to `#bytes`. */
  #room = Buffer.alloc(0);
  #bytes = 0;
  #turn: NodeJS.Immediate | undefined;
  #moment: Timer | undefined;
  #isFirst = true;

  /** `onFull` gets each promise that `onPiece` returns. */
  constructor({ onPiece, onFull }: { onPiece: OnPiece; onFull(room: Promise<void>): void }, powers: Powers) {
    this.#onPiece = onPiece;
    this.#onFull = onFull;
    this.#powers = powers;
  }

  /** Copies the chunk: its memory may be reused. */
  push(stream: StreamName, chunk: Buffer): void {
    if (stream !== this.#stream) this.flush();
    this.#stream = stream;
    for (let at = 0; at < chunk.length; ) {
      if (this.#room.length === 0) this.#room = Buffer.allocUnsafeSlow(PIECE_BYTES_MAX);
      const copied = chunk.copy(this.#room, this.#bytes, at);
      at += copied;
      this.#bytes += copied;
      if (this.#bytes === PIECE_BYTES_MAX) this.flush();
    }
    if (this.#bytes === 0 || this.#moment) return;
    if (this.#isFirst) this.#turn ??= setImmediate(() => this.flush());
    else this.#moment = this.#powers.after(MOMENT_MS, () => this.flush());
  }

  /** Passes on what is buffered. */
  flush(): void {
    clearImmediate(this.#turn);
    this.#moment?.cancel();
    this.#turn = this.#moment = undefined;
    if (this.#bytes === 0) return;
    this.#isFirst = false;
    const room = this.#onPiece(this.#stream, this.#take());
    if (room) this.#onFull(room);
  }

  /** Gives a full buffer away, or a copy of one that is not full. */
  #take(): Buffer {
    const room = this.#room;
    const isFull = this.#bytes === room.length;
    const piece = isFull ? room : Buffer.allocUnsafeSlow(this.#bytes);
    if (isFull) this.#room = Buffer.alloc(0);
    else room.copy(piece, 0, 0, this.#bytes);
    this.#bytes = 0;
    return piece;
  }
}
