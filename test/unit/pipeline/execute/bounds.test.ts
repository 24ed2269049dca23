import { expect, test } from 'vitest';
import { defaultLimits } from '../../../../src/base/limits.ts';
import { commandBoundsOf, heapOf, leastOf, threadCpuOf } from '../../../../src/pipeline/execute/bounds.ts';
import { narrow } from '../../../../src/policy/compose.ts';
import { BUILT_IN, parsePolicy } from '../../../../src/policy/load.ts';
import type { Policy } from '../../../../src/policy/schema.ts';

const base = BUILT_IN.get('default') as Policy;
const policy = (text: string): Policy => parsePolicy(`tiers: { execute: { ${text} } }`, 'p.yaml');

test('a command may use what the daemon gives where no policy says less', () => {
  expect(commandBoundsOf(base, defaultLimits)).toEqual({
    cpuMs: 120_000,
    memoryMb: 1024,
    processes: 128,
    fileMb: 1024,
    outputBytes: 65_536,
  });
});

test('the least of all layers counts, each key for itself', () => {
  const layers = narrow(narrow(base, policy('memoryMb: 64, processes: 9')), policy('memoryMb: 65, processes: 8'));
  expect(commandBoundsOf(layers, defaultLimits)).toMatchObject({ memoryMb: 64, processes: 8, fileMb: 1024 });
});

test('a policy that says more than the daemon gives gets what the daemon gives', () => {
  expect(leastOf(policy('fileMb: 10'), { tier: 'execute', key: 'fileMb', most: 5 })).toBe(5);
});

test('a tool in a thread is held to the least that a layer says of its tier, and to nothing where none does', () => {
  const of = (text: string) => parsePolicy(`tiers: { ${text} }`, 'p.yaml');
  const layers = narrow(
    narrow(base, of('write: { cpuMs: 9, memoryMb: 65 }')),
    of('write: { cpuMs: 10, memoryMb: 64 }, execute: { cpuMs: 1, memoryMb: 1 }'),
  );
  expect([threadCpuOf(layers, 'write'), heapOf(layers, 'write')]).toEqual([{ cpuMs: 9 }, { heapMb: 64 }]);
  for (const tier of ['read_only', 'execute'] as const)
    expect([threadCpuOf(layers, tier), heapOf(layers, tier)]).toEqual([{}, {}]);
});

test('programs of a tool are held to what is said of commands and of its own tier', () => {
  const layers = parsePolicy('tiers: { read_only: { cpuMs: 50 }, execute: { cpuMs: 60, memoryMb: 32 } }', 'p.yaml');
  expect(commandBoundsOf(layers, defaultLimits, 'read_only')).toMatchObject({ cpuMs: 50, memoryMb: 32 });
  expect(commandBoundsOf(layers, defaultLimits)).toMatchObject({ cpuMs: 60, memoryMb: 32 });
});

test('bounds of one tool in a policy lower those of its tier for that tool alone, under any of its names', () => {
  const tool = { name: 'file_grep', aliases: [{ name: 'grep' }] } as never;
  const other = { name: 'file_glob', aliases: [] } as never;
  const of = (text: string) => parsePolicy(`tools: { ${text} }`, 'p.yaml');
  const layers = narrow(of('file_grep: { timeoutMs: 5000 }'), of('grep: { timeoutMs: 3000, outputBytes: 2048 }'));
  const least = (key: 'timeoutMs' | 'outputBytes', asked: never) =>
    leastOf(layers, { tier: 'read_only', key, most: 9000, tool: asked });
  expect([least('timeoutMs', tool), least('outputBytes', tool)]).toEqual([3000, 2048]);
  expect([least('timeoutMs', other), least('outputBytes', other)]).toEqual([9000, 9000]);
});

test('a policy that says more of a tool than what it extends does not get more', () => {
  const parent = parsePolicy('tools: { file_grep: { timeoutMs: 5000 } }', 'p.yaml');
  const tool = { name: 'file_grep', aliases: [] } as never;
  const child = narrow(parent, parsePolicy('tools: { file_grep: { timeoutMs: 8000 } }', 'q.yaml'));
  expect(leastOf(child, { tier: 'read_only', key: 'timeoutMs', most: 9000, tool })).toBe(5000);
});
