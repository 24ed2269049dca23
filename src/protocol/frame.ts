/** Frames: `u32` big-endian length, then the payload. */
import { RpcError } from '../errors.ts';

const HEADER_BYTES = 4;

const tooLarge = (length: number, max: number) =>
  new RpcError('FRAME_TOO_LARGE', `a frame of ${length} bytes is over the bound of ${max}`, { length, max });

/** Header and payload in one buffer. Throws FRAME_TOO_LARGE. */
export function encodeFrame(payload: Uint8Array, frameBytesMax: number): Buffer {
  if (payload.length > frameBytesMax) throw tooLarge(payload.length, frameBytesMax);
  const frame = Buffer.allocUnsafe(HEADER_BYTES + payload.length);
  frame.writeUInt32BE(payload.length);
  frame.set(payload, HEADER_BYTES);
  return frame;
}

/**
 * Cuts a stream into payloads. Chunks are kept as they came and joined once, when their frame is whole, so that many
 * small ones cost linear time and a length that was only announced costs nothing.
 */
export class FrameReader {
  readonly #max: number;
  #chunks: Buffer[] = [];
  #bytes = 0;
  /** Bytes that must be there before there is anything to do: a header, or a whole frame. */
  #needed = HEADER_BYTES;

  constructor(frameBytesMax: number) {
    this.#max = frameBytesMax;
  }

  /** Whether a frame has begun and not ended. */
  get pending(): boolean {
    return this.#bytes > 0;
  }

  /** The payloads that `chunk` completes, in order; they may share its memory. Throws FRAME_TOO_LARGE at the header. */
  push(chunk: Buffer): Buffer[] {
    this.#chunks.push(chunk);
    this.#bytes += chunk.length;
    if (this.#bytes < this.#needed) return [];

    const bytes = this.#chunks.length === 1 ? chunk : Buffer.concat(this.#chunks);
    const payloads: Buffer[] = [];
    let at = 0;
    for (;;) {
      this.#needed = HEADER_BYTES;
      if (bytes.length - at < HEADER_BYTES) break;
      const length = bytes.readUInt32BE(at);
      if (length > this.#max) throw tooLarge(length, this.#max);
      this.#needed = HEADER_BYTES + length;
      if (bytes.length - at < this.#needed) break;
      payloads.push(bytes.subarray(at + HEADER_BYTES, at + this.#needed));
      at += this.#needed;
    }
    this.#bytes = bytes.length - at;
    this.#chunks = this.#bytes > 0 ? [bytes.subarray(at)] : [];
    return payloads;
  }
}
