/** The tools that change files, through a real daemon: limits, masks, questions. */
import { mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Client } from '../../src/client/client.ts';
import { type OpenDaemon, openDaemon } from '../support/daemon.ts';

let daemon: OpenDaemon;
let client: Client;

beforeAll(async () => {
  daemon = await openDaemon();
  client = await daemon.connect();
});
afterAll(async () => {
  await client[Symbol.asyncDispose]();
  await daemon[Symbol.asyncDispose]();
});

const at = (path: string) => join(daemon.workspace, path);

test('a regular expression that would take for ever is ended by the time limit, and nothing is changed', async () => {
  writeFileSync(at('hostile.txt'), `${'a'.repeat(60)}!`);
  const input = { pattern: 'hostile.txt', find: '^(a+)+$', replace: 'b', regex: true };
  const started = performance.now();
  const result = await client.call('file_multi_edit', input, { timeoutMs: 500 });
  expect(result).toMatchObject({ success: false, error: { code: 'TIMEOUT' } });
  expect(performance.now() - started).toBeLessThan(5000);
  expect(readFileSync(at('hostile.txt'), 'utf8')).toMatch(/^a+!$/);
  expect(await client.call('file_write', { path: 'after.txt', content: '' })).toMatchObject({ success: true });
});

test('a regular expression has a second for each file, whatever its call may take', async () => {
  writeFileSync(at('hostile.txt'), `${'a'.repeat(60)}!`);
  const input = { pattern: 'hostile.txt', find: '^(a+)+$', replace: 'b', regex: true };
  expect(await client.call('file_multi_edit', input)).toMatchObject({
    success: false,
    error: { code: 'CPU_LIMIT', message: expect.stringContaining('hostile.txt') },
  });
});

test('a file moves into a directory that is held in its place for what it holds, and the directory itself does not', async () => {
  mkdirSync(at('config'));
  writeFileSync(at('config/.env'), 'TOKEN=1');
  writeFileSync(at('moved.txt'), 'moved');
  const moved = await client.call('file_rename', { oldPath: 'moved.txt', newPath: 'config/moved.txt' });
  expect(moved).toMatchObject({
    success: true,
    metadata: { filesChanged: [{ path: 'config/moved.txt', kind: 'rename', from: 'moved.txt' }] },
  });
  expect(readdirSync(at('config')).sort()).toEqual(['.env', 'moved.txt']);
  for (const call of [
    client.call('file_rename', { oldPath: 'config', newPath: 'settings' }),
    client.call('file_copy', { sourcePath: 'config', destPath: 'settings' }),
    client.call('file_delete', { path: 'config', recursive: true }),
  ])
    expect(await call).toMatchObject({
      error: { code: 'SENSITIVE_FILE', message: expect.stringContaining('config/.env') },
    });
  expect(readFileSync(at('config/.env'), 'utf8')).toBe('TOKEN=1');
});

test('the careful policy asks a person before a file is deleted or moved, and not before it is edited', async () => {
  await using other = await openDaemon({ policy: 'extends: careful\napprovals: { headless: deny }\n' });
  await using agent = await other.connect();
  writeFileSync(join(other.workspace, 'a'), 'one');
  symlinkSync('a', join(other.workspace, 'l'));
  const denied = { success: false, error: { code: expect.stringMatching(/^APPROVAL_/) } };
  expect(await agent.call('file_delete', { path: 'a' })).toMatchObject(denied);
  expect(await agent.call('file_rename', { oldPath: 'a', newPath: 'b' })).toMatchObject(denied);
  const edited = await agent.call('edit' as string, { filePath: 'a', oldString: 'one', newString: 'two' });
  expect(edited).toMatchObject({ success: true, tool: 'file_edit' });
  expect(await agent.call('file_copy', { sourcePath: 'a', destPath: 'c' })).toMatchObject({ success: true });
  expect(readdirSync(other.workspace).sort()).toEqual(['a', 'c', 'l']);
});
