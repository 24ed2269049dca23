/** The fuzzer itself, a short run of it, and the inputs that broke something once. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { fuzz } from './fuzz.ts';
import { CASE_CPU_MICROSECONDS_MAX, CORPORA } from './input-slot.ts';
import { keptInputs, minimise } from './kept.ts';
import { createRandom, mutate } from './mutations.ts';
import { targetOf } from './replay.ts';
import { FUZZ_TARGETS } from './targets.ts';

const folder = join(CORPORA, 'crashes');
const crashes = existsSync(folder) ? readdirSync(folder).filter((it) => !it.endsWith('.md')) : [];

describe('inputs that broke something once', () => {
  test.each(crashes)('%s breaks nothing', async (name) => {
    const before = process.threadCpuUsage();
    const outcome = await targetOf(name).run(readFileSync(join(folder, name)));
    expect(outcome).toEqual(expect.any(String));
    const { user, system } = process.threadCpuUsage(before);
    expect(user + system).toBeLessThan(CASE_CPU_MICROSECONDS_MAX);
  });

  test('a file whose name begins with no target is refused', () => {
    expect(() => targetOf('stranger-00')).toThrow('must begin with its target');
  });
});

describe('inputs that are kept', () => {
  test.each(Object.keys(FUZZ_TARGETS))(
    'kept inputs of %s break nothing and reach outcomes that differ',
    async (name) => {
      const outcomes: string[] = [];
      for (const { input } of keptInputs(name)) outcomes.push((await FUZZ_TARGETS[name]?.run(input)) as string);
      expect(outcomes.length).toBeGreaterThan(2);
      expect(outcomes.filter((it, at) => outcomes.indexOf(it) !== at)).toEqual([]);
    },
  );

  test('kept inputs are as short as their outcome allows', async () => {
    const run = (input: Buffer) => (input.includes('ab') ? 'has ab' : 'has none');
    expect((await minimise(Buffer.from('xxx ab yyy ab'), run)).toString()).toBe('ab');
  });
});

test('150 changed inputs break no target', async () => {
  const { counts, findings } = await fuzz({ seed: 21, cases: 150 });
  expect(findings).toEqual([]);
  expect(counts.map((it) => it.target)).toEqual(Object.keys(FUZZ_TARGETS));
  // A target that answers everything alike tries nothing.
  expect(counts.filter((it) => it.outcomes.size < 2 || it.cases !== 150)).toEqual([]);
}, 120_000);

describe('the fuzzer notices', () => {
  const module = new URL('../fixtures/fuzz/broken-targets.ts', import.meta.url).href;
  test.each([
    ['throws', /^TypeError: a bug/],
    ['hangs', /^hangs: /],
    ['waits', /^never ends/],
    ['escapes', /^ended the thread: TypeError: thrown where nobody catches/],
  ])('an input that %s', async (target, failure) => {
    const { findings } = await fuzz({ module, targets: [target], cases: 50, hangMs: 1_000 });
    expect(findings.map((it) => it.failure)).toEqual([expect.stringMatching(failure)]);
    expect(findings.map((it) => Buffer.from(it.input).toString())).toEqual(['1']);
  });
});

test('the same seed changes inputs in the same way', () => {
  const inputsOf = (seed: number) => {
    const source = {
      words: ['w'],
      corpus: [Buffer.from('an input'), Buffer.from('other')],
      random: createRandom(seed),
    };
    return Array.from({ length: 100 }, () => mutate(source).toString('hex'));
  };
  expect(inputsOf(7)).toEqual(inputsOf(7));
  expect(inputsOf(8)).not.toEqual(inputsOf(7));
});
