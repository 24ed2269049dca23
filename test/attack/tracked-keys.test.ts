/** Keys and certificates that a repository holds are shown to agents, and no way to have another file taken for one. */
import { existsSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { defaultLimits } from '../../src/base/limits.ts';
import type { Client } from '../../src/client/client.ts';
import { dataOf, startDaemon, type TestDaemon } from '../support/daemon.ts';
import { createRepository, type TestRepository } from '../support/repository.ts';

let daemon: TestDaemon;
let client: Client;
let repository: TestRepository;
let name = '';
let count = 0;
beforeAll(async () => {
  daemon = await startDaemon();
  client = await daemon.connect();
});
afterAll(() => daemon[Symbol.asyncDispose]());
beforeEach(() => {
  name = `r${++count}`;
  repository = createRepository(join(daemon.workspace, name));
  repository.write('test/server.key', pem('tracked'));
  repository.commit('first');
  repository.write('own.key', pem('private'));
});

/** No key, but begins like one. */
const pem = (word: string) => `-----BEGIN ${'CERTIFICATE'}-----\n${word.repeat(64)}\n`;
const run = (command: string) => dataOf(client.call('terminal_execute', { command, cwd: name }));
const cat = async (path: string) => (await run(`cat ${path}`)).stdout;

test('commands and file tools read a key that is committed, and no other', async () => {
  expect(await cat('test/server.key')).toBe(pem('tracked'));
  expect(await cat('own.key')).toBe('');
  expect(await dataOf(client.call('file_read', { path: `${name}/test/server.key` }))).toMatchObject({
    content: expect.stringContaining('tracked'),
  });
  expect(await client.call('file_read', { path: `${name}/own.key` })).toMatchObject({
    error: { code: 'SENSITIVE_FILE' },
  });
  const both = await client.call('terminal_execute', { command: 'cat own.key test/server.key', cwd: name });
  expect(both.metadata.withheld?.hidden).toEqual([
    { path: `${name}/own.key`, rule: 'no-secrets', open: expect.any(String) },
  ]);
});

test('a key that the person replaces is hidden from the next command, and shown again once it is committed', async () => {
  expect(await cat('test/server.key')).toBe(pem('tracked'));
  repository.write('test/server.key', pem('private'));
  expect(await cat('test/server.key')).toBe('');
  repository.commit('second');
  expect(await cat('test/server.key')).toBe(pem('private'));
});

test('a branch with another key is checked out whole', async () => {
  repository.git('checkout', '-q', '-b', 'side');
  repository.write('test/server.key', pem('side'));
  repository.git('commit', '-qam', 'side');
  repository.git('checkout', '-q', 'main');
  const { stdout, exitCode } = await run(
    'git checkout -q side && git status --short --untracked-files=no && cat test/server.key',
  );
  expect([stdout, exitCode]).toEqual([pem('side'), 0]);
  expect(repository.git('status', '--short', '--untracked-files=no')).toBe('');
});

test('keys of a folder with more than are looked at stay hidden', async () => {
  const { settingsFilesMax } = defaultLimits;
  for (let at = 0; at <= settingsFilesMax; at++) repository.write(`many/${at}.pem`, pem(`${at}`));
  repository.commit('many');
  expect(await cat('many/0.pem')).toBe('');
  expect(await cat('test/server.key')).toBe(pem('tracked'));
});

test('no link, inner repository or commit of guesses shows a key of the person', async () => {
  // A repository outside of the workspace holds the very file.
  const outside = createRepository(join(daemon.stateDir, `outside-${count}`));
  outside.write('own.key', pem('private'));
  outside.commit('all');
  const objects = join(outside.folder, '.git/objects');
  await run(`mkdir -p in/.git && ln -s ${objects} in/.git/objects; mv own.key in/ 2>/dev/null; ls`);
  repository.write('in/own.key', pem('private'));
  expect(await cat('in/own.key')).toBe('');
  await run(`rm -rf .git/objects/pack && ln -s ${objects}/pack .git/objects/pack`);
  expect(await cat('own.key')).toBe('');
  // A word that can be guessed is no key, whatever the objects hold.
  repository.write('word.key', 'correct horse\n');
  await run('echo "correct horse" | git hash-object -w --stdin');
  expect(await cat('word.key')).toBe('');
  expect(existsSync(join(repository.folder, 'own.key'))).toBe(true);
  rmSync(outside.folder, { recursive: true });
});
