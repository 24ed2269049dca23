import { isDeepStrictEqual } from 'node:util';
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  type Binding,
  bindingHash,
  differencesOf,
  subjectHash,
  subjectOf,
} from '../../../../src/pipeline/approve/binding.ts';

const program = { path: '/usr/bin/git', dev: '1', ino: '2', size: '3', mtimeNs: '4', ctimeNs: '5' };
const binding: Binding = {
  tool: { name: 'terminal_execute', version: '1.0.0' },
  input: { command: 'git push', env: { A: '1' }, list: [1, 2], flag: true },
  programs: [program],
  cwd: '.',
  environment: { A: '1' },
  policyVersion: 'sha256:1',
  preImages: [{ path: 'a.txt', hash: 'sha256:2' }],
};

describe('the hash', () => {
  test.each<[string, Partial<Binding>]>([
    ['the tool', { tool: { name: 'other', version: '1.0.0' } }],
    ["the tool's version", { tool: { name: 'terminal_execute', version: '1.0.1' } }],
    ['the input', { input: { command: 'git push', env: { A: '1' }, list: [2, 1], flag: true } }],
    ['the directory', { cwd: 'src' }],
    ['the environment', { environment: { A: '2' } }],
    ['the policy', { policyVersion: 'sha256:3' }],
    ['the content of a file', { preImages: [{ path: 'a.txt', hash: 'sha256:4' }] }],
    ['whether a file is there', { preImages: [{ path: 'a.txt', hash: null }] }],
    ['another file', { preImages: [...binding.preImages, { path: 'b.txt', hash: null }] }],
    ['no program', { programs: [] }],
    ...(['dev', 'ino', 'size', 'mtimeNs', 'ctimeNs'] as const).map((key): [string, Partial<Binding>] => [
      `${key} of a program`,
      { programs: [{ ...program, [key]: 99 }] },
    ]),
  ])('the hash differs when %s changes, and the change is named', (_, change) => {
    const changed = { ...binding, ...change };
    expect(bindingHash(changed)).not.toBe(bindingHash(binding));
    expect(differencesOf(binding, changed)).toHaveLength(1);
  });

  test('names the file and the program that changed', () => {
    const changed = {
      ...binding,
      programs: [{ ...program, ino: '9' }],
      preImages: [{ path: 'a.txt', hash: null }],
      policyVersion: '',
    };
    expect(differencesOf(binding, changed)).toEqual(['the policy', 'the program /usr/bin/git', 'the file a.txt']);
  });

  test('names a bounded number of changes', () => {
    const preImages = Array.from({ length: 1000 }, (_, at) => ({ path: `${at}`, hash: null }));
    expect(differencesOf({ ...binding, preImages: [] }, { ...binding, preImages })).toHaveLength(9);
  });

  test('the hash is the same whatever the order of programs and files', () => {
    const two = { ...binding, programs: [program, { ...program, path: '/b' }] };
    expect(bindingHash({ ...two, programs: two.programs.toReversed() })).toBe(bindingHash(two));
  });
});

/** The same value with its keys in another order, at every depth. */
function reordered(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(reordered);
  if (typeof value !== 'object' || value === null || value instanceof Uint8Array) return value;
  return Object.fromEntries(
    Object.entries(value)
      .toReversed()
      .map(([key, it]) => [key, reordered(it)]),
  );
}

const json = fc.jsonValue({ maxDepth: 4 });

test('never depends on the order of keys', () => {
  fc.assert(
    fc.property(
      json,
      (input) => bindingHash({ ...binding, input }) === bindingHash({ ...binding, input: reordered(input) }),
    ),
  );
});

test('two inputs have the same subject only where they are the same JSON', () => {
  const pair = fc.oneof(
    fc.tuple(json, json),
    json.map((it) => [it, reordered(it)] as const),
  );
  const subject = (input: unknown) => subjectOf({ tool: 't', input });
  fc.assert(fc.property(pair, ([a, b]) => (subject(a) === subject(b)) === isDeepStrictEqual(a, b)));
});

test.each([
  ['undefined keys', { a: 1, b: undefined }, { a: 1 }, true],
  ['bytes by their content', { a: Buffer.from('x') }, { a: new Uint8Array([120]) }, true],
  ['other bytes', { a: Buffer.from('x') }, { a: Buffer.from('y') }, false],
  ['bytes and the text of their form', { a: Buffer.from('x') }, { a: 'bytes(2d711642b726b044)' }, false],
  ['a number and its text', { a: 1 }, { a: '1' }, false],
  ['null and undefined in a list', { a: [null] }, { a: [undefined] }, false],
  ['zero and minus zero', { a: 0 }, { a: -0 }, false],
  ['NaN and null', { a: Number.NaN }, { a: null }, false],
  ['a list and an object with its keys', { a: [1] }, { a: { 0: 1 } }, false],
  ['an own __proto__', JSON.parse('{"__proto__": 1}'), {}, false],
])('the subject of %s: %o and %o are equal: %s', (_, a, b, equal) => {
  expect(subjectHash('t', a) === subjectHash('t', b)).toBe(equal);
});

test('the subject of another tool is another one', () => {
  expect(subjectHash('t', {})).not.toBe(subjectHash('u', {}));
});

test.each([[() => {}], [Symbol('x')], [new Map()]])('a value that cannot be compared is refused: %s', (value) => {
  expect(() => subjectHash('t', { value })).toThrow('no canonical form');
});
