/** What commands change is undone like the changes of other calls, through a real daemon. */
import { execFileSync } from 'node:child_process';
import { chownSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Client } from '../../src/client/client.ts';
import { runCli } from '../support/cli.ts';
import { canServeOthers, type OpenDaemon, openDaemon, temporaryDir, until } from '../support/daemon.ts';
import { treeWithModes } from '../support/workspace.ts';

let daemon: OpenDaemon;
let client: Client;

interface Answer {
  callId: string;
  restored: string[];
  removed: string[];
  conflicts: string[];
  merged: string[];
  undo: string;
  error?: { code: string; message: string };
}

beforeAll(async () => {
  daemon = await openDaemon();
  client = await daemon.connect();
  await ready(client);
}, 60_000);
afterAll(async () => {
  await client[Symbol.asyncDispose]();
  await daemon[Symbol.asyncDispose]();
});

const at = (path: string) => join(daemon.workspace, path);
const tree = () => treeWithModes(daemon.workspace);
const run = (command: string, by = client) => by.call('terminal_execute', { command });
const undo = (callId: string, force = false, by = client) =>
  by.request('calls.undo', { callId, force }) as Promise<Answer>;

/** The workspace is read in the background; until then commands say that they can't be undone. */
async function ready(by: Client): Promise<void> {
  await until(async () => (await run('date +%N > .ready', by)).metadata.undo === 'full', 40_000);
  await run('rm .ready', by);
}

test('a command is undone, and its undo, too', async () => {
  mkdirSync(at('src/deep'), { recursive: true });
  writeFileSync(at('src/a.txt'), 'a\n');
  writeFileSync(at('src/deep/b.txt'), 'b\n');
  const before = tree();
  const made = await run(
    'mv src lib && echo more >> lib/a.txt && chmod 700 lib/deep && ln -s lib link && echo x > new',
  );
  expect(made.metadata).toMatchObject({ undo: 'full' });
  expect(made.metadata.undoMissing).toBeUndefined();
  const after = tree();
  const first = await undo(made.callId);
  expect(first).toMatchObject({ conflicts: [], undo: 'full' });
  expect(tree()).toEqual(before);
  expect(await undo(first.callId)).toMatchObject({ conflicts: [] });
  expect(tree()).toEqual(after);
  expect(await undo(made.callId)).toMatchObject({ conflicts: [] });
  expect(tree()).toEqual(before);
});

test.each([
  ['of loose objects', ''],
  ['of packs', 'git gc -q'],
])('rm -rf .git of a repository %s is undone: git finds all of it as it was', async (_, more) => {
  // The first command waits for undo to be ready, however busy the machine is.
  await using own = await openDaemon({ policy: 'extends: default\n', limits: { shadowBeginMs: 30_000 } });
  const git = (script: string) => execFileSync('bash', ['-ec', script], { cwd: own.workspace, encoding: 'utf8' });
  const author = 'export GIT_AUTHOR_NAME=A GIT_AUTHOR_EMAIL=a@b.c GIT_COMMITTER_NAME=A GIT_COMMITTER_EMAIL=a@b.c';
  git(`${author}; git init -q; echo one > a; git add a; git commit -qm first; git tag v1; ${more}
    echo two > a; git commit -qam second; git branch side; echo staged > b; git add b`);
  const shown = () =>
    git('git fsck --strict 2>&1; git log --all --format="%H %D"; git status --short; git diff --cached');
  const before = shown();
  await using by = await own.connect();
  const gone = await run('rm -rf .git; git status', by);
  expect(gone).toMatchObject({ success: true, metadata: { undo: 'full' } });
  expect(existsSync(join(own.workspace, '.git/HEAD'))).toBe(false);
  expect(await undo(gone.callId, false, by)).toMatchObject({ conflicts: [], undo: 'full' });
  expect(shown()).toBe(before);
});

