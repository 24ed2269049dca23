/**
 * References of a batch: `${id.path}` in the input of one call stands for a part of another's result. They are looked for
 * in what the caller wrote, once: a value that came from a tool is never read for references.
 */
import { parsePath } from 'dot-prop';
import { ToolError } from '../errors.ts';
import { isRecord } from '../values.ts';
import { measure } from './measure.ts';

/** `$` before it makes it plain text: `$${a.b}` is `${a.b}`. */
const REFERENCE = /\$?\$\{([^\s.${}[\]]{1,128})\.([^{}]{1,1024})\}/g;
const WHOLE = /^\$\{([^\s.${}[\]]{1,128})\.([^{}]{1,1024})\}$/;

/** Where a referenced value is looked for; undefined for a call that has no result to give. */
export type Lookup = (id: string) => unknown;

export interface ReferenceBounds {
  /** Bytes that the resolved input may have, about. */
  readonly bytesMax: number;
}

/** Ids of the calls that an input refers to, each once. */
export function referencedIds(input: unknown): Set<string> {
  const ids = new Set<string>();
  replaceStrings(input, (text) => {
    for (const [whole, id] of text.matchAll(REFERENCE)) if (!whole.startsWith('$$')) ids.add(id as string);
    return text;
  });
  return ids;
}

/** How many references an input holds, escaped ones too, each of which costs a look; counted no further than `max` + 1. */
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
 * The input with its references replaced: typed where a string is nothing else, as text inside a longer one. Throws
 * REFERENCE_UNRESOLVED for a path that is not there, INPUT_INVALID where the values together are too large.
 */
export function resolveReferences(input: unknown, lookup: Lookup, { bytesMax }: ReferenceBounds): unknown {
  let bytes = 0;
  const spend = (size: number) => {
    bytes += size;
    if (bytes <= bytesMax) return;
    throw new ToolError('INPUT_INVALID', `what the references of this call stand for is over ${bytesMax} bytes`, {
      layer: 'validate',
      suggestion: 'Refer to smaller parts, or write to a file and name that.',
      details: { limit: bytesMax },
    });
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

/** A part of a result by a dotted, indexed path; without `data` in front it is looked for there too. */
function valueAt(result: unknown, id: string, path: string): unknown {
  const unresolved = () =>
    new ToolError('REFERENCE_UNRESOLVED', `\`\${${id}.${path}}\`: the result of \`${id}\` has nothing there`, {
      layer: 'validate',
      suggestion: `A path starts in the result: \`\${${id}.data.…}\`, with [0] for the first of a list.`,
      details: { id, path },
    });
  const keys = keysOf(path);
  if (!keys) throw unresolved();
  const found = walk(result, keys);
  if (found !== undefined) return found; // Null is a value, too.
  const inData = isRecord(result) ? walk(result.data, keys) : undefined;
  if (inData === undefined) throw unresolved();
  return inData;
}

/** Undefined for what is no path: a bracket without an end, or a key such as `__proto__`, which the library refuses. */
function keysOf(path: string): (string | number)[] | undefined {
  try {
    const keys = parsePath(path);
    return keys.length === 0 ? undefined : keys;
  } catch {
    return undefined; // Its complaint names a position; the path itself says more.
  }
}

function walk(from: unknown, keys: readonly (string | number)[]): unknown {
  let at = from;
  for (const key of keys) {
    // Own members only: a list has no `length` here, nor an object a `constructor`.
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

/** A copy with each string replaced; keys stay as they are. */
function replaceStrings(value: unknown, replace: (text: string) => unknown): unknown {
  if (typeof value === 'string') return replace(value);
  if (Array.isArray(value)) return value.map((it) => replaceStrings(it, replace));
  if (!isRecord(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([key, it]) => [key, replaceStrings(it, replace)]));
}
