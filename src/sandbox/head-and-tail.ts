/** The first and the last bytes of a stream that may be endless. */
export class HeadAndTail {
  bytesTotal = 0;
  readonly #half: number;
  #head: Buffer[] = [];
  #headBytes = 0;
  #tail: Buffer[] = [];
  #tailBytes = 0;

  /** Keeps `bytesMax` bytes, half of them from the start. */
  constructor(bytesMax: number) {
    this.#half = Math.ceil(bytesMax / 2);
  }

  get truncated(): boolean {
    return this.bytesTotal > 2 * this.#half;
  }

  push(chunk: Buffer): void {
    this.bytesTotal += chunk.length;
    const room = this.#half - this.#headBytes;
    const head = chunk.subarray(0, room);
    if (head.length > 0) {
      this.#head.push(head);
      this.#headBytes += head.length;
    }
    if (chunk.length <= room) return;
    this.#tail.push(chunk.subarray(Math.max(room, 0)));
    this.#tailBytes += chunk.length - Math.max(room, 0);
    while (this.#tailBytes - (this.#tail[0] as Buffer).length >= this.#half) {
      this.#tailBytes -= (this.#tail.shift() as Buffer).length;
    }
  }

  /** What is kept of the start, as it came; whole where that is all. */
  head(): Buffer {
    return Buffer.concat(this.#head);
  }

  /** As text, with a line in the middle that says what is left out. Characters are never cut: half ones are left out as well. */
  text(): string {
    const tail = Buffer.concat(this.#tail);
    if (!this.truncated) return Buffer.concat([...this.#head, tail]).toString('utf8');
    const head = withoutHalfEnd(Buffer.concat(this.#head));
    const kept = withoutHalfStart(tail.subarray(Math.max(0, tail.length - this.#half)));
    const left = this.bytesTotal - head.length - kept.length;
    return `${head.toString('utf8')}\n… ${left} bytes left out …\n${kept.toString('utf8')}`;
  }
}

const isContinuation = (byte: number | undefined) => byte !== undefined && (byte & 0xc0) === 0x80;

function withoutHalfStart(bytes: Buffer): Buffer {
  let at = 0;
  while (at < 3 && isContinuation(bytes[at])) at += 1;
  return bytes.subarray(at);
}

function withoutHalfEnd(bytes: Buffer): Buffer {
  let at = bytes.length - 1;
  while (at > bytes.length - 4 && isContinuation(bytes[at])) at -= 1;
  const lead = bytes[at] ?? 0;
  const wanted = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc0 ? 2 : 1;
  return bytes.length - at < wanted ? bytes.subarray(0, at) : bytes;
}
