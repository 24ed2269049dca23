/**
 * Checks the patterns of input schemas. An agent chooses the texts that they are compared with, so a pattern has to take
 * linear time: JavaScript's own expressions may take forever.
 */
import { createRequire } from 'node:module';
import type * as Re2 from 're2js';
import type * as z from 'zod';
import type { Limits } from '../../base/limits.ts';
import { isRecord } from '../../base/text/values.ts';
import { type JsonSchema, toZodSchema } from '../pinned/json-schema.ts';

type PatternLimits = Pick<Limits, 'connectorPatternCharsMax'>;

/** Why a value is refused, and the names and positions that lead to it. */
export interface Mismatch {
  readonly path: readonly (string | number)[];
  readonly message: string;
}

type Check = (value: unknown) => Mismatch | undefined;

/** The package, loaded with the first pattern: most daemons have none, and it takes 7 MB. */
function re2(): typeof Re2 {
  loaded ??= createRequire(import.meta.url)('re2js') as typeof Re2;
  return loaded;
}
let loaded: typeof Re2 | undefined;

/** Why a pattern can't be checked; undefined if it can. */
export function patternProblem(pattern: string): string | undefined {
  try {
    compile(pattern);
    return undefined;
  } catch (error) {
    return `can't be checked in linear time: ${(error as Error).message}`;
  }
}

const compile = (pattern: string) => re2().RE2JS.compile(re2().RE2JS.translateRegExp(pattern));

/** All patterns within a schema. */
export function patternsIn({
  pattern,
  items,
  properties = {},
  additionalProperties,
  anyOf = [],
}: JsonSchema): string[] {
  const below = [...(items ? [items] : []), ...Object.values(properties), ...anyOf];
  if (typeof additionalProperties === 'object') below.push(additionalProperties);
  return [...(pattern === undefined ? [] : [pattern]), ...below.flatMap(patternsIn)];
}

/** The check of all patterns within a schema, for values that fit it otherwise; undefined if it has none. Throws for a pattern that can't be checked. */
export function patternCheck(schema: JsonSchema, limits: PatternLimits): Check | undefined {
  if (patternsIn(schema).length === 0) return undefined;
  const { pattern, items, properties = {}, additionalProperties, anyOf } = schema;
  const ofText = pattern === undefined ? undefined : textCheck(pattern, limits);
  const ofItem = items && patternCheck(items, limits);
  const ofMember = new Map(
    Object.entries(properties).flatMap(([name, it]) => {
      const check = patternCheck(it, limits);
      return check ? [[name, check] as const] : [];
    }),
  );
  const ofOther = typeof additionalProperties === 'object' ? patternCheck(additionalProperties, limits) : undefined;
  const ofAny = anyOf && alternativesCheck(anyOf, limits);
  return (value) => {
    if (typeof value === 'string') return ofText?.(value) ?? ofAny?.(value);
    if (Array.isArray(value)) return firstOf(value.entries(), () => ofItem) ?? ofAny?.(value);
    if (!isRecord(value)) return undefined;
    const checkOf = (name: string) => ofMember.get(name) ?? (Object.hasOwn(properties, name) ? undefined : ofOther);
    return firstOf(Object.entries(value), checkOf) ?? ofAny?.(value);
  };
}

/** The first mismatch among the parts of a value. */
function firstOf<Name extends string | number>(
  parts: Iterable<[Name, unknown]>,
  checkOf: (name: Name) => Check | undefined,
): Mismatch | undefined {
  for (const [name, it] of parts) {
    const found = checkOf(name)?.(it);
    if (found) return { ...found, path: [name, ...found.path] };
  }
  return undefined;
}

function textCheck(pattern: string, { connectorPatternCharsMax: max }: PatternLimits): Check {
  const compiled = compile(pattern);
  return (value) => {
    const text = value as string;
    if (text.length > max)
      return { path: [], message: `has more than ${max} characters, the most that a pattern is compared with` };
    return compiled.matcher(text).find() ? undefined : { path: [], message: `must match ${pattern}` };
  };
}

/** A value has to fit one of the alternatives with its patterns. */
function alternativesCheck(anyOf: readonly JsonSchema[], limits: PatternLimits): Check {
  const all = anyOf.map((it) => ({ schema: toZodSchema(it), check: patternCheck(it, limits) }));
  return (value) => {
    let first: Mismatch | undefined;
    for (const { schema, check } of all) {
      if (!schema.safeParse(value).success) continue;
      const found = check?.(value);
      if (!found) return undefined;
      first ??= found;
    }
    return first;
  };
}

/** The input with the check of the patterns of its parameters. */
export function withPatterns(
  input: z.ZodObject,
  schemas: Readonly<Record<string, JsonSchema>>,
  limits: PatternLimits,
): z.ZodObject {
  const check = patternCheck({ type: 'object', properties: schemas }, limits);
  if (!check) return input;
  return input.superRefine((value, context) => {
    const found = check(value);
    if (found) context.addIssue({ code: 'custom', path: [...found.path], message: found.message });
  });
}