test('the very first command in a workspace of 20 000 files waits until it can be undone', async () => {
  const workspace = temporaryDir('many');
  for (let i = 0; i < 200; i++) {
    mkdirSync(join(workspace, `d${i}`));
    for (let k = 0; k < 100; k++) writeFileSync(join(workspace, `d${i}/f${k}`), 'x'.repeat(2_000) + i);
  }
  await using own = await openDaemon({ policy: 'extends: default\n', workspace });
  await using by = await own.connect();
  const first = await run('echo x > d0/f0; rm d0/f1', by);
  expect(first).toMatchObject({ success: true, metadata: { undo: 'full' } });
  expect(await undo(first.callId, false, by)).toMatchObject({ conflicts: [], undo: 'full' });
  expect(readFileSync(join(workspace, 'd0/f1'), 'utf8')).toHaveLength(2_001);
  rmSync(workspace, { recursive: true });
});

test.runIf(canServeOthers)(
  "changes in another user's folder say why a daemon of root keeps nothing of them",
  async () => {
    const workspace = temporaryDir('theirs');
    chownSync(workspace, 64_123, 64_123);
    await using own = await openDaemon({ policy: 'extends: careful\n', workspace });
    await using by = await own.connect();
    const asked: unknown[] = [];
    await using operator = await own.connect({ role: 'operator' });
    using _ = await operator.onApproval((it) => {
      asked.push(it);
      return { decision: 'approve' };
    });
    const written = await by.call('file_write', { path: 'a', content: 'a' });
    expect(written.metadata).toMatchObject({ undo: 'none', undoMissing: [{ path: 'a', why: 'other-user' }] });
    expect(await undo(written.callId, false, by)).toMatchObject({
      error: { message: expect.stringContaining('other-user') },
    });
    const changed = await run('echo b > b', by);
    expect(changed.metadata).toMatchObject({ undo: 'none', undoMissing: [{ path: 'b', why: 'other-user' }] });
    expect(await by.call('file_delete', { path: 'a' })).toMatchObject({ success: true });
    expect(asked.length).toBeGreaterThan(0);
    expect(JSON.stringify(asked)).not.toContain('Can be undone');
    rmSync(workspace, { recursive: true });
  },
);

test('a command that changes nothing says none, without more', async () => {
  const nothing = await run('true');
  expect(nothing.metadata.undo).toBe('none');
  expect(nothing.metadata.undoMissing).toBeUndefined();
  expect(await undo(nothing.callId)).toMatchObject({
    error: { code: 'UNSUPPORTED', message: expect.stringContaining('changed no file') },
  });
});

test('a failed command is undone as well', async () => {
  const failed = await run('echo half > half; exit 3');
  expect(failed.metadata.undo).toBe('full');
  expect(await undo(failed.callId)).toMatchObject({ removed: ['half'] });
  expect(readdirSync(daemon.workspace)).not.toContain('half');
});

test("a person's later edit is a conflict or merged, and is never lost", async () => {
  const text = Array.from({ length: 12 }, (_, i) => `line ${i}\n`).join('');
  writeFileSync(at('text'), text);
  const edited = await run("sed -i 's/line 1$/LINE 1/' text");
  writeFileSync(at('text'), readFileSync(at('text'), 'utf8').replace('line 10', 'mine'));
  expect(await undo(edited.callId)).toMatchObject({ conflicts: [], merged: ['text'] });
  expect(readFileSync(at('text'), 'utf8')).toBe(text.replace('line 10', 'mine'));
  const other = await run("sed -i 's/mine/theirs/' text; echo new > fresh");
  writeFileSync(at('text'), 'wholly other\n');
  writeFileSync(at('fresh'), 'kept\n');
  expect(await undo(other.callId)).toMatchObject({
    restored: [],
    conflicts: expect.arrayContaining(['text', 'fresh']),
  });
  expect(readFileSync(at('text'), 'utf8')).toBe('wholly other\n');
  const forced = await undo(other.callId, true);
  expect(readdirSync(daemon.workspace)).not.toContain('fresh');
  await undo(forced.callId);
  expect([readFileSync(at('text'), 'utf8'), readFileSync(at('fresh'), 'utf8')]).toEqual(['wholly other\n', 'kept\n']);
});

