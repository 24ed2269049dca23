/**
 * Encodes values as plain MessagePack in one pass into the buffer that is sent. Our own for the same reason as the decoder: validation and
 * writing can't disagree. docs/benchmarks.md compares it with validating first and packing with msgpackr.
 */

type Fields = Readonly<Record<string, unknown>>;

/** Deepest nesting, which also catches cycles; peers accept less (`messageDepthMax`). */
const DEPTH_MAX = 256;
const ROOM_BYTES = 64 * 1024;
/** A buffer larger than this is not kept for the next message. */
const ROOM_BYTES_KEPT = 1024 * 1024;
/** Longest string that is written character by character; for longer ones a call into native code is cheaper. */
const SHORT_STRING_CHARS = 32;
const U32 = 2 ** 32;

export interface EncodeLimits {
  readonly messageDepthMax: number;
  readonly messageElementsMax: number;
}
const UNBOUNDED: EncodeLimits = { messageDepthMax: DEPTH_MAX, messageElementsMax: Number.POSITIVE_INFINITY };

let room = Buffer.allocUnsafeSlow(ROOM_BYTES);
let at = 0;
let elements = 0;
let limits = UNBOUNDED;

/**
 * Encodes one message after `headerBytes` unused bytes. Undefined members are omitted, undefined items become nil; a lone surrogate becomes
 * U+FFFD. Throws TypeError for values without a plain form (Date, Map, Set, Error, bigint, function, other instances), RangeError for
 * cycles and beyond `bounds`.
 */
export function encode(value: unknown, headerBytes = 0, bounds: EncodeLimits = UNBOUNDED): Buffer {
  at = headerBytes;
  elements = 1;
  limits = bounds;
  write(value, 0);
  // A small message shares a slab with others, like all of Node's small buffers.
  const bytes = Buffer.allocUnsafe(at);
  room.copy(bytes, headerBytes, headerBytes, at);
  if (room.length > ROOM_BYTES_KEPT) room = Buffer.allocUnsafeSlow(ROOM_BYTES);
  return bytes;
}

/** Makes room for `bytes` more. */
function reserve(bytes: number): void {
  if (at + bytes <= room.length) return;
  const larger = Buffer.allocUnsafeSlow(Math.max(2 * room.length, at + bytes));
  room.copy(larger, 0, 0, at);
  room = larger;
}

function write(value: unknown, depth: number): void {
  switch (typeof value) {
    case 'string':
      return writeString(value);
    case 'number':
      return writeNumber(value);
    case 'boolean':
      return writeByte(value ? 0xc3 : 0xc2);
    case 'undefined':
      return writeByte(0xc0);
    case 'object':
      return value === null ? writeByte(0xc0) : writeObject(value, depth);
    default:
      throw new TypeError(`a ${typeof value} can't be part of a message`);
  }
}

function writeObject(value: object, depth: number): void {
  if (Array.isArray(value)) return writeArray(value, depth);
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype === Object.prototype || prototype === null) return writeMap(value as Fields, depth);
  if (value instanceof Uint8Array) return writeBytes(value);
  throw new TypeError(`a ${value.constructor?.name ?? 'class instance'} can't be part of a message`);
}

function writeByte(byte: number): void {
  reserve(1);
  room[at++] = byte;
}

/** Writes a header; `type` and the next two types take a size of 1, 2 and 4 bytes. */
function writeSized(type: number, size: number): void {
  reserve(5 + size);
  if (size < 0x100) {
    room[at] = type;
    room[at + 1] = size;
    at += 2;
  } else if (size < 0x10000) {
    room[at] = type + 1;
    room.writeUInt16BE(size, at + 1);
    at += 3;
  } else {
    room[at] = type + 2;
    room.writeUInt32BE(size, at + 1);
    at += 5;
  }
}

