/**
 * JSON Schema for model providers: the subset that all of them accept, and the narrower dialect of OpenAI's strict
 * mode (every property required, optional ones nullable, no maps).
 */

import { isRecord } from '../base/text/values.ts';
import { RARE } from './rare-parameters.ts';

export interface JsonSchema {
  readonly [keyword: string]: unknown;
}

/** Keywords that some provider refuses or misreads, and bounds that only make a prompt longer; the daemon checks all of them anyway. */
const DROPPED = new Set([
  ...['$schema', '$id', '$anchor', '$comment', 'propertyNames', 'patternProperties', 'unevaluatedProperties'],
  ...['minProperties', 'maxProperties', 'uniqueItems', 'contains', 'not', 'if', 'then', 'else', 'dependentRequired'],
  ...['minLength', 'maxLength', 'maxItems'],
]);

/** Reduces a schema to the subset that every provider accepts. */
export function toPortable(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(toPortable);
  if (!isRecord(schema)) return schema;
  const entries = Object.entries(schema).flatMap(([keyword, value]): [string, unknown][] => {
    if (DROPPED.has(keyword)) return [];
    if (keyword === 'properties') return [[keyword, mapValues(value as JsonSchema, toPortable)]];
    if (keyword === 'enum' || keyword === 'const' || keyword === 'default' || keyword === 'required')
      return [[keyword, value]];
    // Bounds of JavaScript's safe integers say nothing.
    if ((keyword === 'maximum' || keyword === 'minimum') && Math.abs(value as number) >= Number.MAX_SAFE_INTEGER)
      return [];
    return [[keyword === 'oneOf' ? 'anyOf' : keyword, toPortable(value)]];
  });
  return Object.fromEntries(entries);
}

/**
 * Shortens the schema of one of our own tools for models: the daemon checks and reports every bound, switches are off
 * by default, and parameters that few calls need are in the reference.
 */
export function toShort(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(toShort);
  if (!isRecord(schema)) return schema;
  const entries = Object.entries(schema).flatMap(([keyword, value]): [string, unknown][] => {
    if (CHECKED.has(keyword) || (keyword === 'default' && isNothing(value))) return [];
    if (keyword !== 'properties') return [[keyword, LITERALS.has(keyword) ? value : toShort(value)]];
    const shown = Object.entries(value as JsonSchema).filter(([, it]) => !isRecord(it) || it[RARE] !== true);
    return [[keyword, mapValues(Object.fromEntries(shown), toShort)]];
  });
  return Object.fromEntries(entries);
}

const CHECKED = new Set(['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum', 'pattern', 'minItems']);
const isNothing = (value: unknown): boolean =>
  value === false || (typeof value === 'object' && value !== null && Object.keys(value).length === 0);

/** A portable schema in OpenAI's strict dialect; undefined if the dialect can't express it: objects with arbitrary keys. */
export function toStrict(schema: unknown): JsonSchema | undefined {
  try {
    return toStrictSchema(schema) as JsonSchema;
  } catch (error) {
    if (error === NOT_STRICT) return undefined;
    throw error;
  }
}

const NOT_STRICT = new Error('this schema can not be strict');

function toStrictSchema(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(toStrictSchema);
  if (!isRecord(schema)) return schema;
  const { default: byDefault, properties, ...rest } = schema;
  if (Object.keys(rest).length === 0 && properties === undefined) throw NOT_STRICT;
  const description = [rest.description, byDefault !== undefined && `Default: ${JSON.stringify(byDefault)}.`];
  const described = { ...rest, ...(byDefault !== undefined && { description: description.filter(Boolean).join(' ') }) };
  if (rest.type !== 'object')
    return mapValues(
      described,
      (value) => (isRecord(value) || Array.isArray(value) ? toStrictSchema(value) : value),
      LITERALS,
    );
  if (rest.additionalProperties !== false) throw NOT_STRICT;
  const required = new Set((rest.required ?? []) as string[]);
  const all = Object.entries((properties ?? {}) as JsonSchema).map(([name, value]) => [
    name,
    required.has(name) ? toStrictSchema(value) : nullable(toStrictSchema(value) as JsonSchema),
  ]);
  return { ...described, properties: Object.fromEntries(all), required: all.map(([name]) => name) };
}

const LITERALS = new Set(['enum', 'const', 'type', 'required']);

function nullable(schema: JsonSchema): JsonSchema {
  const { type, enum: values } = schema;
  if (typeof type !== 'string') return { anyOf: [schema, { type: 'null' }] };
  return { ...schema, type: [type, 'null'], ...(Array.isArray(values) && { enum: [...(values as unknown[]), null] }) };
}

const mapValues = (it: JsonSchema, map: (value: unknown) => unknown, except = new Set<string>()): JsonSchema =>
  Object.fromEntries(Object.entries(it).map(([key, value]) => [key, except.has(key) ? value : map(value)]));
