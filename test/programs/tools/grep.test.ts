/** Searches with odd files, long lines, bounds, rules and aborts. */
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { Rule } from '../../../src/policy/schema.ts';
import type { FoundLine } from '../../../src/tools/tool.ts';
import { processesWith, until } from '../../support/daemon.ts';
import { SLOW_TEXT, slow, type ToolRunOptions, toolRunner } from '../../support/search.ts';

let workspace: string;
beforeEach(() => {
  workspace = realpathSync(mkdtempSync(join(tmpdir(), 'ringfence-grep-')));
});
afterEach(() => rmSync(workspace, { recursive: true }));

const plant = (path: string | Buffer, content: string | Buffer) =>
  writeFileSync(
    typeof path === 'string' ? join(workspace, path) : Buffer.concat([Buffer.from(`${workspace}/`), path]),
    content,
  );
interface Found {
  matches: FoundLine[];
  count: number;
  filesSearched: number;
  truncated: boolean;
}
const grep = (input: Record<string, unknown>, options: Partial<ToolRunOptions> = {}) =>
  toolRunner({ workspace, ...options }).run<Found>('file_grep', input);
const glob = async (pattern: string, more: object = {}) =>
  (await toolRunner({ workspace }).run<{ paths: string[] }>('file_glob', { pattern, ...more })).paths;

describe('a line', () => {
  test('a line has its column in characters, also if it has more bytes', async () => {
    plant('a', 'é😀 needle\n');
    expect((await grep({ pattern: 'needle' })).matches).toEqual([
      { file: 'a', line: 1, column: 4, text: 'é😀 needle' },
    ]);
  });

  test('a line has the lines around it, matches too, and no more than the file has', async () => {
    plant('a', 'one\nneedle 1\nneedle 2\r\nfour\n');
    expect((await grep({ pattern: 'needle', contextLines: 2 })).matches).toMatchObject([
      { line: 2, before: ['one'], after: ['needle 2', 'four'] },
      { line: 3, before: ['one', 'needle 1'], after: ['four'] },
    ]);
  });

  test('the last wanted line still has all lines of its context after it', async () => {
    // One file: ripgrep searches several at once, so the first matches may be of any.
    plant('a', 'one\nneedle 1\nthree\nneedle 2\nfive\nsix\nneedle 3\n');
    for (const [maxResults, after] of [
      [1, ['three', 'needle 2', 'five']],
      [2, ['five', 'six', 'needle 3']],
    ] as const) {
      const { matches, truncated } = await grep({ pattern: 'needle', contextLines: 3, maxResults });
      expect(matches).toHaveLength(maxResults);
      expect([matches.at(-1)?.after, truncated]).toEqual([after, true]);
    }
  });

  test('a line of 3 000 characters is cut around its match, with a mark at each end', async () => {
    plant('a', `${'x'.repeat(1500)}needle${'y'.repeat(1500)}\n`);
    const [match] = (await grep({ pattern: 'needle' })).matches;
    expect(match?.column).toBe(1501);
    expect(match?.text).toBe(`…${'x'.repeat(100)}needle${'y'.repeat(394)}…`);
  });

  test.each([
    ['needle', 9_000_000],
    ['e', 1_500_000],
  ])('a line that matches %s in %d characters is shown by its beginning', async (pattern, length) => {
    plant('a', `first\n"\\ ${'é'.repeat(40_000)}needle ${'e'.repeat(length)}\n`);
    const { matches, truncated } = await grep({ pattern });
    expect(matches).toMatchObject([{ line: 2 }]);
    expect(matches[0]?.text.slice(0, 6)).toBe('"\\ ééé');
    expect(matches[0]?.text).toContain(pattern);
    expect(matches[0]?.text.length).toBeLessThan(600);
    expect(truncated).toBe(false);
  });

  test('a line that is not UTF-8 is shown with replacement characters', async () => {
    plant('a', Buffer.from('h\xff needle\n', 'latin1'));
    expect((await grep({ pattern: 'needle' })).matches).toMatchObject([{ column: 4, text: 'h� needle' }]);
  });
});

