import { describe, expect, test } from 'vitest';
import * as z from 'zod';
import { withoutNulls } from '../../../src/tools/nulls.ts';
import { toPortable, toShort, toStrict } from '../../../src/tools/portable.ts';
import { rare } from '../../../src/tools/rare-parameters.ts';
import { builtinToolset, toFormat, toolsOf, toToolInfo } from '../../../src/tools/registry.ts';

const tools = toolsOf(builtinToolset());
const formatted = (format: 'mcp' | 'openai' | 'anthropic') =>
  tools.map((it) => toFormat(toToolInfo(it, 'allow'), format));
/** Every keyword of a schema, at any depth. */
function keywords(schema: unknown, isProperties = false): string[] {
  if (Array.isArray(schema)) return schema.flatMap((it) => keywords(it));
  if (typeof schema !== 'object' || schema === null) return [];
  return Object.entries(schema).flatMap(([key, value]) => [
    ...(isProperties ? [] : [key]),
    ...(['enum', 'const', 'default', 'required'].includes(key) && !isProperties
      ? []
      : keywords(value, key === 'properties' && !isProperties)),
  ]);
}

describe.each(['mcp', 'openai', 'anthropic'] as const)('every tool for %s', (format) => {
  test('the schema of every tool has no keyword that a provider refuses', () => {
    const refused = [
      'allOf',
      'oneOf',
      'not',
      'if',
      'patternProperties',
      'propertyNames',
      'prefixItems',
      'uniqueItems',
      '$ref',
    ];
    for (const it of formatted(format)) expect(keywords(it).filter((key) => refused.includes(key))).toEqual([]);
  });
});

test('every tool shows the parameters that a call must have', () => {
  for (const { name, inputSchema } of formatted('mcp') as { name: string; inputSchema: Record<string, object> }[]) {
    const shown = Object.keys(inputSchema.properties as object);
    expect([name, ((inputSchema.required ?? []) as string[]).filter((it) => !shown.includes(it))]).toEqual([name, []]);
  }
});

test('every strict tool for OpenAI requires each of its parameters and has no defaults', () => {
  const strict = (formatted('openai') as { name: string; strict: boolean; parameters: object }[]).filter(
    (it) => it.strict,
  );
  expect(strict.length).toBeGreaterThan(0);
  const check = (schema: unknown): void => {
    if (Array.isArray(schema)) return schema.forEach(check);
    if (typeof schema !== 'object' || schema === null) return;
    const { properties, required, additionalProperties, default: byDefault } = schema as Record<string, unknown>;
    expect(byDefault).toBeUndefined();
    if (properties) {
      expect(additionalProperties).toBe(false);
      expect(new Set(required as string[])).toEqual(new Set(Object.keys(properties)));
      Object.values(properties).forEach(check);
    }
    const { items, anyOf } = schema as Record<string, unknown>;
    check(items);
    check(anyOf);
  };
  for (const { parameters } of strict) check(parameters);
});

test('an object with keys of the caller has no strict form', () => {
  expect(
    toStrict(toPortable(z.toJSONSchema(z.strictObject({ env: z.record(z.string(), z.string()) })))),
  ).toBeUndefined();
});

test('an optional field becomes nullable, and its description names its default', () => {
  const schema = z.strictObject({
    a: z.enum(['x', 'y']).default('x').describe('One of two.'),
    b: z.string().optional(),
  });
  expect(toStrict(toPortable(z.toJSONSchema(schema, { io: 'input' })))).toEqual({
    type: 'object',
    additionalProperties: false,
    properties: {
      a: { type: ['string', 'null'], enum: ['x', 'y', null], description: 'One of two. Default: "x".' },
      b: { type: ['string', 'null'] },
    },
    required: ['a', 'b'],
  });
});

describe('nulls', () => {
  const operation = z.discriminatedUnion('type', [
    z.strictObject({ type: z.literal('a'), all: z.boolean().optional() }),
    z.strictObject({ type: z.literal('b'), nothing: z.null() }),
  ]);
  const schema = z.strictObject({
    path: z.string(),
    max: z.int().default(3),
    operations: z.array(operation).optional(),
    data: z.unknown(),
    either: z.string().nullable().optional(),
  });

  test('stand for what is left out, also in what a list holds', () => {
    const input = {
      path: 'x',
      max: null,
      operations: [
        { type: 'a', all: null },
        { type: 'b', nothing: null },
      ],
    };
    expect(withoutNulls(input, schema)).toEqual({
      path: 'x',
      operations: [{ type: 'a' }, { type: 'b', nothing: null }],
    });
  });

  test('stay where they mean something, or are a mistake', () => {
    const input = { path: null, data: null, either: null, other: null };
    expect(withoutNulls(input, schema)).toEqual(input);
  });
});

test('the default toolset stays within 25 tools and 24 KB in every format', () => {
  const listed = tools.filter((it) => !it.isExtra);
  expect(listed.length).toBeLessThanOrEqual(25);
  for (const format of ['mcp', 'openai', 'anthropic'] as const)
    expect(JSON.stringify(listed.map((it) => toFormat(toToolInfo(it, 'allow'), format))).length).toBeLessThan(24_000);
});

test('a model is not shown what the daemon checks, switches that are off, and parameters that few calls need', () => {
  const schema = z.toJSONSchema(
    z.strictObject({
      pattern: z.string().regex(/^a/).default('a'),
      lines: z.int().min(1).max(9).optional(),
      all: z.boolean().default(false),
      each: z.array(z.strictObject({ odd: rare(z.boolean().default(true).describe('Rarely.')) })).default([]),
      shell: rare(z.string().optional()),
    }),
    { io: 'input' },
  );
  expect(toPortable(toShort(schema))).toEqual({
    type: 'object',
    properties: {
      pattern: { type: 'string', default: 'a' },
      lines: { type: 'integer' },
      all: { type: 'boolean' },
      each: { type: 'array', items: { type: 'object', properties: {}, additionalProperties: false } },
    },
    additionalProperties: false,
  });
});

test('parameters that few calls need are accepted, and told where all of a tool is told', () => {
  const input = { path: 'a', maxLines: 3, encoding: 'base64' };
  expect(builtinToolset().get('file_read')?.parse(input)).toMatchObject(input);
  const info = toToolInfo(tools.find((it) => it.name === 'file_read') as (typeof tools)[number], 'allow');
  const named = (schema: object) => Object.keys((schema as { properties: object }).properties);
  expect(named(info.inputSchema)).toContain('maxLines');
  expect(named((toFormat(info, 'mcp') as { inputSchema: object }).inputSchema)).toEqual([
    ...['path', 'startLine', 'endLine', 'details'],
  ]);
});

test("a provider's schema keeps its bounds: nobody here checks them", () => {
  const inputSchema = { type: 'object', properties: { n: { type: 'integer', minimum: 1, default: false } } };
  const [tool] = tools;
  const info = { ...toToolInfo(tool as (typeof tools)[number], 'allow'), name: 'fix__numbered', inputSchema };
  expect(toFormat(info, 'mcp')).toMatchObject({ inputSchema });
});