function writeString(text: string): void {
  const chars = text.length;
  if (chars < SHORT_STRING_CHARS) {
    reserve(1 + chars);
    const start = at + 1;
    let i = 0;
    for (; i < chars; i++) {
      const code = text.charCodeAt(i);
      if (code > 0x7f) break;
      room[start + i] = code;
    }
    if (i === chars) {
      room[at] = 0xa0 | chars;
      at = start + chars;
      return;
    }
  }
  const bytes = Buffer.byteLength(text);
  if (bytes < SHORT_STRING_CHARS) {
    reserve(1 + bytes);
    room[at++] = 0xa0 | bytes;
  } else writeSized(0xd9, bytes);
  // A lone surrogate is counted and written as U+FFFD.
  at += room.write(text, at, 'utf8');
}

function writeBytes(bytes: Uint8Array): void {
  writeSized(0xc4, bytes.length);
  room.set(bytes, at);
  at += bytes.length;
}

function writeNumber(value: number): void {
  reserve(9);
  if (!Number.isSafeInteger(value)) {
    room[at] = 0xcb;
    room.writeDoubleBE(value, at + 1);
    at += 9;
  } else if (value >= 0) writeUnsigned(value);
  else writeNegative(value);
}

function writeUnsigned(value: number): void {
  if (value < 0x80) room[at++] = value;
  else if (value < 0x100) {
    room[at] = 0xcc;
    room[at + 1] = value;
    at += 2;
  } else if (value < 0x10000) {
    room[at] = 0xcd;
    room.writeUInt16BE(value, at + 1);
    at += 3;
  } else if (value < U32) {
    room[at] = 0xce;
    room.writeUInt32BE(value, at + 1);
    at += 5;
  } else writeWide(0xcf, value);
}

function writeNegative(value: number): void {
  if (value >= -0x20) room[at++] = value & 0xff;
  else if (value >= -0x80) {
    room[at] = 0xd0;
    room.writeInt8(value, at + 1);
    at += 2;
  } else if (value >= -0x8000) {
    room[at] = 0xd1;
    room.writeInt16BE(value, at + 1);
    at += 3;
  } else if (value >= -0x80000000) {
    room[at] = 0xd2;
    room.writeInt32BE(value, at + 1);
    at += 5;
  } else writeWide(0xd3, value);
}

function writeWide(type: number, value: number): void {
  room[at] = type;
  room.writeBigInt64BE(BigInt(value), at + 1);
  at += 9;
}

/** Charges the size of a container. */
function open(size: number, depth: number): void {
  elements += size;
  if (depth >= limits.messageDepthMax) {
    throw new RangeError(`a message nested more than ${limits.messageDepthMax} deep, or in a circle`);
  }
  if (elements > limits.messageElementsMax)
    throw new RangeError(`a message of more than ${limits.messageElementsMax} values`);
}

function writeArray(array: readonly unknown[], depth: number): void {
  const size = array.length;
  open(size, depth);
  writeContainer({ fixed: 0x90, type: 0xdc }, size);
  for (let i = 0; i < size; i++) write(array[i], depth + 1);
}

function writeMap(map: Fields, depth: number): void {
  const keys = Object.keys(map);
  let size = keys.length;
  for (let i = 0; i < keys.length; i++) {
    const key = keys[i] as string;
    if (map[key] === undefined) size -= 1;
    if (!key.isWellFormed()) return writeMap(withWellFormedKeys(map), depth);
  }
  open(2 * size, depth);
  writeContainer({ fixed: 0x80, type: 0xde }, size);
  for (let i = 0; i < keys.length; i++) {
    const key = keys[i] as string;
    const value = map[key];
    if (value === undefined) continue;
    writeString(key);
    write(value, depth + 1);
  }
}

/**
 * Replaces lone surrogates in keys by U+FFFD. Keys that become equal are merged, the later one wins: a message with a duplicate key would
 * be invalid.
 */
export const withWellFormedKeys = (value: Fields): Fields =>
  Object.fromEntries(Object.entries(value).map(([key, member]) => [key.toWellFormed(), member]));

function writeContainer({ fixed, type }: { fixed: number; type: number }, size: number): void {
  reserve(5);
  if (size < 0x10) room[at++] = fixed | size;
  else if (size < 0x10000) {
    room[at] = type;
    room.writeUInt16BE(size, at + 1);
    at += 3;
  } else {
    room[at] = type + 1;
    room.writeUInt32BE(size, at + 1);
    at += 5;
  }
}