describe('files', () => {
  test('a file with NUL bytes is left out, even if a line before them matches', async () => {
    plant('binary', `needle\n${'x\n'.repeat(100_000)}\0`);
    plant('text', 'needle');
    expect((await grep({ pattern: 'needle' })).matches.map((it) => it.file)).toEqual(['text']);
  });

  test('a file with line breaks in its name is found by it, and one whose name is not UTF-8 is left out', async () => {
    mkdirSync(join(workspace, 'a\n.'));
    plant('a\n./b: WARNING: x', 'needle');
    plant(Buffer.from('bad\xff', 'latin1'), 'needle');
    expect((await grep({ pattern: 'needle' })).matches.map((it) => it.file)).toEqual(['a\n./b: WARNING: x']);
    expect(await glob('*')).toEqual(['a\n./b: WARNING: x']);
  });

  test('a file of 200 MB is passed over, and refused with the bound when named', async () => {
    plant('huge', 'needle\n');
    truncateSync(join(workspace, 'huge'), 200 * 2 ** 20);
    expect(await grep({ pattern: 'needle' })).toMatchObject({ matches: [] });
    await expect(grep({ pattern: 'needle', path: 'huge' })).rejects.toMatchObject({ code: 'FILE_LIMIT' });
  });

  test('a pipe, and a link out of the workspace, is not searched', async () => {
    execFileSync('mkfifo', [join(workspace, 'fifo')]);
    symlinkSync('/etc', join(workspace, 'etc'));
    symlinkSync('/etc/passwd', join(workspace, 'passwd'));
    expect(await grep({ pattern: 'root' })).toMatchObject({ matches: [], filesSearched: 0 });
    expect(await glob('**')).toEqual([]);
    for (const path of ['etc', 'passwd', 'fifo', '..', '/etc']) {
      await expect(grep({ pattern: 'root', path })).rejects.toMatchObject({ code: /^(ACCESS_DENIED|UNSUPPORTED)$/ });
    }
  });

  test('hidden or ignored files are found if the path or the glob names them, .git never', async () => {
    for (const it of ['.git', '.github/w', 'node_modules/p']) mkdirSync(join(workspace, it), { recursive: true });
    plant('.gitignore', 'node_modules/\n');
    for (const it of ['.git/config', '.github/w/ci.yml', 'node_modules/p/i.js', 'a.js']) plant(it, 'needle');
    expect(await glob('**')).toEqual(['a.js']);
    expect(await glob('.github/**')).toEqual(['.github/w/ci.yml']);
    expect(await glob('.*/**')).toEqual(['.github/w/ci.yml']);
    expect(await glob('**', { path: 'node_modules/p' })).toEqual(['node_modules/p/i.js']);
    expect((await grep({ pattern: 'needle', path: '.github' })).matches).toMatchObject([{ file: '.github/w/ci.yml' }]);
  });
});

