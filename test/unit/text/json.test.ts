import fc from 'fast-check';
import { expect, test } from 'vitest';
import { parseJson } from '../../../src/base/text/json.ts';

/** Keys and texts that may confuse a parser. */
const nasty = fc.string({
  unit: fc.constantFrom('a', '\\', '"', '\n', '\u202e', '\ud800', '€', 'u', '0', ':', '{', ' '),
});
const value = fc.letrec((tie) => ({
  any: fc.oneof(
    { depthSize: 'small' },
    nasty,
    fc.constantFrom<unknown>(0, -0.5, 1e21, true, false, null, '__proto__'),
    fc.array(tie('any')),
    fc.dictionary(fc.oneof(nasty, fc.constantFrom('__proto__', '1', 'length')), tie('any'), { noNullPrototype: true }),
  ),
})).any;

/** Written by JSON.stringify, which has no known bugs, so that order and escapes are compared, too. */
test('a written value is parsed back unchanged, whatever was parsed before', () => {
  fc.assert(
    fc.property(value, fc.constantFrom(undefined, ' ', '\t\n'), (it, space) => {
      const back = parseJson(JSON.stringify(it, undefined, space));
      expect(JSON.stringify(back)).toBe(JSON.stringify(it));
    }),
    { numRuns: 3000 },
  );
});

test('a key is its own, where JSON.parse gives it the name of one that came before', () => {
  for (const key of ['"', '\n', '\u0001', '\u202e']) {
    const poison = `{"of ${JSON.stringify(key).slice(1, -1)}": [], "\\\\": 0}`;
    parseJson(poison);
    JSON.parse(poison);
    const text = poison.replace('[]', '1').replace('"\\\\"', JSON.stringify(key));
    expect(Object.keys(parseJson(text) as object)[1]).toBe(key);
  }
});

test.each(['', '{', '{"a\\n": 1,}', '{"a\\n" 1}', '["\\x"]', '"\\'])('%j is refused as by JSON.parse', (text) => {
  const refusal = (parse: (it: string) => unknown) => {
    try {
      return `took ${JSON.stringify(parse(text))}`;
    } catch (error) {
      return String(error);
    }
  };
  expect(refusal(parseJson)).toBe(refusal(JSON.parse));
  expect(refusal(parseJson)).toMatch(/^SyntaxError/);
});

test('the last of two keys of one name counts, at the place of the first, however they are written', () => {
  expect(JSON.stringify(parseJson('{"a": 1, "b": 2, "\\u0061": 3, "__proto__": 4, "\\u005f_proto__": 5}'))).toBe(
    '{"a":3,"b":2,"__proto__":5}',
  );
});

test('depth is no matter', () => {
  const depth = 200_000;
  let inner = parseJson(`${'[{"\\n":'.repeat(depth)}1${'}]'.repeat(depth)}`);
  let found = 0;
  for (; Array.isArray(inner); found++) inner = (inner[0] as Record<string, unknown>)['\n'];
  expect([found, inner]).toEqual([depth, 1]);
});
