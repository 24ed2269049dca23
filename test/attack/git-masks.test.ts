/**
 * Files that git tracks and the policy hides: git commands work beside them, and never commit, delete or show them.
 * docs/decisions/0016-masks-and-git.md
 */
import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { Client } from '../../src/client/client.ts';
import { startDaemon, type TestDaemon } from '../support/daemon.ts';

const SECRET = 'hunter2-that-git-tracks';
const NEWER = 'hunter3-of-this-machine-alone';
const TRACKED = ['passwords.txt', 'conf/credentials.yml', 'server.pem'];

let daemon: TestDaemon;
let client: Client;
let workspace: string;
beforeAll(async () => {
  daemon = await startDaemon();
  client = await daemon.connect();
  workspace = daemon.workspace;
});
afterAll(() => daemon[Symbol.asyncDispose]());

/** Runs git as the person, outside of any sandbox. */
const git = (...args: string[]) =>
  execFileSync('git', ['-c', 'user.name=p', '-c', 'user.email=p@example.org', ...args], {
    cwd: workspace,
    encoding: 'utf8',
  });
const put = (path: string, text: string) => writeFileSync(join(workspace, path), text);
const textOf = (path: string) => readFileSync(join(workspace, path), 'utf8');

async function run(command: string) {
  const result = await client.call('terminal_execute', { command });
  if (!result.success) throw new Error(`${result.error?.code}: ${result.error?.message}`);
  const { stdout, stderr, exitCode } = result.data as { stdout: string; stderr: string; exitCode: number };
  return { stdout, stderr, exitCode, warnings: (result.metadata.warnings ?? []).join('\n') };
}

const NAMED = 'export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b';

beforeEach(() => {
  execFileSync('find', ['.', '-mindepth', '1', '-delete'], { cwd: workspace });
  for (const folder of ['conf', 'src']) mkdirSync(join(workspace, folder));
  for (const path of TRACKED) put(path, SECRET);
  put('src/main.ts', 'one\n');
  put('src/password.ts', 'export {};\n');
  git('init', '-q', '.');
  git('add', '-A');
  git('commit', '-qm', 'first');
  put('.env', NEWER);
});

/** Expects the repository's hidden files to be exactly as the person committed them. */
function expectKept(): void {
  expect(git('ls-tree', '-r', '--name-only', 'HEAD').split('\n')).toEqual(expect.arrayContaining(TRACKED));
  for (const path of TRACKED) expect(git('show', `HEAD:${path}`)).toBe(SECRET);
  expect(git('log', '--all', '--name-only', '--format=')).not.toMatch(/^\.env$/m);
  expect(git('cat-file', '--batch-all-objects', '--batch')).not.toContain(NEWER);
  expect(textOf('.env')).toBe(NEWER);
}

describe('git in a command', () => {
  test('sees no change in what is hidden, and says once how much that is', async () => {
    const { stdout, warnings } = await run('git status --porcelain; git diff; git diff --cached; git stash list');
    expect(stdout).toBe('');
    expect(warnings).toBe(
      '3 files that git tracks are hidden from this command by the policy (conf/credentials.yml, passwords.txt, server.pem); git in it takes them for unchanged. To show what holds no secret, the person lists it in the policy: secrets: { show: [PATH] }',
    );
  });

  test.each([
    ['add -A and commit', 'git add -A && git commit -qm second', 'two\n'],
    ['commit -a', 'git commit -qam second', 'two\n'],
    ['stash and stash pop', 'git stash -q && cat src/main.ts && git stash pop -q && git commit -qam second', 'two\n'],
    ['stash -u', 'git stash -qu && git stash pop -q && git commit -qam second', 'two\n'],
    ['reset --hard', 'git reset -q --hard', 'one\n'],
    [
      'checkout of a branch',
      'git checkout -qb other && git commit -qam second && git checkout -q - && git merge -q other',
      'two\n',
    ],
    ['add by name and restore', 'git add src && git restore --staged src && git restore src', 'one\n'],
    ['cp -a and rm -rf of a folder', 'cp -a src copy && rm -rf src && git checkout -q src && rm -r copy', 'one\n'],
    ['clean', 'git clean -qfd && git add -A', 'two\n'],
  ])('works: %s', async (_, command, content) => {
    const { exitCode, stderr } = await run(`${NAMED}; echo two > src/main.ts; ${command}`);
    expect([exitCode, stderr]).toEqual([0, '']);
    expect(textOf('src/main.ts')).toBe(content);
    expectKept();
    for (const path of TRACKED) expect(textOf(path)).toBe(SECRET);
    expect((await run('git status --porcelain -- . ":!src"')).stdout).toBe('');
  });

  test("leaves the person's own change of a hidden file where it is", async () => {
    put('passwords.txt', NEWER);
    const { exitCode, stdout } = await run(
      `${NAMED}; git status --porcelain; echo two > src/main.ts; git add -A && git commit -qam second && echo 3 > src/main.ts && git stash -q && git reset -q --hard`,
    );
    expect([exitCode, stdout]).toEqual([0, '']);
    expect(textOf('passwords.txt')).toBe(NEWER);
    expectKept();
    expect(git('status', '--porcelain')).toContain(' M passwords.txt');
  });
});

