/**
 * Names of parameters and values that agents know from other tools: accepted, but shown to no model, so that schemas
 * stay short and have one name for each thing.
 */
import * as z from 'zod';
import { jsonOr } from '../base/text/json.ts';
import { isRecord } from '../base/text/values.ts';

export interface Spellings {
  /** Maps other names of parameters to the tool's own. Names in snake_case need no entry. */
  readonly names?: Readonly<Record<string, string>>;
  /** Maps, by parameter, other words for its values to the tool's own. */
  readonly values?: Readonly<Record<string, Readonly<Record<string, string>>>>;
  /** Maps a list parameter to a function that converts its records to the tool's own form. */
  readonly items?: Readonly<Record<string, (item: Readonly<Record<string, unknown>>) => unknown>>;
  /** Parameters that hold others, which are then taken as if they stood beside them. */
  readonly opened?: readonly string[];
  /** Parameters without effect, with the warning for each. */
  readonly ignored?: Readonly<Record<string, string>>;
}

/** The spellings of a tool; those of the alias take precedence. */
export const merged = (tool: Spellings = {}, alias: Spellings = {}): Spellings => ({
  names: { ...tool.names, ...alias.names },
  values: { ...tool.values, ...alias.values },
  items: { ...tool.items, ...alias.items },
  opened: [...(tool.opened ?? []), ...(alias.opened ?? [])],
  ignored: { ...tool.ignored, ...alias.ignored },
});

/**
 * Renames the parameters of an input to those in `parameters`. If a parameter is also given under its own name, the
 * other name stays and is then refused as unknown: nobody knows which of the two is meant.
 */
export function respelled(input: unknown, parameters: object, spellings: Spellings): unknown {
  if (!isRecord(input)) return input;
  const { names = {}, values = {}, items = {}, opened = [], ignored = {} } = spellings;
  const isOwn = (key: string) => Object.hasOwn(parameters, key) && !(key in values) && !(key in items);
  if (Object.keys(input).every(isOwn)) return input;
  const taken = new Set(Object.keys(input));
  const given = Object.entries(input).flatMap(([key, value]): [string, unknown][] => {
    const inner = opened.includes(key) && !Object.hasOwn(parameters, key) && isRecord(value) && Object.entries(value);
    return inner && !inner.some(([it]) => taken.has(it)) ? inner : [[key, value]];
  });
  const entries = given.flatMap(([key, value]): [string, unknown][] => {
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

/** Texts inside texts are converted, too, this many times. */
const ROUNDS_MAX = 3;

interface Forgiving<T> {
  /** Gives the input with the tool's own names. */
  readonly rename: (input: unknown) => unknown;
  readonly parse: (input: unknown) => T;
  readonly tell: (warning: string) => void;
}

/**
 * Parses an input; numbers, lists and objects that were given as text are taken for what they say where nothing else is
 * accepted, and `tell` gets a warning for each. Throws the ZodError of the input as it was given.
 */
export function parseForgiving<T>(given: unknown, { rename, parse, tell }: Forgiving<T>): T {
  let [input, first]: [unknown, z.ZodError?] = [given];
  const told: string[] = [];
  for (let round = 0; ; round++) {
    input = rename(input);
    try {
      const parsed = parse(input);
      for (const it of told) tell(it);
      return parsed;
    } catch (error) {
      if (!(error instanceof z.ZodError)) throw error;
      first ??= error;
      const before = told.length;
      for (const issue of error.issues) {
        if (issue.code !== 'invalid_type') continue;
        const { path, expected } = issue;
        input = changedAt(input, path, (value) => {
          const meant = typeof value === 'string' ? meantBy(value, expected) : undefined;
          if (meant !== undefined) told.push(`${path.join('.')}: the text was taken as the ${expected} that it holds`);
          return meant ?? value;
        });
      }
      if (told.length === before || round === ROUNDS_MAX) throw first;
    }
  }
}

/** What a text says, as a value of a JSON type; undefined if it is none. A text alone may stand for a list of one. */
function meantBy(text: string, expected: string): unknown {
  const value = jsonOr(text, undefined);
  if (expected === 'array') return Array.isArray(value) ? value : text.trimStart().startsWith('[') ? undefined : [text];
  if (expected === 'object' || expected === 'record') return isRecord(value) ? value : undefined;
  return typeof value === (expected === 'int' ? 'number' : expected) ? value : undefined;
}

/** A copy of a value that differs at a path only. */
function changedAt(value: unknown, [key, ...rest]: readonly PropertyKey[], change: (old: unknown) => unknown): unknown {
  if (key === undefined) return change(value);
  if (Array.isArray(value)) return value.map((it: unknown, at) => (at === key ? changedAt(it, rest, change) : it));
  if (!isRecord(value) || !Object.hasOwn(value, key)) return value;
  return { ...value, [key]: changedAt(value[key as string], rest, change) };
}

/** The tool's own name for `key`, or `key` itself if it is not another name of a parameter. */
function ownName(key: string, parameters: object, names: Readonly<Record<string, string>>): string {
  const camel = key.replaceAll(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
  const candidates = [camel, ...[key, camel].flatMap((it) => (Object.hasOwn(names, it) ? (names[it] ?? []) : []))];
  return candidates.find((it) => Object.hasOwn(parameters, it)) ?? key;
}
