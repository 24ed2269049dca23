/** The last output of a terminal, as it came. A place in it is the number of bytes before it since the start. */
export interface Excerpt {
  /** UTF-8; what is none, or was overwritten in the middle of a character, is U+FFFD. */
  readonly text: string;
  /** Where the next one begins. */
  readonly seq: number;
  /** Bytes between what was asked for and what is still there; 0 for none. */
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
    const kept = chunk.length > size ? chunk.subarray(chunk.length - size) : chunk;
    const at = (this.#end + chunk.length - kept.length) % size;
    const before = Math.min(kept.length, size - at);
    kept.copy(this.#ring, at, 0, before);
    kept.copy(this.#ring, 0, before);
    this.#end += chunk.length;
  }

  /** At most `bytesMax` after `seq`; a character whose end has not come yet is left for the next one. */
  after(seq: number, bytesMax: number): Excerpt {
    const start = Math.max(0, this.#end - this.#ring.length);
    const asked = Math.min(seq, this.#end);
    const from = Math.max(asked, start);
    const bytes = this.#bytes(from, Math.min(this.#end, from + bytesMax));
    const isAll = from + bytes.length === this.#end;
    const cut = bytes.subarray(0, wholeCharacters(bytes));
    // What is begun and nothing follows may still come; where more is there already, it is no character.
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

/** Length of `bytes` without a character at its end that is not complete. */
function wholeCharacters(bytes: Buffer): number {
  for (let back = 1; back <= Math.min(3, bytes.length); back++) {
    const byte = bytes[bytes.length - back] as number;
    if ((byte & 0xc0) === 0x80) continue;
    const needed = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
    return needed > back ? bytes.length - back : bytes.length;
  }
  return bytes.length;
}
