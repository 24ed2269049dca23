/**
 * MessagePack, as plain as every language has it: maps with string keys, no extension types.
 * Decoding is one strict pass of our own rather than a check before msgpackr's, so that the checker and the decoder
 * can't disagree about what a byte means. Encoding is msgpackr's.
 */
import { isUtf8 } from 'node:buffer';
import { Packr } from 'msgpackr';
import { RpcError } from '../errors.ts';
import type { Limits } from '../limits.ts';

// `useRecords: false`: records are an extension that other languages' decoders can't read.
const packr = new Packr({ useRecords: false, variableMapSize: true, encodeUndefinedAsNil: true, skipValues: [undefined] } as object);

/** Encodes plain data: objects (members that are undefined are left out), arrays, strings, finite or other numbers, booleans, null, bytes. */
export const encode = (value: unknown): Buffer => packr.pack(value);

export type DecodeLimits = Pick<Limits, 'messageDepthMax' | 'messageElementsMax'>;

/**
 * Decodes one message. Maps become objects without a prototype (`__proto__` is a key like others), bin becomes a Buffer
 * that shares memory with `bytes`. Throws PARSE for anything cut short, left over, nested or counted over the limits,
 * for extension types, 0xc1, keys that are not strings or come twice, bad UTF-8, and integers that a double can't hold.
 */
export function decode(bytes: Uint8Array, limits: DecodeLimits): unknown {
  const reader = new Reader(Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length), limits);
  const value = reader.value(0);
  reader.assertEnd();
  return value;
}

const refuse = (reason: string): RpcError => new RpcError('PARSE', `not an acceptable message: ${reason}`);

/** Longest string whose bytes are looked at one by one; a native call costs more for those below. */
const SHORT_STRING = 24;

class Reader {
  readonly #bytes: Buffer;
  readonly #depthMax: number;
  #elementsLeft: number;
  #at = 0;

  constructor(bytes: Buffer, { messageDepthMax, messageElementsMax }: DecodeLimits) {
    this.#bytes = bytes;
    this.#depthMax = messageDepthMax;
    this.#elementsLeft = messageElementsMax;
  }

  assertEnd(): void {
    const left = this.#bytes.length - this.#at;
    if (left > 0) throw refuse(`${left} bytes after its end`);
  }

  value(depth: number): unknown {
    if (--this.#elementsLeft < 0) throw refuse('too many values');
    const type = this.#byte();
    if (type < 0x80) return type;
    if (type < 0x90) return this.#map(type & 0x0f, depth);
    if (type < 0xa0) return this.#array(type & 0x0f, depth);
    if (type < 0xc0) return this.#string(type & 0x1f);
    if (type >= 0xe0) return type - 0x100;
    return this.#long(type, depth);
  }

  #long(type: number, depth: number): unknown {
    switch (type) {
      case 0xc0:
        return null;
      case 0xc2:
        return false;
      case 0xc3:
        return true;
      case 0xc4:
        return this.#slice(this.#byte());
      case 0xc5:
        return this.#slice(this.#uint16());
      case 0xc6:
        return this.#slice(this.#uint32());
      case 0xca:
        return this.#bytes.readFloatBE(this.#advance(4));
      case 0xcb:
        return this.#bytes.readDoubleBE(this.#advance(8));
      case 0xd9:
        return this.#string(this.#byte());
      case 0xda:
        return this.#string(this.#uint16());
      case 0xdb:
        return this.#string(this.#uint32());
      case 0xdc:
        return this.#array(this.#uint16(), depth);
      case 0xdd:
        return this.#array(this.#uint32(), depth);
      case 0xde:
        return this.#map(this.#uint16(), depth);
      case 0xdf:
        return this.#map(this.#uint32(), depth);
      default:
        return this.#integer(type);
    }
  }

  #integer(type: number): number {
    switch (type) {
      case 0xcc:
        return this.#byte();
      case 0xcd:
        return this.#uint16();
      case 0xce:
        return this.#uint32();
      case 0xcf:
        return safe(this.#bytes.readBigUInt64BE(this.#advance(8)));
      case 0xd0:
        return this.#bytes.readInt8(this.#advance(1));
      case 0xd1:
        return this.#bytes.readInt16BE(this.#advance(2));
      case 0xd2:
        return this.#bytes.readInt32BE(this.#advance(4));
      case 0xd3:
        return safe(this.#bytes.readBigInt64BE(this.#advance(8)));
      default:
        throw refuse(type === 0xc1 ? 'byte 0xc1, which MessagePack does not have' : 'an extension type');
    }
  }

  #map(length: number, depth: number): Record<string, unknown> {
    this.#enter(2 * length, depth);
    const map: Record<string, unknown> = Object.create(null);
    for (let i = 0; i < length; i++) {
      const key = this.value(depth + 1);
      if (typeof key !== 'string') throw refuse('a map key that is not a string');
      if (key in map) throw refuse(`the key ${JSON.stringify(key.slice(0, 64))} twice in one map`);
      map[key] = this.value(depth + 1);
    }
    return map;
  }

  #array(length: number, depth: number): unknown[] {
    this.#enter(length, depth);
    const array = new Array<unknown>(length);
    for (let i = 0; i < length; i++) array[i] = this.value(depth + 1);
    return array;
  }

  /** Before anything of an announced size is allocated: each value takes at least a byte. */
  #enter(values: number, depth: number): void {
    if (depth >= this.#depthMax) throw refuse(`nested deeper than ${this.#depthMax}`);
    if (values > this.#elementsLeft) throw refuse('too many values');
    if (values > this.#bytes.length - this.#at) throw refuse('cut short');
  }

  #string(length: number): string {
    const from = this.#advance(length);
    const bytes = this.#bytes;
    if (length <= SHORT_STRING) {
      let at = from;
      while (at < this.#at && (bytes[at] as number) < 0x80) at += 1;
      if (at === this.#at) return bytes.toString('latin1', from, at);
    }
    if (!isUtf8(bytes.subarray(from, this.#at))) throw refuse('a string that is not UTF-8');
    return bytes.toString('utf8', from, this.#at);
  }

  #slice(length: number): Buffer {
    const from = this.#advance(length);
    return this.#bytes.subarray(from, this.#at);
  }

  #byte(): number {
    return this.#bytes[this.#advance(1)] as number;
  }

  #uint16(): number {
    return this.#bytes.readUInt16BE(this.#advance(2));
  }

  #uint32(): number {
    return this.#bytes.readUInt32BE(this.#advance(4));
  }

  /** Where the next `length` bytes begin; they are there. */
  #advance(length: number): number {
    const from = this.#at;
    if (length > this.#bytes.length - from) throw refuse('cut short');
    this.#at = from + length;
    return from;
  }
}

function safe(integer: bigint): number {
  const number = Number(integer);
  if (!Number.isSafeInteger(number)) throw refuse('an integer over 2^53');
  return number;
}
