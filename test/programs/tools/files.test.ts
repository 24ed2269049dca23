/** Several files at once, their order, and the tree of a workspace. */
import { mkdirSync, mkdtempSync, realpathSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { toolRunner } from '../../support/search.ts';

let workspace: string;
beforeEach(() => {
  workspace = realpathSync(mkdtempSync(join(tmpdir(), 'ringfence-files-')));
});
afterEach(() => rmSync(workspace, { recursive: true }));
function plant(path: string, content: string | Buffer = ''): void {
  mkdirSync(join(workspace, dirname(path)), { recursive: true });
  writeFileSync(join(workspace, path), content);
}

test('file_read_many reads what it can and tells of each file that it can not', async () => {
  plant('a', '\uFEFFé\r\n');
  plant('binary', Buffer.from([0, 1]));
  mkdirSync(join(workspace, 'dir'));
  const { files, errors } = await toolRunner({ workspace }).run<{ files: object[]; errors: object[] }>(
    'file_read_many',
    {
      paths: ['a', 'binary', 'dir', '../x', 'none', 'a'],
    },
  );
  expect(files).toMatchObject([{ path: 'a', content: '\uFEFFé\r\n', size: 7, truncated: false }]);
  expect(errors).toMatchObject([
    { path: 'binary', code: 'UNSUPPORTED' },
    { path: 'dir', code: 'UNSUPPORTED' },
    { path: '../x', code: 'ACCESS_DENIED' },
    { path: 'none', code: 'NOT_FOUND' },
  ]);
});

test('file_read_many cuts a file between characters, and stops where all are full', async () => {
  for (const it of ['a', 'b', 'c']) plant(it, 'éé');
  const run = toolRunner({ workspace, limits: { readManyBytesMax: 5 } });
  expect(await run.run('file_read_many', { pattern: '*', maxBytesEach: 3 })).toMatchObject({
    files: [
      { path: 'a', content: 'é', truncated: true },
      { path: 'b', content: 'é', truncated: true },
      { path: 'c', content: '', truncated: true },
    ],
    errors: [],
  });
  expect(await run.run('file_read_many', { pattern: '*', maxFiles: 2 })).toMatchObject({ truncated: true });
  await expect(run.run('file_read_many', { pattern: '*', paths: ['a'] })).rejects.toMatchObject({
    code: 'INPUT_INVALID',
  });
});

test('file_glob sorts by name, path and time, and bounds what it returns, not what it counts', async () => {
  for (const [at, it] of ['b/a', 'a/c', 'a/b'].entries()) {
    plant(it);
    utimesSync(join(workspace, it), at, at);
  }
  const glob = (more: object) => toolRunner({ workspace }).run('file_glob', { pattern: '**', ...more });
  expect(await glob({ sortBy: 'path' })).toMatchObject({ paths: ['a/b', 'a/c', 'b/a'] });
  expect(await glob({ sortBy: 'name' })).toMatchObject({ paths: ['b/a', 'a/b', 'a/c'] });
  expect(await glob({ sortBy: 'modified' })).toMatchObject({ paths: ['a/b', 'a/c', 'b/a'] });
  expect(await glob({ path: 'a', sortBy: 'modified', maxResults: 1 })).toEqual({
    paths: ['a/b'],
    total: 2,
    truncated: true,
  });
  expect(await glob({ includeDirs: true, pattern: 'a*' })).toMatchObject({ paths: ['a/', 'b/a'] });
});

test('workspace_structure shows so many levels, files and lines, and counts the rest', async () => {
  for (let i = 0; i < 50; i++) plant(`many/${String(i).padStart(2, '0')}`);
  plant('deep/er/est/x', 'four');
  plant('odd\n└── name');
  const run = toolRunner({ workspace });
  const { tree, ...counts } = await run.run<{ tree: string }>('workspace_structure', { maxDepth: 2 });
  expect(counts).toEqual({ files: 52, directories: 4, totalSize: 4, truncated: true });
  expect(tree).toContain('./ (52 files)\n├── deep/ (1 file)\n│   └── er/ (1 file)\n├── many/ (50 files)\n│   ├── 00\n');
  expect(tree).toContain('│   └── … 10 more\n└── odd�└── name\n');
  const few = await toolRunner({ workspace, limits: { treeLinesMax: 5 } }).run<{ tree: string }>(
    'workspace_structure',
    {},
  );
  expect(few.tree.trimEnd().split('\n')).toHaveLength(5);
  expect(await run.run('workspace_structure', { exclude: ['many', 'odd*'] })).toMatchObject({
    files: 1,
    truncated: false,
  });
  expect(await run.run('workspace_structure', { path: './many/', maxDepth: 1 })).toMatchObject({
    files: 50,
    directories: 0,
  });
});
