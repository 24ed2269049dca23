/**
 * Names of parameters and values that agents know from other tools: accepted, but shown to no model, so that schemas
 * stay short and have one name for each thing.
 */
import { isRecord } from '../text/values.ts';

export interface Spellings {
  /** Maps other names of parameters to the tool's own. Names in snake_case need no entry. */
  readonly names?: Readonly<Record<string, string>>;
  /** Maps, by parameter, other words for its values to the tool's own. */
  readonly values?: Readonly<Record<string, Readonly<Record<string, string>>>>;
  /** Maps a list parameter to a function that converts its records to the tool's own form. */
  readonly items?: Readonly<Record<string, (item: Readonly<Record<string, unknown>>) => unknown>>;
  /** Parameters without effect, with the warning for each. */
  readonly ignored?: Readonly<Record<string, string>>;
}

/** The spellings of a tool; those of the alias take precedence. */
export const merged = (tool: Spellings = {}, alias: Spellings = {}): Spellings => ({
  names: { ...tool.names, ...alias.names },
  values: { ...tool.values, ...alias.values },
  items: { ...tool.items, ...alias.items },
  ignored: { ...tool.ignored, ...alias.ignored },
});

/**
 * Renames the parameters of an input to those in `parameters`. If a parameter is also given under its own name, the
 * other name stays and is then refused as unknown: nobody knows which of the two is meant.
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

/** Warnings about the parameters of the input that have no effect. */
export const toldOf = (input: unknown, { ignored = {} }: Spellings): string[] =>
  isRecord(input) ? Object.keys(ignored).flatMap((key) => (Object.hasOwn(input, key) ? (ignored[key] ?? []) : [])) : [];

/** The tool's own name for `key`, or `key` itself if it is not another name of a parameter. */
function ownName(key: string, parameters: object, names: Readonly<Record<string, string>>): string {
  const camel = key.replaceAll(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
  const candidates = [camel, ...[key, camel].flatMap((it) => (Object.hasOwn(names, it) ? (names[it] ?? []) : []))];
  return candidates.find((it) => Object.hasOwn(parameters, it)) ?? key;
}
