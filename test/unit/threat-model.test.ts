/** docs/threat-model.md cites existing files and tests, and some test runs each hostile program. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';

const root = fileURLToPath(new URL('../..', import.meta.url));
const read = (path: string) => readFileSync(join(root, path), 'utf8');
const page = read('docs/threat-model.md');
const rows = page.split('\n').filter((it) => it.startsWith('| ') && it.includes('`'));
const paths = (text: string) =>
  [...text.matchAll(/`((?:src|workers|test|bench)\/[\w./-]+)`/g)].map((it) => it[1] as string);

test.each([...new Set(paths(page))])('%s is there', (path) => {
  expect(existsSync(join(root, path))).toBe(true);
});

/** The tests that a row cites, each with the following titles up to the next file. */
const cited = rows.flatMap((row) =>
  [...row.matchAll(/`(test\/[\w./-]+\.test\.ts)`((?:(?!`test\/).)*)/g)].flatMap(([, file, behind]) =>
    [...(behind as string).matchAll(/"([^"]+)"/g)].map((it) => [file as string, it[1] as string] as const),
  ),
);

test.each(cited)('%s has a test "%s"', (file, title) => {
  const text = read(file).replaceAll(/\\(['"`])/g, '$1');
  expect(["'", '"', '`'].some((quote) => text.includes(`${quote}${title}`))).toBe(true);
});

describe('each row', () => {
  test.each(rows.map((it) => it.split('|')[1]?.trim()))('the row of "%s" cites a test', (attack) => {
    const row = rows.find((it) => it.split('|')[1]?.trim() === attack) as string;
    expect(paths(row).some((it) => it.endsWith('.test.ts'))).toBe(true);
  });
});

test('every hostile program is short and is let loose by a test', () => {
  const folder = join(root, 'test/fixtures/programs');
  const programs = readdirSync(folder).filter((it) => it !== 'README.md');
  const tests = readdirSync(join(root, 'test/attack'))
    .map((it) => read(`test/attack/${it}`))
    .join('\n');
  expect(programs.filter((it) => !tests.includes(it))).toEqual([]);
  expect(programs.filter((it) => read(`test/fixtures/programs/${it}`).trimEnd().split('\n').length > 15)).toEqual([]);
});
