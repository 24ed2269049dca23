import fc from 'fast-check';
import { expect, test } from 'vitest';
import { nearest } from '../../../src/pipeline/input/nearest.ts';

const tools = ['file_read', 'file_write', 'file_list', 'terminal_execute'];

test.each([
  ['file_reed', 'file_read'],
  ['fileread', 'file_read'],
  ['FILE_READ', 'file_read'],
  ['read_file', 'file_read'],
  ['file_wriet', 'file_write'],
  ['terminal_exec', 'terminal_execute'],
  ['web_search', undefined],
  ['zzz', undefined],
  ['list_files', undefined],
])('the nearest tool to %s is %s', (name, expected) => {
  expect(nearest(name, tools)).toBe(expected);
});

test.each([
  ['task', ['bash']],
  ['git_pull', ['git_push']],
  ['file_move', ['file_read', 'file_copy']],
])('%s means none of %s, however alike they look', (name, candidates) => {
  expect(nearest(name, candidates)).toBeUndefined();
});

test.each([
  ['bsah', 'bash'],
  ['grpe', 'grep'],
])('%s, with two characters that changed places, is %s', (name, expected) => {
  expect(nearest(name, ['grep', 'bash'])).toBe(expected);
});

test('no name is near without candidates', () => {
  expect(nearest('file_read', [])).toBeUndefined();
});

test('the first of two equally near candidates is the nearest', () => {
  expect(nearest('bat', ['cat', 'hat'])).toBe('cat');
  expect(nearest('bat', ['hat', 'cat'])).toBe('hat');
});

test('a candidate that differs in two places is near a short name, one that differs in three is not', () => {
  expect(nearest('abcdef', ['abcdxy'])).toBe('abcdxy');
  expect(nearest('abcdef', ['abcxyz'])).toBeUndefined();
});

const name = fc.stringMatching(/^[a-z_]{1,20}$/);

test('a name that is a candidate is nearest to itself, wherever it stands', () => {
  fc.assert(
    fc.property(fc.uniqueArray(name, { minLength: 1, maxLength: 10 }), fc.nat(), (candidates, at) => {
      const one = candidates[at % candidates.length] as string;
      expect(nearest(one, candidates)).toBe(one);
      expect(nearest(one.toUpperCase(), new Set(candidates))).toBe(one);
    }),
  );
});

test('one character too many, too few or wrong is forgiven in any name', () => {
  fc.assert(
    fc.property(name, fc.nat(), fc.constantFrom('insert', 'delete', 'replace'), (wanted, place, fault) => {
      const at = place % wanted.length;
      const typed = {
        insert: `${wanted.slice(0, at)}-${wanted.slice(at)}`,
        delete: wanted.slice(0, at) + wanted.slice(at + 1),
        replace: `${wanted.slice(0, at)}-${wanted.slice(at + 1)}`,
      }[fault];
      expect(nearest(typed, ['0123456789012345678901234567890123456789', wanted])).toBe(wanted);
    }),
  );
});

test('a name of a million characters is compared by its first 64 only', () => {
  expect(nearest('x'.repeat(1_000_000), tools)).toBeUndefined();
  expect(nearest(`${'x'.repeat(64)}${'y'.repeat(1_000_000)}`, ['x'.repeat(64)])).toBe('x'.repeat(64));
});