test('undo of a command restores the file as the person had changed it before the command', async () => {
  writeFileSync(at('own'), 'first');
  await run('true');
  writeFileSync(at('own'), 'second');
  const command = await run('echo third > own');
  expect(await undo(command.callId)).toMatchObject({ restored: ['own'], conflicts: [] });
  expect(readFileSync(at('own'), 'utf8')).toBe('second');
});

test('git state goes back as one thing, and what git trusts is told', async () => {
  await using other = await openDaemon();
  await using by = await other.connect();
  writeFileSync(join(other.workspace, 'a.txt'), 'a\n');
  await run('git init -q -b main . && git add -A && git commit -qm first', by);
  await ready(by);
  const log = () => run('git log --oneline --all; git status --short; git branch', by).then((it) => JSON.stringify(it));
  const before = treeWithModes(other.workspace);
  const said = await log();
  const commit = await run('echo b > b.txt && git add -A && git checkout -q -b next && git commit -qm second', by);
  expect(commit.metadata).toMatchObject({ undo: 'full' });
  expect(await undo(commit.callId, false, by)).toMatchObject({ conflicts: [] });
  const after = treeWithModes(other.workspace);
  const isObject = (it: string) => it.startsWith('.git/objects/');
  for (const path of new Set([...Object.keys(before), ...Object.keys(after)]))
    if (!isObject(path)) expect(after[path], path).toBe(before[path]);
  const words = (it: string) => JSON.parse(it).data.stdout;
  expect(words(await log())).toBe(words(said));
}, 90_000);

test.for(['git init -q .', 'git init -q inner', 'git init -q from && git clone -q from copy 2>/dev/null'])(
  'a command that made a repository is undone, and leaves it as it is: %s',
  async (making) => {
    await using other = await openDaemon();
    await using by = await other.connect();
    writeFileSync(join(other.workspace, 'a.txt'), 'a\n');
    await ready(by);
    const made = await run(`rm a.txt; echo b > b.txt; ${making}`, by);
    expect(made.metadata).toMatchObject({ undo: 'partial' });
    for (const it of made.metadata.undoMissing ?? [])
      expect(it).toEqual({ path: expect.stringMatching(/(^|\/)\.git\/$/), why: 'protected' });
    expect(await undo(made.callId, false, by)).toMatchObject({ conflicts: [], undo: 'full' });
    expect(readFileSync(join(other.workspace, 'a.txt'), 'utf8')).toBe('a\n');
    expect(existsSync(join(other.workspace, 'b.txt'))).toBe(false);
    const repositories = await run('find . -name .git | while read it; do git -C "$it/.." status --short; done', by);
    expect(repositories).toMatchObject({ success: true, data: { stderr: '' } });
  },
);

test('calls beside each other are not undone as if each had been alone', async () => {
  const [a, b] = await Promise.all([run('sleep 0.4; echo a > side-a'), run('sleep 0.4; echo b > side-b')]);
  for (const it of [a, b]) {
    expect(it.metadata.undo).toBe('none');
    expect(it.metadata.undoMissing?.every(({ why }) => why === 'beside')).toBe(true);
  }
});

test('ringfence undo --last takes back a command', async () => {
  await run('echo last > last');
  expect(await client.request('calls.undo', { last: true, force: false })).toMatchObject({ removed: ['last'] });
});

test('a deleted data set that git ignores comes back', async () => {
  writeFileSync(at('.gitignore'), 'data/\n');
  mkdirSync(at('data'));
  for (let n = 0; n < 20; n++) writeFileSync(at(`data/${n}`), `${n}`.repeat(100_000));
  const before = tree();
  const { callId, metadata } = await run('rm -rf data');
  expect(metadata.undo).toBe('full');
  await undo(callId);
  expect(tree()).toEqual(before);
  await run('rm -rf data .gitignore');
});

test('the command line says what an undo would not bring back', async () => {
  writeFileSync(at('.gitignore'), 'out/\n');
  const command = 'command=mkdir out && for i in 1 2 3 4 5; do echo x >out/$i; done && echo y >kept';
  const { stderr } = await runCli(daemon, ['call', 'terminal_execute', command]);
  expect(stderr).toMatch(/undo will not bring back [^\n]*out[^\n]* \(ignored\)/);
  expect(stderr).not.toContain('kept');
});