describe('what is passed over', () => {
  test('a large file, a path that is too long and a binary file are counted, and those that `include` drops are not', async () => {
    plant('a.ts', 'needle\n');
    plant('b.js', 'needle\n');
    plant('late.bin', `needle\n${'x'.repeat(100_000)}\0`);
    plant('early.bin', '\0 needle\n');
    plant('other.bin', '\0 nothing\n');
    plant('large.log', '');
    truncateSync(join(workspace, 'large.log'), 10 * 1024 * 1024 + 1);
    const folder = 'd'.repeat(200);
    execFileSync(
      'sh',
      ['-c', `mkdir deep && cd deep && for i in $(seq 25); do mkdir ${folder} && cd -P ${folder}; done`],
      {
        cwd: workspace,
      },
    );
    expect(await grep({ pattern: 'needle' })).toMatchObject({
      count: 2,
      filesSearched: 5,
      truncated: true,
      skipped: { tooLarge: 1, tooDeep: 1, binary: 2 },
    });
    const some = await grep({ pattern: 'needle', include: '*.ts', path: '.', recursive: false });
    expect(some).toMatchObject({ count: 1, filesSearched: 1, truncated: false });
    expect(some).not.toHaveProperty('skipped');
    expect(await toolRunner({ workspace }).run('file_glob', { pattern: '*.ts' })).toMatchObject({ truncated: true });
    execFileSync('rm', ['-r', join(workspace, 'deep')]);
  });

  test('include takes a list with commas, names with commas, and the brackets and parentheses of routes', async () => {
    for (const folder of ['app/[id]', 'app/(auth)', 'app/i', 'app/[[...all]]'])
      mkdirSync(join(workspace, folder), { recursive: true });
    const files = ['app/[id]/a.ts', 'app/(auth)/a.ts', 'app/i/a.ts', 'app/[[...all]]/a.ts', 'b.js', 'c,d.md', 'd.md'];
    for (const file of files) plant(file, 'needle\n');
    const found = async (include: string) =>
      (await grep({ pattern: 'needle', include })).matches.map(({ file }) => file);
    expect(await found('*.js, *.md')).toEqual(['b.js', 'c,d.md', 'd.md']);
    expect(await found('c,d.md')).toEqual(['c,d.md', 'd.md']);
    expect(await found('{b,x}.js,app/i/{a,b}.ts')).toEqual(['app/i/a.ts', 'b.js']);
    expect(await found('app/[id]/*.ts')).toEqual(['app/[id]/a.ts', 'app/i/a.ts']);
    expect(await found('app/[[...all]]/**')).toContain('app/[[...all]]/a.ts');
    expect(await found('app/(auth)/*')).toEqual(['app/(auth)/a.ts']);
    expect(await glob('app/[id]/*.ts', { ignore: ['app/[id]/**'] })).toEqual([]);
    expect(await glob('app/*/a.ts', { ignore: ['app/[id]', 'app/(auth)'] })).toEqual(['app/[[...all]]/a.ts']);
    expect(await glob('[a-c][a-c][a-c]/[a-z]/[a-z]/[a-z]/[a-z]/[a-z]/[a-z]/x')).toEqual([]);
  });
});

const rule = (decision: 'ask' | 'deny', path: string): Rule => ({
  id: `${decision} ${path}`,
  match: { read: path },
  decision,
  reason: 'a test',
  source: 'x:1',
});
test.each(['ask', 'deny'] as const)(
  'a file that a rule would %s is neither found nor named, by its own name or through a link',
  async (decision) => {
    mkdirSync(join(workspace, 'vault'));
    mkdirSync(join(workspace, 'open'));
    symlinkSync('open', join(workspace, 'link'));
    for (const it of ['vault/a', 'open/b', 'open/key', 'c']) plant(it, 'needle');
    const rules = [rule(decision, 'vault'), rule(decision, 'open/key')];
    const run = toolRunner({ workspace, rules });
    expect((await run.run<Found>('file_grep', { pattern: 'needle' })).matches.map((it) => it.file)).toEqual([
      'c',
      'open/b',
    ]);
    expect(await run.run('file_glob', { pattern: '**', includeDirs: true })).toMatchObject({
      paths: ['c', 'open/', 'open/b'],
      total: 3,
    });
    expect(await run.run('file_glob', { pattern: '**', path: 'link' })).toMatchObject({ paths: ['link/b'] });
    expect(await run.run('file_search', { content: 'needle' })).toMatchObject({ totalMatches: 2 });
    expect(await run.run('workspace_structure', {})).toMatchObject({ files: 2 });
    expect(await run.run('file_read_many', { pattern: '**' })).toMatchObject({
      files: [{ path: 'c' }, { path: 'open/b' }],
      errors: [],
    });
    if (decision === 'deny')
      await expect(run.run('file_grep', { pattern: 'x', path: 'vault' })).rejects.toMatchObject({
        code: 'POLICY_DENIED',
      });
  },
);

