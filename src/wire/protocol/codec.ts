/**
 * Messages as plain MessagePack: maps with string keys, no extension types, integers that a double can hold. Our own decoder validates and
 * builds in one pass, so the two can't disagree about a message.
 */
import { isUtf8 } from 'node:buffer';
import { RpcError } from '../../base/errors.ts';
import type { Limits } from '../../base/limits.ts';
import { withWellFormedKeys } from './encoder.ts';

export { encode } from './encoder.ts';

export type DecodeLimits = Pick<Limits, 'messageDepthMax' | 'messageElementsMax'>;
type Fields = Record<string, unknown>;
type Scalar = (value: string | number | Uint8Array) => unknown;

/**
 * `value` with `scalar` applied to its strings, keys, numbers and bytes. Copies only objects in which something changes. Throws TypeError
 * for anything but null, booleans, undefined, strings, numbers, bytes, arrays and plain objects.
 */
export function toPlain(value: unknown, scalar: Scalar): unknown {
  switch (typeof value) {
    case 'string':
    case 'number':
      return scalar(value);
    case 'boolean':
    case 'undefined':
      return value;
    case 'object':
      break;
    default:
      throw new TypeError(`a ${typeof value} can't be part of a message`);
  }
  if (value === null) return value;
  if (Array.isArray(value)) return toPlainArray(value, scalar);
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype === Object.prototype || prototype === null) return toPlainObject(value as Fields, scalar);
  if (value instanceof Uint8Array) return scalar(value);
  throw new TypeError(`a ${value.constructor?.name ?? 'class instance'} can't be part of a message`);
}

function toPlainArray(value: readonly unknown[], scalar: Scalar): readonly unknown[] {
  let copy: unknown[] | undefined;
  for (let i = 0; i < value.length; i++) {
    const plain = toPlain(value[i], scalar);
    if (Object.is(plain, value[i])) continue;
    copy ??= value.slice();
    copy[i] = plain;
  }
  return copy ?? value;
}

function toPlainObject(value: Fields, scalar: Scalar): Fields {
  let copy: Fields | undefined;
  for (const key of Object.keys(value)) {
    if (!key.isWellFormed()) return toPlainObject(withWellFormedKeys(value), scalar);
    const plain = toPlain(value[key], scalar);
    if (Object.is(plain, value[key])) continue;
    copy ??= { ...value };
    copy[key] = plain;
  }
  return copy ?? value;
}

/**
 * Decodes one message. Maps become null-prototype objects, so `__proto__` is an ordinary key; bin becomes a Buffer that shares memory with
 * `bytes`. Throws RpcError PARSE, with reason and offset, for anything that is not plain MessagePack, that another decoder might read
 * differently, or that exceeds `limits`.
 */
export function decode(bytes: Uint8Array, limits: DecodeLimits): unknown {
  const buffer = Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
  return new Reader(buffer, limits).message();
}

/** Longest string that is built byte by byte; for longer ones a call into native code is cheaper. */
const SHORT_STRING_BYTES = 12;
/** Longer strings are validated before decoding: 16 MiB of invalid bytes take 0.14 s to decode. */
const LONG_STRING_BYTES = 4096;

class Reader {
  readonly #bytes: Buffer;
  readonly #end: number;
  readonly #limits: DecodeLimits;
  #at = 0;
  /** Number of values that may still come. Headers subtract what they announce, so this also bounds what they may allocate. */
  #elementsLeft: number;

  constructor(bytes: Buffer, limits: DecodeLimits) {
    this.#bytes = bytes;
    this.#end = bytes.length;
    this.#limits = limits;
    this.#elementsLeft = limits.messageElementsMax - 1;
  }

  message(): unknown {
    const value = this.#value(0);
    if (this.#at < this.#end) this.#refuse(`${this.#end - this.#at} bytes follow the message`, this.#at);
    return value;
  }

  #refuse(reason: string, at: number): never {
    throw new RpcError('PARSE', `not an acceptable message: ${reason}, at byte ${at}`);
  }

  /** Consumes `count` bytes and returns the offset of the first. Throws if fewer are left. */
  #take(count: number): number {
    const at = this.#at;
    if (this.#end - at < count) this.#refuse(`${count} bytes wanted, ${this.#end - at} left`, at);
    this.#at = at + count;
    return at;
  }

