/**
 * Resolves the references of a batch: `${id.path}` in the input of one call stands for a part of another call's
 * result. Only the caller's own text is searched, once: a value that came from a tool is never searched for
 * references.
 */
import { parsePath } from 'dot-prop';
import { ToolError } from '../../base/errors.ts';
import { isRecord } from '../../base/text/values.ts';
import { measure } from '../message-size.ts';

/** A second `$` escapes a reference: `$${a.b}` is the text `${a.b}`. */
const REFERENCE = /\$?\$\{([^\s.${}[\]]{1,128})\.([^{}]{1,1024})\}/g;
const WHOLE = /^\$\{([^\s.${}[\]]{1,128})\.([^{}]{1,1024})\}$/;

/** Gives the result of a call; undefined if the call has none. */
export type ResultLookup = (id: string) => unknown;

export interface ReferenceBounds {
  /** Approximate bytes that the resolved values may have in all. */
  readonly bytesMax: number;
}

/** The distinct ids of the calls that an input refers to. */
export function referencedIds(input: unknown): Set<string> {
  const ids = new Set<string>();
  replaceStrings(input, (text) => {
    for (const [reference, id] of text.matchAll(REFERENCE)) if (!reference.startsWith('$$')) ids.add(id as string);
    return text;
  });
  return ids;
}

/** How many references an input holds; escaped ones count, since each costs a look. Counts no further than `max` + 1. */
export function countReferences(input: unknown, max: number): number {
  let count = 0;
  const look = (value: unknown): void => {
    if (count > max) return;
    if (typeof value === 'string') {
      if (!value.includes('${')) return;
      for (const _ of value.matchAll(REFERENCE)) if (++count > max) return;
    } else if (Array.isArray(value)) value.forEach(look);
    else if (isRecord(value)) Object.values(value).forEach(look);
  };
  look(input);
  return count;
}

/**
 * Replaces the references of an input: by the value itself if a string is nothing but a reference, by text inside a
 * longer string. Throws REFERENCE_UNRESOLVED for a path that does not exist, INPUT_INVALID if the values together are
 * too large.
 */
export function resolveReferences(input: unknown, lookup: ResultLookup, { bytesMax }: ReferenceBounds): unknown {
  let bytes = 0;
  const spend = (size: number) => {
    bytes += size;
    if (bytes <= bytesMax) return;
    throw new ToolError(
      'INPUT_INVALID',
      `the values that the references of this call insert exceed ${bytesMax} bytes`,
      {
        layer: 'validate',
        suggestion: 'Refer to smaller parts, or write to a file and pass its path.',
        details: { limit: bytesMax },
      },
    );
  };
  const partOf = (id: string, path: string) => {
    const value = valueAt(lookup(id), id, path);
    spend(measure(value).bytes);
    return value;
  };
  return replaceStrings(input, (text) => {
    const [, id, path] = WHOLE.exec(text) ?? [];
    if (id !== undefined && path !== undefined) return partOf(id, path);
    return text.replace(REFERENCE, (whole, inner: string, at: string) =>
      whole.startsWith('$$') ? whole.slice(1) : toText(partOf(inner, at)),
    );
  });
}

/** The part of a result at a dotted, indexed path; a path that is not found in the result is looked for in its `data`. */
function valueAt(result: unknown, id: string, path: string): unknown {
  const unresolved = () =>
    new ToolError('REFERENCE_UNRESOLVED', `\`\${${id}.${path}}\`: the result of \`${id}\` has nothing there`, {
      layer: 'validate',
      suggestion: `Start the path at the result: \`\${${id}.data.…}\`, with [0] for the first item of a list.`,
      details: { id, path },
    });
  const keys = keysOf(path);
  if (!keys) throw unresolved();
  const found = walk(result, keys);
  if (found !== undefined) return found; // Null is a value.
  const inData = isRecord(result) ? walk(result.data, keys) : undefined;
  if (inData === undefined) throw unresolved();
  return inData;
}

/** The keys of a path; undefined for an invalid one: an unclosed bracket, or a key such as `__proto__`, which the library refuses. */
function keysOf(path: string): (string | number)[] | undefined {
  try {
    const keys = parsePath(path);
    return keys.length === 0 ? undefined : keys;
  } catch {
    return undefined; // The library's message names only a position; ours shows the path.
  }
}

function walk(from: unknown, keys: readonly (string | number)[]): unknown {
  let at = from;
  for (const key of keys) {
    // Own members only: `length` of a list and `constructor` of an object are not found.
    if (Array.isArray(at)) at = typeof key === 'number' ? at[key] : undefined;
    else if (isRecord(at) && Object.hasOwn(at, key)) at = at[key];
    else return undefined;
  }
  return at;
}

function toText(value: unknown): string {
  if (typeof value === 'string') return value;
  if (value instanceof Uint8Array) return Buffer.from(value).toString('utf8');
  return JSON.stringify(value);
}

/** A copy of the value with each string replaced; keys stay. */
function replaceStrings(value: unknown, replace: (text: string) => unknown): unknown {
  if (typeof value === 'string') return replace(value);
  if (Array.isArray(value)) return value.map((it) => replaceStrings(it, replace));
  if (!isRecord(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([key, it]) => [key, replaceStrings(it, replace)]));
}
