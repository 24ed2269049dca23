/** The built form of the built-in policies equals their texts. */
import { expect, test } from 'vitest';
import { loadBuilt, toBuilt } from '../../../src/policy/built-in-policies.ts';
import { BUILT_IN } from '../../../src/policy/load.ts';

test('sources read the texts themselves, whatever the build has kept', () => {
  expect(loadBuilt()).toBeUndefined();
});

test('a built-in policy is the same after it was kept as JSON', () => {
  const { policies } = JSON.parse(toBuilt(BUILT_IN));
  expect(new Map(policies)).toStrictEqual(BUILT_IN);
});