  #u8(): number {
    return this.#bytes[this.#take(1)] as number;
  }

  #u16(): number {
    return this.#bytes.readUInt16BE(this.#take(2));
  }

  #u32(): number {
    return this.#bytes.readUInt32BE(this.#take(4));
  }

  #value(depth: number): unknown {
    const head = this.#u8();
    if (head < 0x80) return head;
    if (head < 0x90) return this.#map(head & 0x0f, depth);
    if (head < 0xa0) return this.#array(head & 0x0f, depth);
    if (head < 0xc0) return this.#string(head & 0x1f);
    if (head >= 0xe0) return head - 0x100;
    return this.#sized(head, depth);
  }

  #sized(head: number, depth: number): unknown {
    if (head >= 0xde) return this.#map(this.#size(head - 0xdd), depth);
    if (head >= 0xdc) return this.#array(this.#size(head - 0xdb), depth);
    if (head >= 0xd9) return this.#string(this.#size(head - 0xd9));
    if (head >= 0xc4 && head <= 0xc6) return this.#bin(this.#size(head - 0xc4));
    if (head === 0xc0) return null;
    if (head === 0xc2 || head === 0xc3) return head === 0xc3;
    return this.#number(head);
  }

  /** Reads a size of 1, 2 or 4 bytes. */
  #size(width: number): number {
    if (width === 0) return this.#u8();
    return width === 1 ? this.#u16() : this.#u32();
  }

  #number(head: number): number {
    const bytes = this.#bytes;
    switch (head) {
      case 0xca:
        return bytes.readFloatBE(this.#take(4));
      case 0xcb:
        return bytes.readDoubleBE(this.#take(8));
      case 0xcc:
        return this.#u8();
      case 0xcd:
        return this.#u16();
      case 0xce:
        return this.#u32();
      case 0xcf:
        return this.#integer64(this.#u32());
      case 0xd0:
        return bytes.readInt8(this.#take(1));
      case 0xd1:
        return bytes.readInt16BE(this.#take(2));
      case 0xd2:
        return bytes.readInt32BE(this.#take(4));
      case 0xd3:
        return this.#integer64(bytes.readInt32BE(this.#take(4)));
      default:
        return this.#refuse(head === 0xc1 ? 'type 0xc1' : `extension type 0x${head.toString(16)}`, this.#at - 1);
    }
  }

  #integer64(high: number): number {
    const value = high * 2 ** 32 + this.#u32();
    if (!Number.isSafeInteger(value)) this.#refuse('an integer beyond 2^53 - 1', this.#at - 9);
    return value;
  }

  #bin(length: number): Buffer {
    const at = this.#take(length);
    return this.#bytes.subarray(at, at + length);
  }

  #string(length: number): string {
    const bytes = this.#bytes;
    const at = this.#take(length);
    const end = at + length;
    if (length <= SHORT_STRING_BYTES) {
      let text = '';
      let i = at;
      for (; i < end && (bytes[i] as number) < 0x80; i++) text += String.fromCharCode(bytes[i] as number);
      if (i === end) return text;
    }
    if (length > LONG_STRING_BYTES && !isUtf8(bytes.subarray(at, end))) this.#refuse('invalid UTF-8', at);
    const text = bytes.toString('utf8', at, end);
    // Invalid bytes decode to U+FFFD, so only a text that contains one needs a second check.
    if (text.includes('\ufffd') && !isUtf8(bytes.subarray(at, end))) this.#refuse('invalid UTF-8', at);
    return text;
  }

  #key(): string {
    const at = this.#at;
    const head = this.#u8();
    if (head >= 0xa0 && head < 0xc0) return this.#cachedKey(head & 0x1f);
    if (head < 0xd9 || head > 0xdb) this.#refuse('a map key that is not a string', at);
    return this.#string(this.#size(head - 0xd9));
  }

  #cachedKey(length: number): string {
    const bytes = this.#bytes;
    const at = this.#take(length);
    let hash = length;
    for (let i = at; i < this.#at; i++) hash = (Math.imul(hash, 31) + (bytes[i] as number)) | 0;
    const slot = (hash ^ (hash >>> 10)) & (KEY_SLOTS - 1);
    const known = keyCache[slot];
    if (known?.bytes.length === length && isAt(bytes, at, known.bytes)) return known.text;
    this.#at = at;
    const text = this.#string(length);
    keyCache[slot] = { text, bytes: Buffer.from(bytes.subarray(at, at + length)) };
    return text;
  }

  /** Charges what a header announces, before anything is allocated for it. */
  #open(elements: number, depth: number): void {
    const { messageDepthMax, messageElementsMax } = this.#limits;
    const at = this.#at - 1;
    const left = this.#end - this.#at;
    if (depth >= messageDepthMax) this.#refuse(`nested more than ${messageDepthMax} deep`, at);
    if (elements > left) this.#refuse(`${elements} elements announced, ${left} bytes left`, at);
    this.#elementsLeft -= elements;
    if (this.#elementsLeft < 0) this.#refuse(`more than ${messageElementsMax} elements`, at);
  }

  #array(length: number, depth: number): unknown[] {
    this.#open(length, depth);
    const array = new Array<unknown>(length);
    for (let i = 0; i < length; i++) array[i] = this.#value(depth + 1);
    return array;
  }

  #map(size: number, depth: number): Fields {
    this.#open(2 * size, depth);
    const map: Fields = Object.create(null);
    for (let i = 0; i < size; i++) {
      const at = this.#at;
      const key = this.#key();
      if (key in map) this.#refuse('a duplicate key', at);
      map[key] = this.#value(depth + 1);
    }
    return map;
  }
}

/** Cached keys: they repeat from message to message, and using the cache halves the decoding time of a small one. */
const KEY_SLOTS = 1024;
const keyCache = new Array<{ readonly text: string; readonly bytes: Buffer } | undefined>(KEY_SLOTS).fill(undefined);

/** Whether `bytes` contains `wanted` at offset `at`. */
function isAt(bytes: Buffer, at: number, wanted: Buffer): boolean {
  for (let i = 0; i < wanted.length; i++) if (bytes[at + i] !== wanted[i]) return false;
  return true;
}
