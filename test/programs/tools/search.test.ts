/** Searching and listing compared with ripgrep, find and a plain walk, on random trees. */
import { execFileSync, spawnSync } from 'node:child_process';
import { lstatSync, mkdirSync, mkdtempSync, readdirSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { rgPath } from '@vscode/ripgrep';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { toolRunner } from '../../support/search.ts';

const NAMES = ['a', 'b.ts', 'c.js', 'é', 'n m', '.h', 'nm', 'x.log', 'A', 'b-c.tsx'];
const LINES = ['foo', 'Foo bar', 'o', '', 'é foo', 'x\tfoo\r', 'bar', 'a.b'];
const IGNORED = ['nm', '*.log', '/a', '!x.log', 'a/b.ts', 'b*', '#', '**/c.js', 'é/'];

const file = fc.record({
  path: fc.array(fc.constantFrom(...NAMES), { minLength: 1, maxLength: 4 }),
  lines: fc.array(fc.constantFrom(...LINES), { maxLength: 5 }),
});
const tree = fc.record({
  files: fc.array(file, { maxLength: 14 }),
  ignored: fc.array(fc.constantFrom(...IGNORED), { maxLength: 3 }),
});
type Tree = typeof tree extends fc.Arbitrary<infer T> ? T : never;

function plant({ files, ignored }: Tree): string {
  const root = realpathSync(mkdtempSync(join(tmpdir(), 'ringfence-search-')));
  for (const { path, lines } of files) {
    try {
      mkdirSync(join(root, dirname(path.join('/'))), { recursive: true });
      writeFileSync(join(root, path.join('/')), lines.join('\n'));
    } catch {
      // EEXIST, ENOTDIR, EISDIR: the same random name for a file and a directory.
    }
  }
  if (ignored.length > 0) writeFileSync(join(root, '.gitignore'), ignored.join('\n'));
  return root;
}

const rg = (cwd: string, ...args: string[]): string[] =>
  spawnSync(rgPath, ['--no-config', '--no-require-git', '--null', ...args, './'], {
    cwd,
    stdio: ['ignore', 'pipe', 'ignore'],
  })
    .stdout.toString()
    .replaceAll('./', '')
    .split(args.includes('--files') ? '\0' : '\n')
    .filter((it) => it !== '')
    .sort();

const onTrees = async <T>(more: fc.Arbitrary<T>, check: (root: string, it: T) => Promise<void>) =>
  fc.assert(
    fc.asyncProperty(tree, more, async (planted, it) => {
      const root = plant(planted);
      try {
        await check(root, it);
      } finally {
        rmSync(root, { recursive: true });
      }
    }),
    { numRuns: 25 },
  );

test('file_grep finds the lines that ripgrep finds', async () => {
  const query = fc.record({
    pattern: fc.constantFrom('foo', 'b.r', '^a', 'o+$', 'Foo|é', '\\s'),
    caseSensitive: fc.boolean(),
    literal: fc.boolean(),
  });
  await onTrees(query, async (workspace, { pattern, caseSensitive, literal }) => {
    const flags = [caseSensitive ? '-s' : '-i', ...(literal ? ['-F'] : [])];
    const { matches, filesSearched } = await toolRunner({ workspace }).run<{
      matches: { file: string; line: number; text: string }[];
      filesSearched: number;
    }>('file_grep', { pattern, caseSensitive, literal });
    const told = matches.map(({ file: name, line, text }) => `${name}\0${line}:${text}`).sort();
    expect(told).toEqual(rg(workspace, '-n', '--crlf', ...flags, '-e', pattern).map((it) => it.replace(/\r$/, '')));
    expect(filesSearched).toBe(rg(workspace, '--files').length);
  });
});

const GLOBS = [
  '*',
  '**',
  '**/*.ts',
  '*.{ts,js}',
  'a/*',
  'a/**',
  'b.ts/**',
  '{a,b.ts}/**',
  '**/a/**',
  '[ab]*',
  '{a,nm}/**/*.ts',
  '/a',
  'é/**',
  '[!a]*',
  'b.ts',
  '*.ts*',
  '**/b*',
];

test('file_glob finds what ripgrep finds by the same glob, of the files that are not ignored', async () => {
  await onTrees(fc.constantFrom(...GLOBS), async (workspace, pattern) => {
    const { paths, total } = await toolRunner({ workspace }).run<{ paths: string[]; total: number }>('file_glob', {
      pattern,
    });
    const listed = new Set(rg(workspace, '--files'));
    expect(paths).toEqual(rg(workspace, '--files', '-g', pattern).filter((it) => listed.has(it)));
    expect(total).toBe(paths.length);
  });
});

test('file_glob leaves out what ripgrep leaves out by the same globs', async () => {
  await onTrees(fc.constantFrom(...GLOBS), async (workspace, ignore) => {
    const { paths } = await toolRunner({ workspace }).run<{ paths: string[] }>('file_glob', {
      pattern: '**',
      ignore: [ignore],
    });
    expect(paths).toEqual(rg(workspace, '--files', '-g', `!${ignore}`));
  });
});

test('file_search counts what ripgrep counts', async () => {
  await onTrees(fc.constantFrom('foo', 'o', '.'), async (workspace, content) => {
    const { files } = await toolRunner({ workspace }).run<{ files: { path: string; matches: number }[] }>(
      'file_search',
      { content },
    );
    const told = files.map((it) => `${it.path}\0${it.matches}`).sort();
    expect(told).toEqual(rg(workspace, '-F', '-i', '--count-matches', '-e', content));
  });
});

test('file_list lists what find finds', async () => {
  await onTrees(fc.constant(0), async (workspace) => {
    const { entries } = await toolRunner({ workspace }).run<{ entries: { path: string; size: number }[] }>(
      'file_list',
      {
        recursive: true,
        includeHidden: true,
      },
    );
    const found = execFileSync('find', ['.', '-mindepth', '1', '-printf', '%P %s\n'], { cwd: workspace }).toString();
    expect(entries.map((it) => `${it.path} ${it.size}`).sort()).toEqual(found.split('\n').filter(Boolean).sort());
  });
});

test('workspace_structure counts what a walk counts', async () => {
  await onTrees(fc.constant(0), async (workspace) => {
    rmSync(join(workspace, '.gitignore'), { force: true });
    const told = await toolRunner({ workspace }).run('workspace_structure', { maxDepth: 50 });
    expect(told).toMatchObject({ ...walk(workspace), truncated: false });
  });
});

function walk(directory: string): { files: number; directories: number; totalSize: number } {
  const sum = { files: 0, directories: 0, totalSize: 0 };
  for (const entry of readdirSync(directory, { withFileTypes: true })) {
    if (entry.name.startsWith('.')) continue;
    const path = join(directory, entry.name);
    const below = entry.isDirectory() ? walk(path) : { files: 1, directories: 0, totalSize: lstatSync(path).size };
    sum.files += below.files;
    sum.totalSize += below.totalSize;
    sum.directories += below.directories + (entry.isDirectory() && below.files > 0 ? 1 : 0);
  }
  return sum;
}
