/**
 * MessagePack of the client, by msgpackr. The daemon reads what strangers send with a codec of its own; a client trusts
 * its daemon. test/programs/client/message-codec.test.ts holds the two to the same values.
 */
import { Packr } from 'msgpackr/pack';
import { RpcError } from '../base/errors.ts';
import type { Codec } from '../wire/protocol/peer.ts';

// Maps, since msgpackr calls or renames some members of objects: `toJSON`, `constructor`, `__proto__`.
const packr = new Packr({ useRecords: false, mapsAsObjects: false, int64AsType: 'auto' });

/** Deepest nesting of a message, which also catches cycles; the daemon accepts less. */
const DEPTH_MAX = 256;

export const messageCodec: Codec = {
  /** Undefined members are omitted, undefined items become null. Throws TypeError for what has no plain form. */
  encode: (message) => packr.pack(toPackable(message, 0)),

  /** Throws RpcError PARSE for anything but one plain message. */
  decode(payload) {
    try {
      return toPlain(packr.unpack(payload), 0);
    } catch (error) {
      throw new RpcError('PARSE', `not an acceptable message: ${(error as Error).message}`);
    }
  },
};

function toPackable(value: unknown, depth: number): unknown {
  if (typeof value === 'string') return value.toWellFormed();
  if (typeof value === 'number' || typeof value === 'boolean') return value;
  if (value === undefined || value === null) return null;
  if (typeof value !== 'object') throw new TypeError(`a ${typeof value} can't be part of a message`);
  if (depth === DEPTH_MAX) throw new RangeError(`a message is nested over ${DEPTH_MAX} levels deep`);
  if (Array.isArray(value)) return Array.from(value, (it) => toPackable(it, depth + 1));
  if (value instanceof Uint8Array) return Buffer.from(value.buffer, value.byteOffset, value.length);
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype !== Object.prototype && prototype !== null)
    throw new TypeError(`a ${value.constructor?.name ?? 'class instance'} can't be part of a message`);
  const map = new Map<string, unknown>();
  for (const [key, member] of Object.entries(value))
    if (member !== undefined) map.set(key.toWellFormed(), toPackable(member, depth + 1));
  return map;
}

/** Maps become objects without a prototype, so that no key has a special meaning. */
function toPlain(value: unknown, depth: number): unknown {
  if (typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean') return value;
  if (value === null) return value;
  if (Buffer.isBuffer(value)) return value;
  if (depth === DEPTH_MAX) throw new RangeError(`nested over ${DEPTH_MAX} levels deep`);
  if (Array.isArray(value)) return value.map((it) => toPlain(it, depth + 1));
  if (!(value instanceof Map)) throw new TypeError(`${Object.prototype.toString.call(value)} is not plain`);
  const fields = Object.create(null) as Record<string, unknown>;
  for (const [key, member] of value as Map<unknown, unknown>) {
    if (typeof key !== 'string') throw new TypeError('a key of a map is not a string');
    fields[key] = toPlain(member, depth + 1);
  }
  return fields;
}
