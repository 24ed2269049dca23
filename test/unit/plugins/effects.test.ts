import { expect, test } from 'vitest';
import { effectsOf } from '../../../src/services/plugins/effects.ts';

const read = (target: string) => [{ kind: 'read' as const, target }];

test.each([
  ['${input.path}', { path: 'a/b.txt' }, ['a/b.txt']],
  ['data/${input.name}.db', { name: 'shop' }, ['data/shop.db']],
  ['${input.dir}/${input.n}', { dir: 'd', n: 3 }, ['d/3']],
  ['${input.paths}', { paths: ['a', 'b'] }, ['a', 'b']],
  ['${input.path}', {}, []],
  ['fixed.txt', {}, ['fixed.txt']],
  ['${input.path}', { path: '${input.other}', other: 'x' }, ['${input.other}']],
  ['${input.path}', { path: '$& $1' }, ['$& $1']],
])('%s with %j touches %j', (target, input, targets) => {
  expect(effectsOf(read(target), input).map((it) => it.target)).toEqual(targets);
});
