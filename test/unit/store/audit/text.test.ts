import fc from 'fast-check';
import { expect, test } from 'vitest';
import { parseJson } from '../../../../src/base/text/json.ts';
import { escapeUnseenInLine } from '../../../../src/base/text/shown-text.ts';
import { toBoundedJson, toVisible } from '../../../../src/store/audit/text.ts';

const bounds = { charsMax: 200, depthMax: 4 };
const UNSAFE = /[\p{Cc}\p{Bidi_Control}\u2028\u2029]/u;
/** Hostile strings. */
const nasty = fc.string({
  unit: fc.constantFrom('a', '\\', '"', '\u001b', '\n', '\u009b', '\u202e', '\u2066', '\u2028', '\ud800', '€', 'u001b'),
});

/** The values as a reader gets them over a connection. */
const wellFormed = (value: Record<string, string>) =>
  Object.fromEntries(Object.entries(value).map(([key, it]) => [key.toWellFormed(), it.toWellFormed()]));

test('no control character or bidi override is left in what is stored, and JSON still says the same', () => {
  fc.assert(
    fc.property(fc.dictionary(nasty, nasty), (value) => {
      const json = toBoundedJson(value, { charsMax: 10_000, depthMax: 4 }) as string;
      expect(json).not.toMatch(UNSAFE);
      expect(parseJson(json)).toEqual(wellFormed(value));
      expect(escapeUnseenInLine(json)).toBe(json);
    }),
  );
});

test('different names stay different when their control characters are made visible', () => {
  fc.assert(
    fc.property(nasty, nasty, (a, b) => {
      expect(toVisible(a, 1000)).not.toMatch(UNSAFE);
      expect(toVisible(a, 1000) === toVisible(b, 1000)).toBe(a.toWellFormed() === b.toWellFormed());
    }),
  );
});

test('whatever is stored is JSON within six times its bound and a marker for each level', () => {
  const value = fc.anything({
    withBigInt: true,
    withTypedArray: true,
    withDate: true,
    withNullPrototype: true,
    maxDepth: 8,
  });
  fc.assert(
    fc.property(fc.array(value), (it) => {
      const json = toBoundedJson(it, bounds) as string;
      JSON.parse(json);
      expect(json.length).toBeLessThan(6 * bounds.charsMax + 1000);
    }),
  );
});

test('a text that fits is stored whole', () => {
  const value = { path: 'docs/a.md', lines: [1, 2.5, null, true], nested: { __proto__: null, a: {} } };
  expect(JSON.parse(toBoundedJson(value, bounds) as string)).toEqual({ ...value, nested: { a: {} } });
  expect(toBoundedJson(undefined, bounds)).toBeUndefined();
});

test('a cut text says how much is missing, and leaves room for the texts after it', () => {
  const value = { content: 'x'.repeat(1000), path: 'docs/a.md' };
  const kept = JSON.parse(toBoundedJson(value, bounds) as string);
  expect(kept.path).toBe('docs/a.md');
  expect(kept.content).toMatch(/^x{50,}\[cut: \d+ of 1000 characters\]$/);
  expect(JSON.parse(toBoundedJson(new Array(1000).fill(0), bounds) as string).at(-1)).toMatch(
    /^\[cut: \d+ of 1000 items\]$/,
  );
  const many = Object.fromEntries(Array.from({ length: 1000 }, (_, at) => [`k${at}`, at]));
  expect(JSON.parse(toBoundedJson(many, bounds) as string)['[cut]']).toMatch(/^\d+ of 1000 keys$/);
  expect(toBoundedJson([[[[[[1]]]]]], bounds)).toContain('[cut: nested too deep]');
  expect(toBoundedJson({ a: Buffer.alloc(7) }, bounds)).toBe('{"a":"[7 bytes]"}');
});

test('a cut text holds no half of a character, wherever it was cut', () => {
  for (const before of ['', 'a', '\\', '\\ud83d']) {
    const text = `${before}${'😀'.repeat(500)}`;
    for (const value of [text, { [text]: 1 }, { content: text, path: 'a' }, `${before}\ud83d`]) {
      const json = toBoundedJson(value, bounds) as string;
      expect(JSON.stringify(parseJson(json)), json).toBe(json);
      expect(JSON.stringify(parseJson(json)).toWellFormed()).toBe(json);
      expect(json).not.toMatch(/(?<!\\)(\\\\)*\\ud/);
    }
  }
});

test('a thing that holds itself is cut, not followed', () => {
  const value: Record<string, unknown> = {};
  value.self = value;
  expect(toBoundedJson(value, bounds)).toContain('[cut: nested too deep]');
});
