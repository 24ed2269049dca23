/** Lines of a byte stream, which arrive in pieces; a line that is too long is never held. */

const NEWLINE = 0x0a;

/** In place of a line that is longer than the reader's maximum. */
export const TOO_LONG = Symbol('line too long');

export class LineReader {
  readonly #bytesMax: number;
  #pieces: Buffer[] = [];
  #bytes = 0;

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  /** Whether a line has begun and not ended. */
  get isInLine(): boolean {
    return this.#bytes > 0;
  }

  /** The lines that end in this chunk, except empty ones. */
  read(chunk: Buffer): (Buffer | typeof TOO_LONG)[] {
    const lines: (Buffer | typeof TOO_LONG)[] = [];
    let from = 0;
    for (let end = chunk.indexOf(NEWLINE); end >= 0; end = chunk.indexOf(NEWLINE, from)) {
      this.#take(chunk.subarray(from, end));
      if (this.#bytes > 0) lines.push(this.#line());
      this.#pieces = [];
      this.#bytes = 0;
      from = end + 1;
    }
    this.#take(chunk.subarray(from));
    return lines;
  }

  #take(piece: Buffer): void {
    this.#bytes += piece.length;
    if (this.#bytes > this.#bytesMax) this.#pieces = [];
    else if (piece.length > 0) this.#pieces.push(piece);
  }

  #line(): Buffer | typeof TOO_LONG {
    if (this.#bytes > this.#bytesMax) return TOO_LONG;
    return this.#pieces.length === 1 ? (this.#pieces[0] as Buffer) : Buffer.concat(this.#pieces);
  }
}
