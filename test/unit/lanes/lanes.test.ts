/** Which lane runs which test file, and that no list names a file that is gone. */
import { globSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { reaches } from '../../changed.ts';
import { filesOf, lanes, namedElsewhere } from '../../lanes.ts';
import { nightly } from '../../nightly.ts';

const root = fileURLToPath(new URL('../../..', import.meta.url));
describe('the lanes of tests', () => {
  const tests = globSync('test/**/*.test.ts', { cwd: root });

  test('a test file belongs to one lane', () => {
    const filesIn = (globs: string[]) => globs.flatMap((it) => globSync(it, { cwd: root }));
    const all = Object.values(lanes).flatMap((lane) => {
      const others = new Set(filesIn(namedElsewhere(lane)));
      return filesIn(filesOf(lane)).filter((it) => !others.has(it));
    });
    expect(all.sort()).toEqual(tests.sort());
  });
  test('the nightly lane has at most 60 files, all of them there, and nothing of attack, fault and contract', () => {
    const names = Object.keys(nightly);
    expect(names.length).toBeLessThanOrEqual(60);
    expect(names.filter((it) => !tests.includes(it) || /^test\/(attack|fault|contract)\//.test(it))).toEqual([]);
  });
  test('the tests of test/changed.ts are there', () => {
    const named = Object.values(reaches).flatMap((it) => it.map((name) => `test/${name}.test.ts`));
    expect(named.filter((it) => !tests.includes(it))).toEqual([]);
  });
});