describe('bounds', () => {
  test('a search gives at most maxResults lines, and truncated is true only if there were more', async () => {
    plant('a', 'needle\n'.repeat(10));
    expect(await grep({ pattern: 'needle', maxResults: 10 })).toMatchObject({ count: 10, truncated: false });
    expect(await grep({ pattern: 'needle', maxResults: 9 })).toMatchObject({ count: 9, truncated: true });
  });

  test('lines with their context end where the answer is full', async () => {
    plant('a', `${'x'.repeat(400)}\n`.repeat(500));
    const { count, truncated } = await grep(
      { pattern: 'x', contextLines: 50, maxResults: 5000 },
      { limits: { searchResultBytes: 20_000 } },
    );
    expect(truncated).toBe(true);
    expect(count).toBeLessThan(20);
  });

  test('a pattern that needs too much memory ends the search, not the host', async () => {
    plant('a', 'x');
    const some = { pattern: '[\\p{L}\\d]{900}[\\p{L}x]{900}' };
    await expect(grep(some, { limits: { searchMemoryBytes: 48 * 2 ** 20 } })).rejects.toMatchObject({
      code: /LIMIT|INVALID/,
    });
  });

  test.each([
    [
      'a[z-b]',
      'pattern is not a regular expression: invalid character class range, the start must be <= the end at character 3',
    ],
    ['a(', 'pattern is not a regular expression: unclosed group'],
    ['(?=a)', 'look-around, including look-ahead and look-behind, is not supported'],
    ['a\\nb', 'not allowed in a regex'],
  ])('the pattern %j is INPUT_INVALID and the error says why', async (pattern, why) => {
    await expect(grep({ pattern })).rejects.toMatchObject({
      code: 'INPUT_INVALID',
      message: expect.stringContaining(why),
    });
  });

  test('patterns and globs that look like options are what they are', async () => {
    plant('--files', '--pre=touch evil\n');
    expect((await grep({ pattern: '--pre=touch evil', literal: true })).matches).toMatchObject([{ file: '--files' }]);
    expect(await glob('--files')).toEqual(['--files']);
    expect((await grep({ pattern: '.', include: '--files', exclude: '-x' })).matches).toMatchObject([
      { file: '--files' },
    ]);
  });
});

test('an abort ends the search within 100 ms, and its ripgrep with it', async () => {
  plant('a', `${'needle '.repeat(50)}\n`.repeat(20_000));
  for (let i = 0; i < 40; i++) plant(`b${i}`, SLOW_TEXT);
  const controller = new AbortController();
  const pattern = slow('MARK');
  const running = grep({ pattern }, { signal: controller.signal });
  await until(() => processesWith('<MARK>').length > 0, 20_000);
  const from = performance.now();
  controller.abort(new Error('enough'));
  await expect(running).rejects.toThrow('enough');
  expect(performance.now() - from).toBeLessThan(100);
  await until(() => processesWith('<MARK>').length === 0);
});

test('a search that waits for others ends with its own abort, and leaves its turn to the next', async () => {
  for (let i = 0; i < 40; i++) plant(`b${i}`, SLOW_TEXT);
  const [first, second] = [new AbortController(), new AbortController()];
  const one = toolRunner({ workspace, limits: { searchesMax: 1 } });
  const start = (pattern: string, signal?: AbortSignal) => one.run<Found>('file_grep', { pattern }, signal);
  const running = start(slow('BUSY'), first.signal);
  await until(() => processesWith('<BUSY>').length > 0, 20_000);
  const waiting = start('x', second.signal);
  const next = start('nothing');
  second.abort(new Error('enough'));
  await expect(waiting).rejects.toThrow('enough');
  first.abort(new Error('enough'));
  await expect(running).rejects.toThrow('enough');
  expect(await next).toMatchObject({ count: 0, filesSearched: 40 });
});
