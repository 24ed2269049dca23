/** Whether a value is as a test expects it, and where it is not. */
import { AssertionError } from 'node:assert';
import { inspect, isDeepStrictEqual } from 'node:util';

/** Characters of a value that a message shows. */
const SHOWN_CHARS = 400;

/** A value as a message shows it: cut where it is long. */
export function shown(value: unknown): string {
  const text = inspect(value, { depth: 6, breakLength: 120 });
  return text.length > SHOWN_CHARS ? `${text.slice(0, SHOWN_CHARS)}…` : text;
}

/** Throws an AssertionError, which test runners show with both values. */
export function fail(message: string, values: { actual?: unknown; expected?: unknown } = {}): never {
  throw new AssertionError({ message, ...values, operator: 'ringfence/testing' });
}

/**
 * The first place at which `actual` lacks something of `expected`: objects may have further members, lists have the
 * same length. Undefined if it lacks nothing.
 */
export function differenceOf(actual: unknown, expected: unknown, path = ''): string | undefined {
  const at = path === '' ? 'the value' : path;
  if (Array.isArray(expected)) {
    if (!Array.isArray(actual)) return `${at} is ${shown(actual)}, not a list`;
    if (actual.length !== expected.length) return `${at} has ${actual.length} items, not ${expected.length}`;
    return expected.map((it, i) => differenceOf(actual[i], it, `${path}[${i}]`)).find((it) => it !== undefined);
  }
  if (isPlain(expected)) {
    if (typeof actual !== 'object' || actual === null) return `${at} is ${shown(actual)}, not ${shown(expected)}`;
    return Object.entries(expected)
      .map(([key, it]) => differenceOf((actual as Record<string, unknown>)[key], it, `${path}.${key}`))
      .find((it) => it !== undefined);
  }
  return isDeepStrictEqual(actual, expected) ? undefined : `${at} is ${shown(actual)}, not ${shown(expected)}`;
}

const isPlain = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && [Object.prototype, null].includes(Object.getPrototypeOf(value));
