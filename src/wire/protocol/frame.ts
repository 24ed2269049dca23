/** Frames of a byte stream: the payload's length as a big-endian `u32`, then the payload. */
import { RpcError } from '../../base/errors.ts';
import { type EncodeLimits, encode } from './encoder.ts';

const HEADER_BYTES = 4;
/** MessagePack encodings of bytes: size of an empty bin, and type and size of the header for up to 2^32 bytes. */
const EMPTY_BIN_BYTES = 2;
const BIN_32 = 0xc6;
const BIN_32_BYTES = 5;
/** Smallest buffer for a payload that arrives in pieces. */
const ROOM_BYTES_MIN = 4096;
const NO_ROOM = Buffer.alloc(0);

/**
 * A message with its header in one buffer. Throws what `encode` throws, and RpcError FRAME_TOO_LARGE for more than `frameBytesMax` bytes.
 */
export function toFrame(message: unknown, frameBytesMax: number, bounds?: EncodeLimits): Buffer {
  const frame = encode(message, HEADER_BYTES, bounds);
  const length = frame.length - HEADER_BYTES;
  assertLength(length, frameBytesMax);
  frame.writeUInt32BE(length);
  return frame;
}

/**
 * A frame without the bytes that end its message: `last` is sent after it without being copied. `message` must end with an empty bin in
 * their place. Throws what `toFrame` throws.
 */
export function toFrameBefore(last: Uint8Array, message: unknown, frameBytesMax: number): Buffer {
  const begun = encode(message, HEADER_BYTES).subarray(0, -EMPTY_BIN_BYTES);
  const frame = Buffer.allocUnsafe(begun.length + BIN_32_BYTES);
  const at = begun.copy(frame);
  frame[at] = BIN_32;
  frame.writeUInt32BE(last.length, at + 1);
  const length = frame.length - HEADER_BYTES + last.length;
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

/** Splits the chunks of a stream into payloads. Holds about twice the bytes received of an incomplete payload. */
export class FrameReader {
  readonly #frameBytesMax: number;
  readonly #roomBytesMin: number;
  readonly #header = Buffer.alloc(HEADER_BYTES);
  #headerBytes = 0;
  #room: Buffer = NO_ROOM;
  #roomUsed = 0;
  /**
   * The buffer returned as the last payload, and a returned one for reuse, since allocating a new one each time costs more than filling it.
   */
  #lastPayload: Buffer = NO_ROOM;
  #spare: Buffer = NO_ROOM;

  /**
   * `roomBytesMin` bytes are allocated for a frame in pieces before that much has arrived; larger values suit senders that are known to
   * send everything.
   */
  constructor(frameBytesMax: number, roomBytesMin = ROOM_BYTES_MIN) {
    this.#frameBytesMax = frameBytesMax;
    this.#roomBytesMin = roomBytesMin;
  }

  /** Bytes held of an incomplete frame, including its header. */
  get partialBytes(): number {
    return this.#headerBytes + this.#roomUsed;
  }

  /** Whether a frame is incomplete. */
  get pending(): boolean {
    return this.#headerBytes > 0;
  }

  /**
   * The payloads that `chunk` completes, in order. A payload that lies completely in the chunk shares its memory. Throws RpcError
   * FRAME_TOO_LARGE, now and on every later call, for a frame over the bound; complete payloads before it in the same chunk are lost with
   * the connection.
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
      if (at === end) payloads.push(this.#completedPayload(piece));
    } while (at < bytes.length);
    return payloads;
  }

  /**
   * Stores a piece. The buffer doubles with what arrives: joining every chunk would take quadratic time, and a peer may announce far more
   * than it sends.
   */
  #keep(piece: Buffer, length: number): void {
    const needed = this.#roomUsed + piece.length;
    if (needed > this.#room.length) {
      const room = this.#roomOf(length, needed);
      this.#room.copy(room, 0, 0, this.#roomUsed);
      this.#room = room;
    }
    this.#roomUsed += piece.copy(this.#room, this.#roomUsed);
  }

  #roomOf(length: number, needed: number): Buffer {
    const spare = this.#spare;
    if (spare.length < length)
      return Buffer.allocUnsafeSlow(Math.min(length, Math.max(2 * needed, this.#roomBytesMin)));
    this.#spare = NO_ROOM;
    return spare;
  }

  /** Returns a payload whose memory may be reused; the caller must no longer use it or bytes decoded from it. */
  giveBack(payload: Buffer): void {
    if (payload.buffer !== this.#lastPayload.buffer || this.#lastPayload.length > this.#roomBytesMin) return;
    this.#spare = this.#lastPayload;
    this.#lastPayload = NO_ROOM;
  }

  /** The completed payload: the buffer's content, or `piece` itself if nothing was stored. */
  #completedPayload(piece: Buffer): Buffer {
    const payload = this.#roomUsed > 0 ? this.#room.subarray(0, this.#roomUsed) : piece;
    if (this.#roomUsed > 0) this.#lastPayload = this.#room;
    this.#headerBytes = this.#roomUsed = 0;
    this.#room = NO_ROOM;
    return payload;
  }
}

/** The part of a stream that is written to. */
interface Sink {
  cork(): void;
  uncork(): void;
  write(data: Uint8Array | string): unknown;
}

/** Writes what is sent in one turn of the event loop in one call: a call of the system for each message costs more than most messages. */
export class BatchedWrites {
  readonly #sink: Sink;
  #planned: 'this turn' | 'this round' | undefined;

  constructor(sink: Sink) {
    this.#sink = sink;
  }

  /** Writes data; with `more`, other data is expected within this round of the event loop, and is waited for. */
  write(data: Uint8Array | string, more = false): void {
    if (!this.#planned) this.#sink.cork();
    if (!more && this.#planned !== 'this turn') process.nextTick(this.flush);
    else if (!this.#planned) setImmediate(this.flush);
    this.#planned = more ? (this.#planned ?? 'this round') : 'this turn';
    this.#sink.write(data);
  }

  readonly flush = (): void => {
    if (!this.#planned) return;
    this.#planned = undefined;
    this.#sink.uncork();
  };
}

function assertLength(length: number, max: number): void {
  if (length <= max) return;
  throw new RpcError('FRAME_TOO_LARGE', `a frame has ${length} bytes; at most ${max} are accepted`, { length, max });
}
