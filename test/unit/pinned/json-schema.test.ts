import { describe, expect, test } from 'vitest';
import { jsonSchema, type ObjectSchema, objectSchema, toZod } from '../../../src/services/pinned/json-schema.ts';

const zodOf = (properties: object, required: string[] = []) =>
  toZod(objectSchema.parse({ type: 'object', properties, required }) as ObjectSchema);

describe('a schema as the gateway checks by it', () => {
  test('knows what must be there, what may be, and what is taken instead', () => {
    const schema = zodOf({ a: { type: 'string', maxLength: 2 }, n: { type: 'integer', default: 7 } }, ['a']);
    expect(schema.parse({ a: 'ab' })).toEqual({ a: 'ab', n: 7 });
    for (const input of [{}, { a: 'abc' }, { a: 'a', n: 1.5 }, { a: 'a', b: 1 }])
      expect(schema.safeParse(input).success).toBe(false);
  });

  test('leaves patterns out at every depth, since they may never end', () => {
    const pattern = { type: 'string', pattern: '^(a+)+$' };
    const schema = zodOf({
      a: pattern,
      b: { type: 'array', items: pattern },
      c: { type: 'object', properties: { d: pattern }, additionalProperties: pattern },
      e: { anyOf: [pattern, { type: 'null' }] },
    });
    const slow = `${'a'.repeat(40)}b`;
    const startedAt = performance.now();
    expect(schema.safeParse({ a: slow, b: [slow], c: { d: slow, e: slow }, e: slow }).success).toBe(true);
    expect(performance.now() - startedAt).toBeLessThan(500);
  });
});

test.each([
  { $ref: '#/x' },
  { type: 'object', patternProperties: { '^(a+)+$': { type: 'string' } } },
  { allOf: [{ type: 'string' }] },
  { type: ['string', 'null'] },
  { type: 'string', pattern: '(' },
  { not: {} },
  { if: {} },
])('%j is not taken', (schema) => {
  expect(jsonSchema.safeParse(schema).success).toBe(false);
});
