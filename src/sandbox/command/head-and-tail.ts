import { withoutHalfEnd, withoutHalfStart } from '../../base/text/half-characters.ts';

/** Keeps the first and the last bytes of a stream that may be endless. */
export class HeadAndTail {
  bytesTotal = 0;
  readonly #half: number;
  #head: Buffer[] = [];
  #headBytes = 0;
  /** Ring buffer of the last bytes; the oldest is at `#tailAt`. */
  #tail = Buffer.alloc(0);
  #tailAt = 0;
  #tailBytes = 0;

  /** Keeps `bytesMax` bytes, half of them from the start. */
  constructor(bytesMax: number) {
    this.#half = Math.ceil(bytesMax / 2);
  }

  get truncated(): boolean {
    return this.bytesTotal > 2 * this.#half;
  }

  /** Copies what it keeps: the chunk's memory may be reused. */
  push(chunk: Buffer): void {
    this.bytesTotal += chunk.length;
    const head = chunk.subarray(0, this.#half - this.#headBytes);
    if (head.length > 0) {
      this.#head.push(Buffer.from(head));
      this.#headBytes += head.length;
    }
    if (head.length < chunk.length) this.#keepLast(chunk.subarray(Math.max(head.length, chunk.length - this.#half)));
  }

  /** Keeps the last bytes; `bytes` must fit into the buffer. */
  #keepLast(bytes: Buffer): void {
    if (this.#tail.length === 0) this.#tail = Buffer.allocUnsafeSlow(this.#half);
    const first = bytes.copy(this.#tail, this.#tailAt);
    bytes.copy(this.#tail, 0, first);
    this.#tailAt = (this.#tailAt + bytes.length) % this.#half;
    this.#tailBytes = Math.min(this.#half, this.#tailBytes + bytes.length);
  }

  /** The kept start, unchanged; the whole stream if it fit. */
  head(): Buffer {
    return Buffer.concat(this.#head);
  }

  /** Decodes the kept bytes, with a line in the middle that tells how many are left out. Never splits a character. */
  text(): string {
    const tail = this.#last();
    if (!this.truncated) return Buffer.concat([...this.#head, tail]).toString('utf8');
    const head = withoutHalfEnd(Buffer.concat(this.#head));
    const wholeTail = withoutHalfStart(tail);
    const omittedBytes = this.bytesTotal - head.length - wholeTail.length;
    return `${head.toString('utf8')}\n… ${omittedBytes} bytes left out …\n${wholeTail.toString('utf8')}`;
  }

  #last(): Buffer {
    const { length } = this.#tail;
    if (this.#tailBytes < length) return this.#tail.subarray(0, this.#tailBytes);
    return Buffer.concat([this.#tail.subarray(this.#tailAt), this.#tail.subarray(0, this.#tailAt)]);
  }
}
