/** Keeps the last output of a terminal, unchanged. A position in it is the number of bytes since the start. */
export interface Excerpt {
  /** UTF-8; invalid bytes, and characters that were partly overwritten, become U+FFFD. */
  readonly text: string;
  /** Position at which the next excerpt begins. */
  readonly seq: number;
  /** Bytes between the requested position and the oldest kept byte; 0 if none are missing. */
  readonly missedBytes: number;
}

export class TerminalLog {
  readonly #ring: Buffer;
  #end = 0;

  constructor(bytes: number) {
    this.#ring = Buffer.alloc(bytes);
  }

  /** Bytes since the start. */
  get end(): number {
    return this.#end;
  }

  push(chunk: Buffer): void {
    const size = this.#ring.length;
    const tail = chunk.length > size ? chunk.subarray(chunk.length - size) : chunk;
    const at = (this.#end + chunk.length - tail.length) % size;
    const before = Math.min(tail.length, size - at);
    tail.copy(this.#ring, at, 0, before);
    tail.copy(this.#ring, 0, before);
    this.#end += chunk.length;
  }

  /** Reads at most `bytesMax` after `seq`; an incomplete character at the end is left for the next read. */
  after(seq: number, bytesMax: number): Excerpt {
    const start = Math.max(0, this.#end - this.#ring.length);
    const asked = Math.min(seq, this.#end);
    const from = Math.max(asked, start);
    const bytes = this.#bytes(from, Math.min(this.#end, from + bytesMax));
    const isAll = from + bytes.length === this.#end;
    const cut = bytes.subarray(0, wholeCharacters(bytes));
    // An incomplete character at the end may still be completed; before other bytes it is invalid.
    const taken = cut.length > 0 || isAll ? cut : bytes;
    return { text: taken.toString('utf8'), seq: from + taken.length, missedBytes: from - asked };
  }

  #bytes(from: number, to: number): Buffer {
    const size = this.#ring.length;
    const at = from % size;
    const length = to - from;
    if (at + length <= size) return Buffer.from(this.#ring.subarray(at, at + length));
    return Buffer.concat([this.#ring.subarray(at), this.#ring.subarray(0, at + length - size)]);
  }
}

/** Length of `bytes` without an incomplete character at the end. */
function wholeCharacters(bytes: Buffer): number {
  for (let back = 1; back <= Math.min(3, bytes.length); back++) {
    const byte = bytes[bytes.length - back] as number;
    if ((byte & 0xc0) === 0x80) continue;
    const needed = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
    return needed > back ? bytes.length - back : bytes.length;
  }
  return bytes.length;
}
