import { expect, test } from 'vitest';
import { ChurningMap } from '../../src/churning-map.ts';

test('keeps what is set, in the order of its keys, until it is deleted', () => {
  const map = new ChurningMap<string, number>();
  map.set('b', 1);
  map.set('a', 2);
  map.set('b', 3);
  expect([map.get('b'), map.get('a'), map.get('c'), map.has('a'), map.size]).toEqual([3, 2, undefined, true, 2]);
  expect(map.values()).toEqual([3, 2]);
  expect([map.delete('b'), map.delete('b'), map.size, map.has('b')]).toEqual([true, false, 1, false]);
  expect(map.values()).toEqual([2]);
});
