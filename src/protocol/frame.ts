/** Frames of a byte stream: the payload's length as a big-endian `u32`, then the payload. */
import { RpcError } from '../errors.ts';
import { type EncodeLimits, encode } from './encoder.ts';

const HEADER_BYTES = 4;
/** First room for a payload that comes in pieces. */
const ROOM_BYTES_MIN = 4096;
const NO_ROOM = Buffer.alloc(0);

/** A message and its header in one buffer. Throws what `encode` throws, and RpcError FRAME_TOO_LARGE for more than `frameBytesMax` bytes. */
export function toFrame(message: unknown, frameBytesMax: number, bounds?: EncodeLimits): Buffer {
  const frame = encode(message, HEADER_BYTES, bounds);
  const length = frame.length - HEADER_BYTES;
  assertLength(length, frameBytesMax);
  frame.writeUInt32BE(length);
  return frame;
}

/** Header and payload in one buffer. Throws RpcError FRAME_TOO_LARGE for a payload of more than `frameBytesMax` bytes. */
export function encodeFrame(payload: Uint8Array, frameBytesMax: number): Buffer {
  assertLength(payload.length, frameBytesMax);
  const frame = Buffer.allocUnsafe(HEADER_BYTES + payload.length);
  frame.writeUInt32BE(payload.length);
  frame.set(payload, HEADER_BYTES);
  return frame;
}

/** Cuts the chunks of one stream into payloads. Holds about twice what has arrived of the one that is not whole yet. */
export class FrameReader {
  readonly #frameBytesMax: number;
  readonly #roomBytesMin: number;
  readonly #header = Buffer.alloc(HEADER_BYTES);
  #headerBytes = 0;
  #room: Buffer = NO_ROOM;
  #roomUsed = 0;

  /** `roomBytesMin` is taken for a frame that comes in pieces before as much of it has come: more for who is known to send all. */
  constructor(frameBytesMax: number, roomBytesMin = ROOM_BYTES_MIN) {
    this.#frameBytesMax = frameBytesMax;
    this.#roomBytesMin = roomBytesMin;
  }

  /** Bytes held of a frame that is not whole yet, its header included. */
  get partialBytes(): number {
    return this.#headerBytes + this.#roomUsed;
  }

  /** Whether a frame is half-read. */
  get pending(): boolean {
    return this.#headerBytes > 0;
  }

  /**
   * The payloads that `chunk` completes, in order. One that lies whole inside the chunk shares its memory.
   * Throws RpcError FRAME_TOO_LARGE, then and ever after, for a frame that announces more than the bound; what came whole
   * before it in the same chunk is lost with the connection.
   */
  push(chunk: Uint8Array): Buffer[] {
    const bytes = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
    const payloads: Buffer[] = [];
    let at = 0;
    do {
      const copied = bytes.copy(this.#header, this.#headerBytes, at);
      at += copied;
      this.#headerBytes += copied;
      if (this.#headerBytes < HEADER_BYTES) break;
      const length = this.#header.readUInt32BE();
      assertLength(length, this.#frameBytesMax);
      const end = at + length - this.#roomUsed;
      const piece = bytes.subarray(at, end);
      at += piece.length;
      if (this.#roomUsed > 0 || at < end) this.#keep(piece, length);
      if (at === end) payloads.push(this.#take(piece));
    } while (at < bytes.length);
    return payloads;
  }

  /** Room doubles with what arrives: joining each chunk is quadratic, and a peer may announce far more than it sends. */
  #keep(piece: Buffer, length: number): void {
    const needed = this.#roomUsed + piece.length;
    if (needed > this.#room.length) {
      const room = Buffer.allocUnsafeSlow(Math.min(length, Math.max(2 * needed, this.#roomBytesMin)));
      this.#room.copy(room, 0, 0, this.#roomUsed);
      this.#room = room;
    }
    this.#roomUsed += piece.copy(this.#room, this.#roomUsed);
  }

  /** The payload that is now whole: the room, then full to its last byte, or `piece` itself when nothing was kept. */
  #take(piece: Buffer): Buffer {
    const payload = this.#roomUsed > 0 ? this.#room : piece;
    this.#headerBytes = this.#roomUsed = 0;
    this.#room = NO_ROOM;
    return payload;
  }
}

/** As much of a socket as frames need. */
interface Sink {
  cork(): void;
  uncork(): void;
  write(frame: Buffer): unknown;
}

/** What is written before `later` comes leaves in one call. */
export class FrameWriter {
  readonly #sink: Sink;
  readonly #later: (flush: () => void) => void;
  #corked = false;

  constructor(sink: Sink, later: (flush: () => void) => void = process.nextTick) {
    this.#sink = sink;
    this.#later = later;
  }

  write(frame: Buffer): void {
    if (!this.#corked) {
      this.#corked = true;
      this.#sink.cork();
      this.#later(() => {
        this.#corked = false;
        this.#sink.uncork();
      });
    }
    this.#sink.write(frame);
  }
}

function assertLength(length: number, max: number): void {
  if (length <= max) return;
  throw new RpcError('FRAME_TOO_LARGE', `a frame of ${length} bytes is over the bound of ${max}`, { length, max });
}
