/** docs/lifecycle.md draws and describes the stages that `src/pipeline/pipeline.ts` puts in order, no other, and as many. */
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';

const read = (file: string): string =>
  readFileSync(fileURLToPath(new URL(`../../../${file}`, import.meta.url)), 'utf8');
const [, array = ''] = /const order = \[\n([\s\S]*?)\n {2}\] as const;/.exec(read('src/pipeline/pipeline.ts')) ?? [];
const stages = array.split('\n').map((line) => /^ {4}(\w+)\(/.exec(line)?.[1]);
const page = read('docs/lifecycle.md');

test('the array of stages has one a line, and at most 14', () => {
  expect(stages.length).toBeGreaterThan(8);
  expect(stages.length).toBeLessThanOrEqual(14);
});

test('the drawing of a call shows the stages of the array', () => {
  const [, drawing = ''] = /gateway +(audit[\s\S]*?) ▸ execute/.exec(page) ?? [];
  expect(drawing.split('▸').map((it) => it.trim())).toEqual(stages);
});

test('the table of stages has a row for each of the array, in its order', () => {
  const rows = [...page.matchAll(/^\| (\w+) \| `/gm)].map(([, name]) => name);
  expect(rows).toEqual([...stages, 'execute']);
});
