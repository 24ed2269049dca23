import fc from 'fast-check';
import { expect, test } from 'vitest';
import { matchGlob, parseGlob } from '../../../src/tools/glob.ts';

const matches = (pattern: string, path: string) =>
  matchGlob(parseGlob(pattern), path.split('/').at(-1) as string, path);

test.each([
  ['*.ts', 'src/a.ts', true],
  ['*.ts', 'a.tsx', false],
  ['src/*.ts', 'src/a.ts', true],
  ['src/*.ts', 'src/x/a.ts', false],
  ['src/**/*.ts', 'src/x/y/a.ts', true],
  ['src/**/*.ts', 'src/a.ts', true],
  ['**/test/**', 'a/test/b/c', true],
  ['**', 'a/b', true],
  ['a?c', 'abc', true],
  ['a?c', 'ac', false],
  ['[a-c]x', 'bx', true],
  ['[!a-c]x', 'bx', false],
  ['*.{ts,js}', 'a.js', true],
  ['{a,b{c,d}}', 'bd', true],
  ['\\*', '*', true],
  ['\\*', 'x', false],
])('%s and %s: %s', (pattern, path, expected) => {
  expect(matches(pattern, path)).toBe(expected);
});

test('a name without special characters matches itself and nothing else', () => {
  fc.assert(
    fc.property(fc.stringMatching(/^[a-z0-9._-]{1,20}$/), fc.stringMatching(/^[a-z0-9._-]{1,20}$/), (a, b) => {
      expect(matches(a, a)).toBe(a !== '.');
      if (a !== '.') expect(matches(a, b)).toBe(a === b);
    }),
  );
});

test('patterns that hang other matchers end at once', () => {
  expect(matches(`${'*a'.repeat(200)}b`, 'a'.repeat(4000))).toBe(false);
  expect(matches(`${'**/'.repeat(50)}b`, Array(200).fill('a').join('/'))).toBe(false);
});

test('braces that unfold without end are refused', () => {
  expect(() => parseGlob('{a,b}'.repeat(30))).toThrow(/more than 64 alternatives/);
});
