/** Functions on values of unknown shape: JSON from others, input and results of tools. */
import { createHash } from 'node:crypto';

/** Whether the value is an object with named members; not an array, not bytes. */
export const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof Uint8Array);

/** The members of these names that are not undefined, in this order. */
export function picked<T extends object, K extends keyof T>(of: T, names: readonly K[]): Pick<T, K> {
  return Object.fromEntries(names.flatMap((it) => (of[it] === undefined ? [] : [[it, of[it]]]))) as Pick<T, K>;
}

/**
 * JSON with sorted keys and without undefined members. Values without a JSON form are written without quotes, so that
 * no string can equal them. Throws TypeError for functions, symbols and other kinds of objects, which can't be
 * compared.
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

/** A copy of plain data with each text replaced, names of members too. */
export function mapTexts(value: unknown, map: (text: string) => string): unknown {
  if (typeof value === 'string') return map(value);
  if (Array.isArray(value)) return value.map((it) => mapTexts(it, map));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, it]) => [map(key), mapTexts(it, map)]));
}
