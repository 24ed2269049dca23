/**
 * Parameters and values under the names that agents know from other tools: accepted, but shown to no model, so that the
 * schemas stay short and each thing has one name in them.
 */
import { isRecord } from '../values.ts';

export interface Spellings {
  /** The tool's own name of a parameter by another one. Names in snake_case need no entry. */
  readonly names?: Readonly<Record<string, string>>;
  /** The tool's own words for the values of a parameter, by parameter and by another word. */
  readonly values?: Readonly<Record<string, Readonly<Record<string, string>>>>;
  /** The tool's own form of each record in a list, by parameter. */
  readonly items?: Readonly<Record<string, (item: Readonly<Record<string, unknown>>) => unknown>>;
  /** Parameters that change nothing here, with what the caller is told of each. */
  readonly ignored?: Readonly<Record<string, string>>;
}

/** The spellings of a tool and, before them, those of one of its aliases. */
export const merged = (tool: Spellings = {}, alias: Spellings = {}): Spellings => ({
  names: { ...tool.names, ...alias.names },
  values: { ...tool.values, ...alias.values },
  items: { ...tool.items, ...alias.items },
  ignored: { ...tool.ignored, ...alias.ignored },
});

/**
 * The input under the names that `parameters` has. A parameter that is there under its own name too keeps its other name,
 * which is then refused as unknown: which of the two is meant nobody knows.
 */
export function respelled(input: unknown, parameters: object, spellings: Spellings): unknown {
  if (!isRecord(input)) return input;
  const { names = {}, values = {}, items = {}, ignored = {} } = spellings;
  const taken = new Set(Object.keys(input));
  const entries = Object.entries(input).flatMap(([key, value]): [string, unknown][] => {
    const known = Object.hasOwn(parameters, key);
    if (!known && Object.hasOwn(ignored, key)) return [];
    const own = known ? key : ownName(key, parameters, names);
    if (own !== key && taken.has(own)) return [[key, value]];
    taken.add(own);
    const toItem = Object.hasOwn(items, own) ? items[own] : undefined;
    if (toItem && Array.isArray(value)) return [[own, value.map((it: unknown) => (isRecord(it) ? toItem(it) : it))]];
    const words = Object.hasOwn(values, own) ? values[own] : undefined;
    return [[own, words && typeof value === 'string' && Object.hasOwn(words, value) ? words[value] : value]];
  });
  return Object.fromEntries(entries);
}

/** What the caller is told of parameters that change nothing. */
export const toldOf = (input: unknown, { ignored = {} }: Spellings): string[] =>
  isRecord(input) ? Object.keys(ignored).flatMap((key) => (Object.hasOwn(input, key) ? (ignored[key] ?? []) : [])) : [];

/** `key` itself where it is no other name of any parameter. */
function ownName(key: string, parameters: object, names: Readonly<Record<string, string>>): string {
  const camel = key.replaceAll(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
  const candidates = [camel, ...[key, camel].flatMap((it) => (Object.hasOwn(names, it) ? (names[it] ?? []) : []))];
  return candidates.find((it) => Object.hasOwn(parameters, it)) ?? key;
}
