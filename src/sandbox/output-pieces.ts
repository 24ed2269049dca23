/**
 * What a command writes in one turn of the loop, put together: programs write a few KiB at a time, and each piece on its way
 * costs a message, a frame and an entry. All but the first wait a moment for more.
 */

import type { Powers, Timer } from '../powers.ts';

const PIECE_BYTES_MAX = 128 * 1024;
const MOMENT_MS = 2;

export type StreamName = 'stdout' | 'stderr';

/** Takes a piece whose memory is its own; gives a promise where more had better wait. */
export type OnPiece = (stream: StreamName, data: Uint8Array) => Promise<void> | undefined;

export class OutputPieces {
  readonly #onPiece: OnPiece;
  readonly #onFull: (room: Promise<void>) => void;
  readonly #powers: Powers;
  #stream: StreamName = 'stdout';
  #chunks: Buffer[] = [];
  #bytes = 0;
  #turn: NodeJS.Immediate | undefined;
  #moment: Timer | undefined;
  #isFirst = true;

  /** `onFull` is told of each promise that `onPiece` gives. */
  constructor({ onPiece, onFull }: { onPiece: OnPiece; onFull(room: Promise<void>): void }, powers: Powers) {
    this.#onPiece = onPiece;
    this.#onFull = onFull;
    this.#powers = powers;
  }

  push(stream: StreamName, chunk: Buffer): void {
    if (stream !== this.#stream || this.#bytes + chunk.length > PIECE_BYTES_MAX) this.flush();
    this.#stream = stream;
    this.#chunks.push(chunk);
    this.#bytes += chunk.length;
    if (this.#moment) return;
    if (this.#isFirst) this.#turn ??= setImmediate(() => this.flush());
    else this.#moment = this.#powers.after(MOMENT_MS, () => this.flush());
  }

  /** Gives what is there. */
  flush(): void {
    clearImmediate(this.#turn);
    this.#moment?.cancel();
    this.#turn = this.#moment = undefined;
    if (this.#bytes === 0) return;
    this.#isFirst = false;
    const piece = Buffer.allocUnsafeSlow(this.#bytes);
    let at = 0;
    for (const chunk of this.#chunks) at += chunk.copy(piece, at);
    this.#chunks = [];
    this.#bytes = 0;
    const room = this.#onPiece(this.#stream, piece);
    if (room) this.#onFull(room);
  }
}
