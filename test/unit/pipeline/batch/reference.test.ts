import { describe, expect, test } from 'vitest';
import { referencedIds, resolveReferences } from '../../../../src/pipeline/batch/reference.ts';

const result = {
  success: true,
  data: { files: [{ path: 'a.txt', size: 3 }], results: ['first'], text: 'say ${b.data.x}', empty: null },
};
const resolve = (input: unknown, bytesMax = 1000) =>
  resolveReferences(input, (id) => (id === 'a' ? result : undefined), { bytesMax });
const code = (run: () => unknown) => {
  try {
    return run();
  } catch (error) {
    return (error as { code: string }).code;
  }
};

describe('what is a reference', () => {
  test.each([
    ['${a.data.x}', ['a']],
    ['x ${a.data.x} y ${b.data[0]}', ['a', 'b']],
    ['${HOME} ${arr[0]} $a.b {a.b}', []],
    ['$${a.data.x}', []],
    ['${a}', []],
    ['${a.}', []],
  ])('%s refers to %j', (text, ids) => {
    expect([...referencedIds({ deep: [{ text }] })]).toEqual(ids);
  });

  test('the keys of an object are no references', () => {
    expect(referencedIds({ '${a.data}': 1 }).size).toBe(0);
  });
});

describe('what it stands for', () => {
  test.each([
    ['a list', '${a.data.files}', [{ path: 'a.txt', size: 3 }]],
    ['a number', '${a.data.files[0].size}', 3],
    ['a value under data, without data', '${a.results[0]}', 'first'],
    ['a member of the result itself', '${a.success}', true],
    ['null', '${a.data.empty}', null],
    ['null under data, without data', '${a.empty}', null],
  ])('%s keeps its type when it is the whole string', (_, text, value) => {
    expect(resolve({ x: text })).toEqual({ x: value });
  });

  test.each([
    ['text', 'see ${a.data.files[0].path}!', 'see a.txt!'],
    ['a number', 'size=${a.data.files[0].size}', 'size=3'],
    ['null', 'empty: ${a.data.empty}', 'empty: null'],
    ['JSON of anything else', 'all: ${a.data.files}', 'all: [{"path":"a.txt","size":3}]'],
    ['itself after another dollar sign', '$${a.data.x}', '${a.data.x}'],
  ])('a reference becomes %s inside a longer string', (_, text, value) => {
    expect(resolve(text)).toBe(value);
  });

  test('a value of a tool that looks like a reference stays text', () => {
    expect(resolve('${a.data.text}')).toBe('say ${b.data.x}');
  });

  test.each([
    '${a.data.none}',
    '${a.data.files[1]}',
    '${a.data.files.length}',
    '${a.data.text.length}',
    '${a.__proto__}',
    '${a.data.constructor}',
    '${a.data.files[}',
    '${a.data["files"]}',
  ])('%s is REFERENCE_UNRESOLVED', (text) => {
    expect(code(() => resolve(text))).toBe('REFERENCE_UNRESOLVED');
  });

  test('a thousand references to a long value are refused, not multiplied', () => {
    expect(code(() => resolve(Array(1000).fill('${a.data.files[0].path}')))).toBe('INPUT_INVALID');
  });
});
