/** Drops nulls from callers that can't leave a parameter out, such as OpenAI's strict mode. */
import * as z from 'zod';
import { isRecord } from '../base/text/values.ts';

/** The input without null members, for parameters that are optional but do not accept null. */
export const withoutNulls = (input: unknown, schema: z.ZodType): unknown =>
  hasNull(input) ? withoutThem(input, schema) : input;

function hasNull(input: unknown): boolean {
  if (typeof input !== 'object' || input instanceof Uint8Array) return false;
  if (input === null) return true;
  if (Array.isArray(input)) return input.some(hasNull);
  for (const key in input) if (hasNull((input as Record<string, unknown>)[key])) return true;
  return false;
}

function withoutThem(input: unknown, schema: z.ZodType): unknown {
  if (Array.isArray(input)) {
    const element = elementOf(schema);
    return element ? input.map((it) => withoutThem(it, element)) : input;
  }
  if (!isRecord(input)) return input;
  const shapes = shapesOf(schema);
  if (shapes.length === 0) return input;
  const entries = Object.entries(input).flatMap(([key, value]): [string, unknown][] => {
    const members = shapes.flatMap((shape) => (Object.hasOwn(shape, key) ? [shape[key] as z.ZodType] : []));
    const [member] = members;
    if (!member) return [[key, value]];
    if (value === null && members.every((it) => it.safeParse(undefined).success && !it.safeParse(null).success))
      return [];
    return [[key, withoutThem(value, member)]];
  });
  return Object.fromEntries(entries);
}

function shapesOf(schema: z.ZodType): Record<string, unknown>[] {
  const inner = unwrap(schema);
  if (inner instanceof z.ZodObject) return [inner.shape as Record<string, unknown>];
  if (inner instanceof z.ZodUnion) return inner.options.flatMap((it) => shapesOf(it as z.ZodType));
  return [];
}

function elementOf(schema: z.ZodType): z.ZodType | undefined {
  const inner = unwrap(schema);
  if (inner instanceof z.ZodArray) return inner.element as z.ZodType;
  return inner instanceof z.ZodUnion ? inner.options.flatMap((it) => elementOf(it as z.ZodType) ?? [])[0] : undefined;
}

function unwrap(schema: z.ZodType): z.ZodType {
  if (
    schema instanceof z.ZodOptional ||
    schema instanceof z.ZodDefault ||
    schema instanceof z.ZodNullable ||
    schema instanceof z.ZodPrefault
  )
    return unwrap(schema.unwrap() as z.ZodType);
  return schema;
}
