/** Runs what the README tells people to do. */
import { execFile } from 'node:child_process';
import { existsSync, readFileSync, rmSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, expect, test } from 'vitest';
import { openDaemon, processesWith, temporaryDir, until } from '../support/daemon.ts';

const run = promisify(execFile);
const root = fileURLToPath(new URL('../..', import.meta.url)).replace(/\/$/, '');
const readme = readFileSync(`${root}/README.md`, 'utf8');
const home = temporaryDir('home');
const env = { PATH: `${root}/bin:${root}/node_modules/.bin:/usr/bin:/bin`, HOME: home };
afterAll(async () => {
  // A block that fails leaves its daemon.
  if (processesWith(home).length > 0) await run('ringfence', ['stop'], { env });
  rmSync(home, { recursive: true, force: true });
});

const shellBlocks = [...readme.matchAll(/^```sh\n([\s\S]*?)^```/gm)]
  .map((it) => it[1] as string)
  .filter((it) => /^ringfence /m.test(it));

test('the shell commands of the README work as they stand', async () => {
  expect(shellBlocks.length).toBe(4);
  for (const block of shellBlocks) {
    const { stdout } = await run('bash', ['-ec', block], { cwd: root, env });
    expect(stdout).toMatch(/README\.md|uid=|entries|mcpServers/);
    await until(() => processesWith(home).length === 0);
  }
}, 180_000);

test('the TypeScript example of the README works against a daemon of this repository', async () => {
  await using daemon = await openDaemon({ workspace: root });
  const { stdout } = await run(process.execPath, [`${root}/examples/first-call.ts`, daemon.socket, root]);
  expect(stdout).toMatch(/^# Ringfence \(\d+ lines\)\nhello from a sandbox\nok execute\n$/);
});

test('the example of programs gets one answer both ways, by a program with a tenth of the bytes', async () => {
  await using daemon = await openDaemon({ workspace: root });
  const { stdout } = await run(process.execPath, [`${root}/examples/code-mode/longest-files.ts`, daemon.socket, root]);
  expect(stdout).toMatch(/"path":"src\/base\/[\w-]+\.ts","lines":\d+,"exports":\d+/);
  expect(stdout).toMatch(/^calls: 12 turns of the model, \d+ bytes, about \d+ tokens; tools took [\d.]+ ms$/m);
  expect(stdout).toMatch(/^program: 1 turns of the model, \d+ bytes, about \d+ tokens; tools took [\d.]+ ms$/m);
  expect(Number(/^(\d+) times fewer bytes$/m.exec(stdout)?.[1])).toBeGreaterThan(10);
});

test('the files that it points to exist', () => {
  for (const [, path] of readme.matchAll(/\]\(((?!https?:|#)[^)]+)\)/g))
    expect(existsSync(`${root}/${path}`), path).toBe(true);
});

test('script/demo shows its four scenes and leaves nothing behind', async () => {
  const before = (await run('git', ['status', '--porcelain'], { cwd: root })).stdout;
  const { stdout } = await run('bash', [`${root}/script/demo`], { cwd: root, env: { ...process.env, HOME: home } });
  for (const it of ['ok 1 - the package', 'cat: .env: ', 'curl wants example.org:443', '403', '(undone)\n'])
    expect(stdout).toContain(it);
  expect(stdout).toMatch(/level [AB]/);
  expect((await run('git', ['status', '--porcelain'], { cwd: root })).stdout).toBe(before);
  expect(processesWith('ringfence-demo')).toEqual([]);
}, 180_000);

test('the README has at most 120 lines of 120 characters, tables aside', () => {
  const lines = readme.trimEnd().split('\n');
  expect(lines.length).toBeLessThanOrEqual(120);
  expect(lines.filter((it) => it.length > 120 && !it.startsWith('|'))).toEqual([]);
});
