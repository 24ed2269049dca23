/** The text that a model reads of results. */
import { expect, test } from 'vitest';
import { modelTexts } from '../../../src/wire/protocol/model-text.ts';

const file = (path: string, size = 3) => ({
  path,
  type: 'file',
  size,
  mode: '0644',
  modifiedAt: '2026-01-01T00:00:00Z',
});

test.each([
  ['names below their directory', [file('src/a.ts'), { path: 'src/sub', type: 'directory' }], 'src/:\na.ts 3\nsub/'],
  ['names of the workspace itself alone', [file('a.ts'), { path: 'l', type: 'symlink' }], 'a.ts 3\nl@'],
  ['whole paths where they are of several directories', [file('a/b.ts'), file('c.ts')], 'a/b.ts 3\nc.ts 3'],
  ['that nothing is there', [], '[no entries]'],
])('file_list tells %s', (_, entries, text) => {
  expect(modelTexts('file_list', { entries, count: entries.length, totalSize: 0, truncated: false })).toEqual([text]);
});

test('file_list tells modes and times where details were asked for', () => {
  const data = { entries: [file('a.ts')], count: 1, totalSize: 3, truncated: false, details: true };
  expect(JSON.parse(modelTexts('file_list', data)[0] as string)).toEqual(data);
});

test('a list that was cut says so', () => {
  const [text] = modelTexts('file_list', { entries: [file('a')], truncated: true });
  expect(text).toMatch(/\n\[truncated: /);
});

const match = (file: string, line: number, more: object = {}) => ({
  file,
  line,
  column: 1,
  text: `line ${line}`,
  ...more,
});
const grep = (matches: object[], truncated = false) =>
  modelTexts('file_grep', { matches, count: matches.length, filesSearched: 7, truncated })[0];

test('file_grep tells the matches of a file below its name', () => {
  expect(grep([match('a.ts', 1), match('b.ts', 4), match('a.ts', 9)])).toBe(
    'a.ts\n1:line 1\n9:line 9\n\nb.ts\n4:line 4',
  );
  expect(grep([])).toBe('no matches in 7 files');
  expect(grep([match('a.ts', 1)], true)).toMatch(/\n\n\[truncated: /);
});

test('file_grep tells lines around matches once each, and where lines are left out', () => {
  const matches = [
    match('a', 2, { before: ['one'], after: ['line 3', 'four'] }),
    match('a', 3, { before: ['one', 'line 2'], after: ['four', 'five'] }),
    match('a', 9, { before: [], after: ['ten'] }),
  ];
  expect(grep(matches)).toBe('a\n1-one\n2:line 2\n3:line 3\n4-four\n5-five\n--\n9:line 9\n10-ten');
});

test.each([
  ['a whole file as it is', { content: 'a\nb\n', lines: 2, size: 4 }, ['a\nb\n']],
  ['how much of it is shown', { content: 'b\n', lines: 3, size: 9 }, ['b\n', '[1 of 3 lines]']],
  ['a last line without its end', { content: 'a\nb', lines: 2, size: 3 }, ['a\nb']],
  ['an empty file in words', { content: '', lines: 0, size: 0 }, ['[the file is empty]']],
  [
    'another encoding',
    { content: 'a\n', lines: 1, size: 6, decoded: 'utf-16le, as its byte order mark says' },
    ['a\n', '[decoded from utf-16le, as its byte order mark says]'],
  ],
  [
    'bytes with their number',
    { content: 'AAAA', lines: 0, size: 3, encoding: 'base64', mimeType: 'image/png' },
    ['AAAA', '[base64 of 3 bytes, image/png]'],
  ],
])('file_read tells %s', (_, data, texts) => {
  expect(modelTexts('file_read', { encoding: 'utf-8', truncated: false, ...data })).toEqual(texts);
});

test('a command tells its output, and last how it ended', () => {
  const data = { stdout: 'out\n', stderr: 'err\n', exitCode: 0, timedOut: false, durationMs: 3 };
  expect(modelTexts('terminal_execute', data)).toEqual(['out\n', 'stderr:\nerr\n', '[exit code 0]']);
  const killed = { ...data, stdout: '', stderr: '', exitCode: 137, signal: 'SIGKILL' };
  expect(modelTexts('terminal_execute', killed)).toEqual(['[exit code 137, SIGKILL]']);
});

test('git_diff tells what is withheld, and nothing else beside the diff', () => {
  const data = { diff: 'diff --git\n', additions: 1, deletions: 0, files: 1, withheld: [], truncated: false };
  expect(modelTexts('git_diff', data)).toEqual(['diff --git\n']);
  expect(modelTexts('git_diff', { ...data, diff: '', withheld: ['.env'] })).toEqual([
    '[no differences]',
    '[withheld by the policy: .env]',
  ]);
});

test('git_status tells what there is, and not what there is none of', () => {
  const data = { branch: 'main', head: 'abc', upstream: null, ahead: 0, staged: [], unstaged: ['a'], clean: false };
  expect(modelTexts('git_status', data)).toEqual(['{"branch":"main","head":"abc","unstaged":["a"]}']);
});

test.each([
  ['a line end', 'a\nb', '"a\\nb" 3'],
  ['a space', 'a 12', '"a 12" 3'],
  ['a control sequence', 'a\u001b[2J', '"a\\u001b[2J" 3'],
  ['what turns text around', 'a\u202eb', '"a\u202eb" 3'],
])('a name with %s is told in quotes', (_, path, text) => {
  expect(modelTexts('file_list', { entries: [file(path)], truncated: false })).toEqual([text]);
});

test.each([
  'file_list',
  'file_grep',
  'file_glob',
  'file_read',
  'file_write',
  'file_edit',
  'git_diff',
  'terminal_execute',
])('data of %s in a form of another version is told whole', (tool) => {
  for (const data of [{ other: 1 }, { entries: [1], matches: [null], paths: 'x', content: 1, diff: 1, stdout: 1 }])
    expect(JSON.parse(modelTexts(tool, data).join(''))).toEqual(data);
});
