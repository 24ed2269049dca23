/** Tests the promises of every tool, built-in or a plugin's, through a real daemon that allows it. */
import { describe, test } from 'vitest';
import { type ContractPlace, promisesOf } from '../../src/testing/tool-contract.ts';
import type { Tool } from '../../src/tools/tool.ts';

/** Declares the tests of one tool. */
export function toolPromises(tool: Tool, place: ContractPlace): void {
  describe(tool.name, () => {
    test.each(promisesOf(tool, place).map((it) => [it.title, it] as const))('%s', (_, { check }) => check());
  });
}
