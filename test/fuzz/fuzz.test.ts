/** The fuzzer itself, a short run of it, and the inputs that broke something once. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { fuzz } from './fuzz.ts';
import { CORPORA } from './input-slot.ts';
import { createRandom, mutate } from './mutations.ts';
import { targetOfCrash } from './replay.ts';
import { FUZZ_TARGETS } from './targets.ts';

const folder = join(CORPORA, 'crashes');
const crashes = existsSync(folder) ? readdirSync(folder).filter((it) => !it.endsWith('.md')) : [];

describe('inputs that broke something once', () => {
  test.each(crashes)('%s breaks nothing', async (name) => {
    const outcome = await targetOfCrash(name).run(readFileSync(join(folder, name)));
    expect(outcome).toEqual(expect.any(String));
  });

  test('a file whose name begins with no target is refused', () => {
    expect(() => targetOfCrash('stranger-00')).toThrow('must begin with its target');
  });
});

test('a thousand changed inputs break no target', async () => {
  const { counts, findings } = await fuzz({ seed: 21, cases: 1_350 });
  expect(findings).toEqual([]);
  expect(counts.map((it) => it.target)).toEqual(Object.keys(FUZZ_TARGETS));
  // A target that answers everything alike tries nothing.
  expect(counts.filter((it) => it.outcomes < 2 || it.cases < 150)).toEqual([]);
}, 120_000);

describe('the fuzzer notices', () => {
  const module = new URL('../fixtures/fuzz/broken-targets.ts', import.meta.url).href;
  test.each([
    ['throws', /^TypeError: a bug/],
    ['hangs', /^hangs: /],
    ['waits', /^never ends/],
    ['escapes', /^ended the thread: TypeError: thrown where nobody catches/],
  ])('an input that %s', async (target, failure) => {
    const { findings } = await fuzz({ module, targets: [target], cases: 50, hangMs: 4_000 });
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
