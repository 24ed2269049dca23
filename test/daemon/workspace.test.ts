/** Folders added while a daemon runs. */
import { spawnSync } from 'node:child_process';
import { mkdirSync, readdirSync, realpathSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { ringfence, startDaemon, type TestDaemon, temporaryDir } from '../support/daemon.ts';

let daemon: TestDaemon;
const other = realpathSync(temporaryDir('other'));
beforeAll(async () => {
  daemon = await startDaemon();
  writeFileSync(join(other, 'a.txt'), 'there');
  mkdirSync(join(other, 'part'));
});
afterAll(async () => {
  await daemon[Symbol.asyncDispose]();
  rmSync(other, { recursive: true, force: true });
});

function workspace(...args: string[]) {
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    [ringfence, 'workspace', ...args, '--state', daemon.stateDir],
    {
      env: { PATH: process.env.PATH ?? '', HOME: join(daemon.stateDir, 'home') },
      encoding: 'utf8',
    },
  );
  return { status, stdout, stderr };
}

const opened = async (path: string): Promise<string> => {
  await using client = await daemon.connect({ workspace: path });
  const read = await client.call('file_read', { path: path === other ? 'a.txt' : '../a.txt' });
  return read.success ? 'read' : read.error.code;
};

test('a folder is refused with the words that add it, is taken as soon as it is added, and refused again when removed', async () => {
  await expect(opened(other)).rejects.toThrow(`ringfence workspace add ${other}`);
  expect(workspace('add', other)).toMatchObject({ status: 0, stdout: `${other}\n` });
  expect(workspace('add', other).stderr).toMatch(/was already added/);
  expect(await opened(other)).toBe('read');
  expect(await opened(join(other, 'part'))).toBe('ACCESS_DENIED');
  expect(workspace('list').stdout).toContain(`${other}   (ringfence workspace add)`);
  await using going = await daemon.connect({ workspace: other });
  expect(workspace('remove', other).status).toBe(0);
  await expect(opened(other)).rejects.toThrow(/not one of this daemon/);
  expect(await going.call('file_read', { path: 'a.txt' })).toMatchObject({ success: true });
  expect(workspace('remove', other)).toMatchObject({
    status: 1,
    stderr: expect.stringMatching(/was not added as a workspace/),
  });
});

test.each([
  ['/', /root directory/],
  ['/nowhere/at/all', /is not a directory/],
])('%s is never one', (path, why) => {
  expect(workspace('add', path)).toMatchObject({ status: 2, stderr: expect.stringMatching(why) });
});

test('the state directory, and what holds it, is never one, not by a file that somebody wrote either', async () => {
  expect(workspace('add', daemon.stateDir).status).toBe(2);
  writeFileSync(join(daemon.stateDir, 'workspaces.json'), JSON.stringify([daemon.stateDir, '/']));
  await expect(opened('/usr')).rejects.toThrow(/not one of this daemon/);
  writeFileSync(join(daemon.stateDir, 'workspaces.json'), '{');
  const broken = expect.stringContaining('workspaces.json is not a list of at most 64 folders');
  expect(workspace('list')).toMatchObject({ status: 2, stderr: broken });
  await expect(opened(other)).rejects.toThrow(/not one of this daemon/);
  rmSync(join(daemon.stateDir, 'workspaces.json'));
});

test('a workspace that became a link elsewhere is no workspace any more', async () => {
  const gone = join(other, 'gone');
  mkdirSync(gone);
  workspace('add', gone);
  rmSync(gone, { recursive: true });
  symlinkSync('/usr', gone);
  await expect(opened(gone)).rejects.toThrow(/not one of this daemon/);
});

test('a folder that another one took the place of is worked in, and not the one that was moved away', async () => {
  const folder = join(other, 'replaced');
  mkdirSync(join(folder, 'deep'), { recursive: true });
  writeFileSync(join(folder, 'a.txt'), 'first');
  await using own = await startDaemon({ workspace: folder });
  await using client = await own.connect();
  const all = () =>
    Promise.all([
      client.call('file_read', { path: 'a.txt' }),
      client.call('file_write', { path: 'written', content: '' }),
      client.call('terminal_execute', { command: 'touch made; cat a.txt deep/.e*' }),
    ]);
  expect(await all()).toMatchObject([{ data: { content: 'first' } }, { success: true }, { data: { stdout: 'first' } }]);
  for (const away of [() => renameSync(folder, `${folder}-moved`), () => rmSync(folder, { recursive: true })]) {
    away();
    const gone = { success: false, error: { code: 'NOT_FOUND', message: expect.stringContaining(folder) } };
    expect(await all()).toMatchObject([gone, gone, gone]);
    mkdirSync(join(folder, 'deep'), { recursive: true });
    writeFileSync(join(folder, 'a.txt'), 'second');
    writeFileSync(join(folder, 'deep/.env'), 'KEY=1');
    expect(await all()).toMatchObject([
      { data: { content: 'second' } },
      { success: true },
      { data: { stdout: 'second', stderr: expect.stringContaining('denied') } },
    ]);
    expect(readdirSync(folder).sort()).toEqual(['a.txt', 'deep', 'made', 'written']);
  }
});
