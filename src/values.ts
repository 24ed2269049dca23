/** Questions about values of unknown shape: JSON that others wrote, input and results of tools. */
import { createHash } from 'node:crypto';

/** Whether it is an object with named members: no array, and no bytes. */
export const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof Uint8Array);

/**
 * JSON with sorted keys and without undefined ones. Values that JSON has no form for are written bare, so that no
 * string can look like them. Throws TypeError for functions, symbols and objects of other kinds, which can't be compared.
 */
export function canonical(value: unknown): string {
  switch (typeof value) {
    case 'string':
    case 'boolean':
      return JSON.stringify(value);
    case 'number':
      return Object.is(value, -0) ? '-0' : String(value);
    case 'bigint':
      return `${value}n`;
    case 'undefined':
      return 'undefined';
    case 'object':
      return value === null ? 'null' : canonicalObject(value);
    default:
      throw new TypeError(`a ${typeof value} has no canonical form`);
  }
}

function canonicalObject(value: object): string {
  if (Array.isArray(value)) return `[${Array.from(value, canonical).join(',')}]`;
  if (value instanceof Uint8Array) return `bytes(${createHash('sha256').update(value).digest('hex')})`;
  if (value instanceof Date) return `date(${value.getTime()})`;
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype !== Object.prototype && prototype !== null) throw new TypeError('this object has no canonical form');
  const entries = Object.entries(value)
    .filter(([, it]) => it !== undefined)
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([key, it]) => `${JSON.stringify(key)}:${canonical(it)}`);
  return `{${entries.join(',')}}`;
}
