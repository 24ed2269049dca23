/** Committing previews through a real daemon: parts of them, conflicts of each kind, bounds, and who may. */
import {
  chmodSync,
  existsSync,
  globSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import type { CommitResult, ToolResult } from '../../src/base/call.ts';
import type { CommandPreview } from '../../src/base/preview.ts';
import { type Client, createClient } from '../../src/client/client.ts';
import { type OpenDaemon, openDaemon, removeTree, temporaryDir, until } from '../support/daemon.ts';
import { treeWithModes } from '../support/workspace.ts';

let daemon: OpenDaemon;
let client: Client;

beforeAll(async () => {
  daemon = await openDaemon({
    limits: {
      previewsPerSessionMax: 4,
      previewBytesMax: 32 * 1024 * 1024,
      previewEntriesMax: 3_000,
      previewMeasureMs: 200,
    },
    config: { principals: { nightly: { policy: 'default' } } },
  });
});
afterAll(async () => {
  await daemon[Symbol.asyncDispose]();
});
beforeEach(async () => {
  client = await daemon.connect();
  mkdirSync(at('d/deep'), { recursive: true });
  writeFileSync(at('a'), 'a\n');
  writeFileSync(at('d/b'), 'b\n');
  writeFileSync(at('d/deep/c'), 'c\n');
});
afterEach(async () => {
  await client[Symbol.asyncDispose]();
  for (const it of readdirSync(daemon.workspace)) removeTree(at(it));
});

const at = (path: string) => join(daemon.workspace, path);
const tree = () => treeWithModes(daemon.workspace);
const called = (command: string, by = client) =>
  by.call('terminal_execute', { command }, { preview: true }) as unknown as Promise<ToolResult>;

async function preview(command: string, by = client): Promise<CommandPreview> {
  const result = await called(command, by);
  if (!result.success) throw new Error(`${result.error.code}: ${result.error.message}`);
  return result.preview as CommandPreview;
}
const commit = (previewId: string, paths?: string[], by = client) =>
  by.request('calls.commit', { previewId, ...(paths && { paths }) }) as Promise<CommitResult>;

test('some of the paths can be committed: files, what is in a new folder, a removed folder', async () => {
  const shown = await preview(
    'echo 2 >> a; rm -r d; mkdir -p n/in; echo 1 > n/in/one; echo 2 > n/in/two; echo 3 > n/three',
  );
  expect(await commit(shown.id, ['n/in/one'])).toMatchObject({ committed: ['n', 'n/in', 'n/in/one'], conflicts: [] });
  expect(Object.keys(tree()).filter((it) => it.startsWith('n'))).toEqual(['n', 'n/in', 'n/in/one']);
  expect(readFileSync(at('a'), 'utf8')).toBe('a\n');
  expect(await commit(shown.id, ['d/'])).toMatchObject({ committed: ['d'], removed: ['d'] });
  expect(existsSync(at('d'))).toBe(false);
  expect(await commit(shown.id, ['a'])).toMatchObject({ committed: ['a'] });
  expect(await commit(shown.id, ['nothing'])).toMatchObject({ error: { code: 'NOT_FOUND' } });
  expect(await client.request('calls.discard', { previewId: shown.id })).toEqual({ discarded: true });
  await expect(commit(shown.id)).rejects.toThrow('no preview');
});

const CONFLICTS: [string, string, () => unknown, string][] = [
  ['a file that was written', 'echo x >> a', () => writeFileSync(at('a'), 'mine\n'), 'a'],
  ['a file with other permissions', 'chmod 700 a', () => chmodSync(at('a'), 0o600), 'a'],
  ['a file that is gone', 'echo x >> a', () => rmSync(at('a')), 'a'],
  ['a file that is a link now', 'echo x >> a', () => [rmSync(at('a')), symlinkSync('d/b', at('a'))], 'a'],
  ['a removed file that was written', 'rm a', () => writeFileSync(at('a'), 'mine\n'), 'a'],
  ['a removed folder with a new file in it', 'rm -r d', () => writeFileSync(at('d/deep/mine'), 'mine'), 'd'],
  ['a new file whose name is taken', 'echo x > n', () => writeFileSync(at('n'), 'mine'), 'n'],
  ['a new folder whose name is taken', 'mkdir n; echo x > n/f', () => mkdirSync(at('n')), 'n'],
  ['a folder of a changed file that is gone', 'echo x >> d/b', () => rmSync(at('d'), { recursive: true }), 'd/b'],
  [
    'a folder of a new file that is a link now',
    'echo x > d/deep/n',
    () => [renameSync(at('d/deep'), at('e')), symlinkSync('../e', at('d/deep'))],
    'd/deep/n',
  ],
  ['a folder with other permissions', 'chmod 700 d', () => chmodSync(at('d'), 0o750), 'd'],
  ['a file that became a folder', 'rm a; mkdir a; echo x > a/f', () => writeFileSync(at('a'), 'mine'), 'a'],
];
test.each(CONFLICTS)('nothing is committed over %s', async (_, command, change, path) => {
  const shown = await preview(`${command}; echo other > other`);
  change();
  const before = tree();
  expect(await commit(shown.id)).toMatchObject({ committed: [], conflicts: [path], undo: 'none' });
  expect(tree()).toEqual(before);
});

test('a change by others during the command is a conflict, too, and files that they add are left alone', async () => {
  const running = called(
    'cat a > /dev/null; ls d > /dev/null; touch begun; sleep 3; echo x >> a; rm d/deep/c; echo y > d/new',
  );
  // The command has begun when its overlay holds something.
  const begun = join(daemon.stateDir, 'previews/*/*/upper/begun');
  await until(() => globSync(begun).length > 0, 30_000);
  writeFileSync(at('a'), 'mine\n');
  writeFileSync(at('d/deep/c'), 'mine, too\n');
  writeFileSync(at('d/others'), 'from somebody else');
  const result = await running;
  expect(result).toHaveProperty('preview');
  const { preview: shown } = result as { preview: CommandPreview };
  expect(shown.changes.map(({ path }) => path).toSorted()).toEqual(['a', 'begun', 'd/deep/c', 'd/new']);
  expect((await commit(shown.id)).conflicts.toSorted()).toEqual(['a', 'd/deep/c']);
  expect(readFileSync(at('a'), 'utf8')).toBe('mine\n');
  expect(await commit(shown.id, ['d/new'])).toMatchObject({ committed: ['d/new'] });
  expect(existsSync(at('d/others'))).toBe(true);
});

test('force puts what the command did in place of what changed since, and undo brings that back', async () => {
  const command = 'echo new > a; rm d/b; rm -r d/deep; mkdir made; echo x > made/x; echo y > fresh; chmod 700 d';
  const { id } = await preview(command);
  writeFileSync(at('a'), 'mine\n');
  rmSync(at('d/b'));
  writeFileSync(at('d/deep/c'), 'mine\n');
  mkdirSync(at('made'));
  writeFileSync(at('made/mine'), 'mine\n');
  writeFileSync(at('fresh'), 'mine\n');
  const mine = tree();
  const plain = (await client.request('calls.commit', { previewId: id })) as CommitResult;
  expect(plain.conflicts.toSorted()).toEqual(['a', 'd/b', 'd/deep', 'fresh', 'made']);
  expect(tree()).toEqual(mine);

  // A new folder is put as a whole, so one that somebody else made stays in its way.
  const refused = (await client.request('calls.commit', { previewId: id, force: true })) as CommitResult;
  expect(refused).toMatchObject({ committed: [], conflicts: ['made'] });
  expect(tree()).toEqual(mine);
  const paths = ['a', 'd', 'fresh'];
  const forced = (await client.request('calls.commit', { previewId: id, paths, force: true })) as CommitResult;
  expect(forced).toMatchObject({ conflicts: [], undo: 'full' });
  expect(readFileSync(at('a'), 'utf8')).toBe('new\n');
  expect(readFileSync(at('fresh'), 'utf8')).toBe('y\n');
  expect([existsSync(at('d/b')), existsSync(at('d/deep'))]).toEqual([false, false]);
  expect(statSync(at('d')).mode & 0o777).toBe(0o700);
  expect(await client.undo(forced.callId as string)).toMatchObject({ conflicts: [] });
  expect(tree()).toEqual(mine);
});

test('devices, fifos, sockets and what others trust are listed, and committed by no means', async () => {
  const listener = "perl -MIO::Socket::UNIX -e 'IO::Socket::UNIX->new(Local => q(socket), Listen => 1)'";
  const shown = await preview(
    `mkfifo fifo; ${listener}; g=.gi; v=.vsc; mkdir -p r/$g't'/hooks $v'ode'; echo x > r/$g't'/hooks/pre-commit; echo {} > $v'ode'/tasks.json; echo gitdir > r/file`,
  );
  const refused = shown.unsupported.map(({ path }) => path).toSorted();
  expect(refused).toEqual(['.vscode', 'fifo', 'r/.git', 'socket']);
  expect(await commit(shown.id)).toMatchObject({ error: { code: 'UNSUPPORTED' } });
  for (const path of ['fifo', '.vscode', '.vscode/tasks.json', 'r/.git/hooks/pre-commit', 'socket'])
    expect((await commit(shown.id, [path])).error?.code, path).toMatch(/NOT_FOUND|POLICY_DENIED|ACCESS_DENIED/);
  expect(await commit(shown.id, ['r'])).toMatchObject({ conflicts: [] });
  expect(existsSync(at('r/.git'))).toBe(false);
  expect(readFileSync(at('r/file'), 'utf8')).toBe('gitdir\n');
});

test('a session keeps a few previews, and other principals see none of them', async () => {
  const shown = [];
  for (let n = 0; n < 4; n++) shown.push(await preview(`echo ${n} > f${n}`));
  expect(await called('echo 5 > f5')).toMatchObject({ success: false, error: { code: 'RATE_LIMITED' } });
  const [first] = shown as [CommandPreview];
  const token = readFileSync(join(daemon.stateDir, 'tokens/nightly.token'), 'utf8').trim();
  await using nightly = await createClient({ socket: daemon.socket, workspace: daemon.workspace, token });
  await expect(commit(first.id, undefined, nightly)).rejects.toThrow('no preview');
  await expect(nightly.request('calls.diff', { previewId: first.id, path: 'f0' })).rejects.toThrow('no preview');
  await expect(nightly.request('calls.discard', { previewId: first.id })).rejects.toThrow('no preview');
  mkdirSync(at('elsewhere'));
  await using elsewhere = await daemon.connect({ workspace: at('elsewhere') });
  await expect(commit(first.id, undefined, elsewhere)).rejects.toThrow('no preview');
  // Another session of the same principal, such as the next run of the command line.
  await using other = await daemon.connect();
  expect(await commit(first.id, undefined, other)).toMatchObject({ committed: ['f0'] });
  await preview('echo 5 > f5');
});

test('a preview that grows too large is ended, and nothing of it is kept', async () => {
  const left = () =>
    readdirSync(join(daemon.stateDir, 'previews')).flatMap((it) => readdirSync(join(daemon.stateDir, 'previews', it)));
  const before = left().length;
  const filled = await called('head -c 30M /dev/zero > one; head -c 30M /dev/zero > two; sleep 30');
  expect(filled).toMatchObject({ success: false, error: { code: 'FILE_LIMIT' } });
  const many = await called('for i in $(seq 4000); do : > $i; done');
  expect(many).toMatchObject({ success: false, error: { code: 'FILE_LIMIT' } });
  await until(() => left().length <= before, 30_000);
  expect(Object.keys(tree())).toEqual(['a', 'd', 'd/b', 'd/deep', 'd/deep/c']);
});

test('a preview keeps no home, has no network, and its config changes reach no repository', async () => {
  await client.call('terminal_execute', { command: 'git init -q r && cd r && git config user.name before' });
  const result = (await called(
    'echo x > ~/left; cd r && git config user.name after; (echo > /dev/tcp/127.0.0.1/1) 2>&1; ls /sys/class/net 2>/dev/null; true',
  )) as ToolResult;
  expect(result.success).toBe(true);
  const home = await client.call('terminal_execute', { command: 'cat ~/left; cat r/.git/config' });
  expect(home).toMatchObject({ data: { stdout: expect.stringContaining('before') as string } });
  expect(JSON.stringify(home)).not.toContain('after');
  expect((home as { data: { stderr: string } }).data.stderr).toContain('No such file');
});

test('a preview has nothing to undo, and the folder of a repository keeps its permissions', async () => {
  await client.call('terminal_execute', { command: 'git init -q r && chmod 755 r/.git' });
  const result = await called('chmod 700 r/.git && echo x > r/n && cd r && git add n');
  expect(result.metadata).toMatchObject({ undo: 'none' });
  expect(result.metadata).not.toHaveProperty('undoMissing');
  const { id, unsupported } = (result as { preview: CommandPreview }).preview;
  expect(unsupported.map(({ path }) => path)).toEqual(['r/.git']);
  expect(await commit(id)).toMatchObject({ error: { code: 'UNSUPPORTED' } });
  const done = await commit(id, ['r']);
  expect(done).toMatchObject({ conflicts: [], undo: 'full' });
  expect(statSync(at('r/.git')).mode & 0o777).toBe(0o755);
  expect(existsSync(at('r/.git/index'))).toBe(true);
  expect(await client.undo(done.callId as string)).toMatchObject({ conflicts: [] });
  expect([existsSync(at('r/n')), existsSync(at('r/.git/index'))]).toEqual([false, false]);
});

test('a failed command has a preview, a command that is ended has none; other tools without preview still say so', async () => {
  expect(await called('echo x > n; exit 3')).toMatchObject({
    success: true,
    data: { exitCode: 3 },
    preview: { total: 1 },
  });
  const ended = await client.call(
    'terminal_execute',
    { command: 'echo x > n; sleep 30', timeout: 1_000 },
    { preview: true },
  );
  expect(ended).toMatchObject({ success: false, error: { code: 'TIMEOUT' } });
  const empty = await preview('true');
  expect(empty).toMatchObject({ changes: [], total: 0 });
  expect(await commit(empty.id)).toMatchObject({ committed: [], conflicts: [] });
  expect(await client.call('git_status', {}, { preview: true })).toMatchObject({
    success: false,
    error: { code: 'UNSUPPORTED' },
  });
});

test('a preview says after an orderly restart that the daemon was restarted, and nothing of it stays on the disk', async () => {
  const [stateDir, workspace] = [temporaryDir('state'), temporaryDir('ws')];
  let id: string;
  {
    await using first = await openDaemon({ stateDir, workspace });
    await using by = await first.connect();
    id = (await preview('head -c 1M /dev/zero > big', by)).id;
  }
  {
    await using second = await openDaemon({ stateDir, workspace });
    await using by = await second.connect();
    await expect(commit(id, undefined, by)).rejects.toThrow('was lost when the daemon restarted');
    await expect(by.request('calls.diff', { previewId: id, path: 'big' })).rejects.toThrow('run the command again');
    const all = () => readdirSync(join(stateDir, 'previews'), { recursive: true }).map(String);
    const left = () => all().filter((it) => it.includes(id));
    await until(() => left().length === 0, 30_000);
  }
  for (const it of [stateDir, workspace]) removeTree(it);
});