test('a file that the person shows by the policy is as it is, to commands and file tools, and no other one', async () => {
  const policy = 'secrets: { show: [conf/credentials.yml, lost.pem] }\n';
  await using other = await startDaemon({ policy });
  for (const it of ['conf', 'lost']) mkdirSync(join(other.workspace, it));
  for (const it of [...TRACKED, 'conf/other-credentials.yml', 'credentials.yml'])
    writeFileSync(join(other.workspace, it), SECRET);
  await using agent = await other.connect();
  const ask = (command: string) => agent.call('terminal_execute', { command });
  expect(await ask('cat conf/credentials.yml && echo more >>conf/credentials.yml')).toMatchObject({
    data: { stdout: SECRET, exitCode: 0 },
  });
  expect(await agent.call('file_read', { path: 'conf/credentials.yml' })).toMatchObject({ success: true });
  for (const it of ['passwords.txt', 'server.pem', 'conf/other-credentials.yml', 'credentials.yml']) {
    expect(await ask(`cat ${it}`)).toMatchObject({ data: { stdout: '', exitCode: 1 } });
    const unseen = await ask(`f=$(printf ${it.slice(0, -1)}; printf ${it.slice(-1)}); cat "$f"`);
    expect(JSON.stringify(unseen)).not.toContain(SECRET);
    expect(await agent.call('file_read', { path: it })).toMatchObject({ error: { code: 'SENSITIVE_FILE' } });
  }
  expect(
    await ask('mv conf/credentials.yml moved && ln -sf ../server.pem conf/credentials.yml && cat conf/credentials.yml'),
  ).not.toMatchObject({
    data: { exitCode: 0 },
  });
});

describe('what git is shown', () => {
  const WAYS: [string, string][] = [
    ['reading it', 'cat pass*.txt conf/* *.pem .e*; chmod 644 pass*; cat pass*; cp pass* x; cat x'],
    [
      'tracking it',
      'git update-index --add --cacheinfo 100644,$(echo x | git hash-object -w --stdin),.en""v; git commit -qm x; cat .e*',
    ],
    [
      'another index',
      'printf x > x; git update-index --add --cacheinfo 100644,$(git hash-object -w x),pass""words.txt; cat pass*; git diff',
    ],
    ['its exclusion taken away', 'echo > .git/info/exclude; git add -Af; e=env; git show ":.$e"; git ls-files -o'],
    ['a rename', 'p=pass; git mv ${p}words.txt src/plain.ts; e=env; mv .$e src/env.ts; cat src/*.ts'],
    ['a checkout elsewhere', 'git worktree add -q -b wt wt; cat wt/.e*'],
  ];
  test.each(WAYS)("a hidden file's content does not reach a command through git by %s", async (_, command) => {
    put('passwords.txt', NEWER);
    const first = await run(`${NAMED}; ${command}`);
    const second = await run(
      `${NAMED}; git add -A; cat .e* pass* src/*; git diff; git cat-file --batch-all-objects --batch`,
    );
    for (const { stdout, stderr } of [first, second]) expect(stdout + stderr).not.toContain(NEWER);
    expect(textOf('.env')).toBe(NEWER);
    expect(textOf('passwords.txt')).toBe(NEWER);
  });

  test.each([
    ['no index', Buffer.from('DIRCgarbage')],
    ['more entries than it has', Buffer.concat([Buffer.from('DIRC'), Buffer.from([0, 0, 0, 2, 255, 255, 255, 255])])],
    ['an entry of 4 GiB and of the future', hostileIndex('passwords.txt')],
  ])('an index that is %s stops no command', async (_, index) => {
    writeFileSync(join(workspace, '.git/index'), index);
    const { stdout } = await run('cat src/main.ts; cat pass*; echo done');
    expect(stdout).toBe('one\ndone\n');
  });

  test('a pipe in the place of the index or of the exclude file stops no command', async () => {
    for (const path of ['.git/index', '.git/info/exclude']) {
      rmSync(join(workspace, path));
      execFileSync('mkfifo', [join(workspace, path)]);
    }
    expect((await run('cat src/main.ts')).stdout).toBe('one\n');
  });
});

function hostileIndex(name: string): Buffer {
  const entry = Buffer.alloc(Math.ceil((62 + name.length + 1) / 8) * 8);
  entry.fill(0xff, 0, 24);
  entry.writeUInt32BE(0o100644, 24);
  entry.fill(0xff, 28, 60);
  entry.writeUInt16BE(name.length, 60);
  entry.write(name, 62);
  return Buffer.concat([Buffer.from('DIRC'), Buffer.from([0, 0, 0, 2, 0, 0, 0, 1]), entry, Buffer.alloc(20)]);
}
