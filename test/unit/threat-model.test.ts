/** The threat model cites existing files and tests, its index has each of its pages, and some test runs each hostile program. */
import { existsSync, globSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';

const root = fileURLToPath(new URL('../..', import.meta.url));
const read = (path: string) => readFileSync(join(root, path), 'utf8');
const index = read('docs/threat-model.md');
const families = globSync('docs/threat-model/*.md', { cwd: root }).sort();
const rowsOf = (text: string) => text.split('\n').filter((it) => it.startsWith('| ') && it.includes('`'));
const page = [index, ...families.map(read)].join('\n');
const rows = rowsOf(page);
const paths = (text: string) =>
  [...text.matchAll(/`((?:src|workers|test|bench)\/[\w./-]+)`/g)].map((it) => it[1] as string);

test('the index has each family with the number of its rows', () => {
  const listed = [...index.matchAll(/^\| \[([^\]]+)\]\((threat-model\/\S+)\) \| (\d+) \|$/gm)].map((it) => it.slice(1));
  const there = families.map((it) => [
    /^# (.+)/.exec(read(it))?.[1],
    it.replace('docs/', ''),
    `${rowsOf(read(it)).length}`,
  ]);
  expect(new Set(listed.map(String))).toEqual(new Set(there.map(String)));
});

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
