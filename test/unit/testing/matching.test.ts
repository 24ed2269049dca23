import { expect, test } from 'vitest';
import { differenceOf, shown } from '../../../src/testing/matching.ts';

test.each([
  [{ a: 1, more: 2 }, { a: 1 }],
  [{ a: [{ b: 1, more: 2 }] }, { a: [{ b: 1 }] }],
  [new Date(0), new Date(0)],
  [Object.assign(Object.create(null), { a: 1 }), { a: 1 }],
  [undefined, undefined],
])('%j has all of %j', (actual, expected) => {
  expect(differenceOf(actual, expected)).toBeUndefined();
});

test.each([
  [{ a: 1 }, { a: 2 }, '.a is 1, not 2'],
  [{}, { a: 1 }, '.a is undefined, not 1'],
  [{ a: [1] }, { a: [1, 2] }, '.a has 1 items, not 2'],
  [{ a: [1, 3] }, { a: [1, 2] }, '.a[1] is 3, not 2'],
  [{ a: 'x' }, { a: ['x'] }, ".a is 'x', not a list"],
  [null, { a: 1 }, 'the value is null, not { a: 1 }'],
  [[], {}, undefined],
  ['1', 1, "the value is '1', not 1"],
])('%j lacks something of %j', (actual, expected, difference) => {
  expect(differenceOf(actual, expected)).toBe(difference);
});

test('a long value is cut where it is shown', () => {
  expect(shown('x'.repeat(10_000)).length).toBeLessThan(500);
});
