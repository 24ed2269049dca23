/** The allow-list of file types in docs/policy.md lets no other type through, however its name or path is written. */
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Client } from '../../src/client/client.ts';
import { dataOf, repository, startDaemon, type TestDaemon } from '../support/daemon.ts';

const docs = readFileSync(join(repository, 'docs/policy.md'), 'utf8');
const [, recipe = ''] = /```yaml\n(rules:\n {2}- id: file-types\n[\s\S]*?)```/.exec(docs) ?? [];
const OTHER = 'only a program may hold this';

let daemon: TestDaemon;
let client: Client;
beforeAll(async () => {
  expect(recipe).toContain('file-types');
  daemon = await startDaemon({ policy: recipe });
  client = await daemon.connect();
  mkdirSync(join(daemon.workspace, 'a.txt.d'));
  mkdirSync(join(daemon.workspace, 'in'));
  for (const it of [
    'x.exe',
    'x.TXT',
    'x.txt.',
    'x.txt.exe',
    '.x.exe',
    '..x',
    'in/x.exe',
    'a.txt.d/x.exe',
    'x.txt ',
    'x.md\u200b',
  ])
    writeFileSync(join(daemon.workspace, it), OTHER);
  for (const it of ['notes.txt', 'in/guide.md', 'Makefile', '.gitignore', 'in/v1.2.txt'])
    writeFileSync(join(daemon.workspace, it), 'fine\n');
  symlinkSync('x.exe', join(daemon.workspace, 'link.txt'));
  symlinkSync('in', join(daemon.workspace, 'in.txt'));
});
afterAll(async () => {
  await client[Symbol.asyncDispose]();
  await daemon[Symbol.asyncDispose]();
});

test.each(['notes.txt', 'in/guide.md', 'Makefile', '.gitignore', 'in/v1.2.txt'])('%s is let through', async (path) => {
  expect(await dataOf(client.call('file_read', { path }))).toMatchObject({ content: 'fine\n' });
  expect(await dataOf(client.call('terminal_execute', { command: `cat ${path}` }))).toMatchObject({ stdout: 'fine\n' });
});

test.each([
  ...[
    'x.exe',
    './x.exe',
    '.x.exe',
    '..x',
    'x.TXT',
    'x.txt.',
    'x.txt.exe',
    'x.txt ',
    'x.md\u200b',
    'in/x.exe',
    'in/../x.exe',
    'in//x.exe',
  ],
  ...[
    'notes.txt/../x.exe',
    'a.txt.d/../x.exe',
    'a.txt.d/x.exe',
    'in.txt/x.exe',
    'link.txt',
    'in/./../link.txt',
    'x.exe/',
    'x.exe/.',
  ],
])('%j is read by no tool and no command', async (path) => {
  const read = await client.call('file_read', { path });
  expect(read).toMatchObject({ success: false });
  expect(JSON.stringify(read)).not.toContain(OTHER);
  const shown = await client.call('terminal_execute', { command: 'cat "$FILE"; cat < "$FILE"', env: { FILE: path } });
  expect(JSON.stringify(shown)).not.toContain(OTHER);
});

test.each(['y.exe', 'y.TXT', 'y.txt.', 'notes.txt/../y.exe', 'new.txt/../y.exe'])('%j is not written', async (path) => {
  expect(await client.call('file_write', { path, content: 'x' })).toMatchObject({ success: false });
  expect(await client.call('file_copy', { sourcePath: 'notes.txt', destPath: path })).toMatchObject({ success: false });
});

test('a file of another type gets no allowed name by a move, a copy or a link', async () => {
  for (const from of ['x.exe', 'in/x.exe', 'a.txt.d'])
    for (const tool of ['file_rename', 'file_copy'] as const) {
      const input =
        tool === 'file_rename' ? { oldPath: from, newPath: 'got.txt' } : { sourcePath: from, destPath: 'got.txt' };
      expect(await client.call(tool, input as never)).toMatchObject({ success: false });
    }
  const command =
    'f=x.ex; for how in "mv" "cp" "ln" "ln -s"; do $how "${f}e" got.txt; cat got.txt; rm -f got.txt; done; mv in open; cat open/*';
  expect(JSON.stringify(await client.call('terminal_execute', { command }))).not.toContain(OTHER);
  expect(await client.call('file_grep', { pattern: 'program' })).toMatchObject({
    success: true,
    data: { matches: [] },
  });
});

test('a folder with a dot in its name is let through where the list names it, and no other type in it', async () => {
  const named = recipe.replace("'**/*.md'", "'**/*.md', 'conf.d{,/**/*.txt}'");
  await using other = await startDaemon({ policy: named });
  await using agent = await other.connect();
  mkdirSync(join(other.workspace, 'conf.d'));
  for (const it of ['a.txt', 'x.exe']) writeFileSync(join(other.workspace, 'conf.d', it), OTHER);
  expect(await agent.call('file_read', { path: 'conf.d/a.txt' })).toMatchObject({ success: true });
  expect(await agent.call('file_read', { path: 'conf.d/x.exe' })).toMatchObject({ success: false });
});
