/** Searches that try to leave the workspace, through a real daemon, and a search that tries to outlive its starter. */
import {
  existsSync,
  mkdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Client } from '../../src/client/client.ts';
import { machineLateMs } from '../support/arena.ts';
import { dataOf, processesWith, startDaemon, type TestDaemon, temporaryDir, until } from '../support/daemon.ts';
import { SLOW_TEXT, slow } from '../support/search.ts';

const SECRET = 'the-secret-of-this-test';
let parent: string;
let workspace: string;
let daemon: TestDaemon;
let client: Client;

beforeAll(async () => {
  parent = realpathSync(temporaryDir('search'));
  workspace = join(parent, 'ws');
  for (const it of ['ws/sub', 'ws/slow', 'ws-evil']) mkdirSync(join(parent, it), { recursive: true });
  for (const it of ['outside.txt', 'ws-evil/x', 'ws-evil/inside.txt']) writeFileSync(join(parent, it), `${SECRET}\n`);
  for (const it of ['ws/inside.txt', 'ws/sub/inside.txt']) writeFileSync(join(parent, it), 'inside\n');
  writeFileSync(join(workspace, '.env'), `TOKEN=${SECRET}\n`);
  writeFileSync(join(workspace, 'my-secret.txt'), `${SECRET}\n`);
  for (let i = 0; i < 60; i++) writeFileSync(join(workspace, `slow/${i}`), SLOW_TEXT);
  symlinkSync('..', join(workspace, 'up'));
  symlinkSync(join(parent, 'ws-evil'), join(workspace, 'evil'));
  symlinkSync('../outside.txt', join(workspace, 'link'));
  daemon = await startDaemon({ workspace });
  client = await daemon.connect();
});
afterAll(async () => {
  await client[Symbol.asyncDispose]();
  await daemon[Symbol.asyncDispose]();
  rmSync(parent, { recursive: true, force: true });
});

describe.each(['..', 'up', 'evil', 'link', '/etc', '../ws-evil', 'sub/../../ws-evil'])('a search of %s', (path) => {
  test.each([
    ['file_grep', { path, pattern: '.' }],
    ['file_glob', { path, pattern: '**' }],
    ['workspace_structure', { path }],
    ['file_read_many', { paths: [path] }],
    ['data_validate', { path }],
  ] as const)('%s shows nothing', async (tool, input) => {
    const result = await client.call(tool, input as never);
    if (result.success) expect(result.data).toMatchObject({ files: [], errors: [{ code: 'ACCESS_DENIED' }] });
    else expect(result.error.code).toBe('ACCESS_DENIED');
    expect(JSON.stringify(result)).not.toContain(SECRET);
  });
});

test('secrets of the workspace are neither found by what they hold nor named', async () => {
  for (const pattern of ['secret', 'TOKEN']) {
    expect(await dataOf(client.call('file_grep', { pattern }))).toMatchObject({ matches: [] });
    expect(await dataOf(client.call('file_search', { content: pattern }))).toMatchObject({ files: [] });
  }
  expect(await dataOf(client.call('file_glob', { pattern: '{.env,*secret*}' }))).toMatchObject({ paths: [], total: 0 });
  const named = await client.call('file_read_many', { paths: ['.env', 'inside.txt'] });
  expect(named).toMatchObject({
    data: { files: [{ path: 'inside.txt' }], errors: [{ path: '.env', code: 'SENSITIVE_FILE' }] },
  });
  expect(JSON.stringify(named)).not.toContain(SECRET);
  const { files } = await dataOf(client.call('file_read_many', { pattern: '{.env,*.txt}' }));
  expect(files.map((it) => it.path)).toEqual(['inside.txt', 'sub/inside.txt']);
});

test('directories that are swapped for links while they are searched show nothing of where these lead', async () => {
  const sub = join(workspace, 'sub');
  let swaps = 0;
  let ended = false;
  const swapping = (async () => {
    while (!ended) {
      renameSync(sub, `${sub}-real`);
      symlinkSync('../ws-evil', sub);
      await setImmediate();
      rmSync(sub);
      renameSync(`${sub}-real`, sub);
      if (++swaps % 5 === 0) await setImmediate();
    }
  })();
  const until = performance.now() + 2000;
  const shown: string[] = [];
  while (performance.now() < until) {
    const calls = ['sub', '.'].map((path) =>
      client.call('file_grep', { path, pattern: SECRET.slice(0, 10), exclude: 'slow' }),
    );
    const globs = client.call('file_glob', { pattern: '**/x' });
    for (const it of await Promise.all([...calls, globs])) shown.push(JSON.stringify(it.success ? it.data : it.error));
  }
  ended = true;
  await swapping;
  expect(swaps).toBeGreaterThan(100);
  expect(shown.filter((it) => it.includes(SECRET) || it.includes('sub/x'))).toEqual([]);
});

test('a search that is cancelled answers at once, and its ripgrep is gone', async () => {
  const controller = new AbortController();
  const running = client.call('file_grep', { path: 'slow', pattern: slow('CANCELLED') }, { signal: controller.signal });
  await until(() => processesWith('<CANCELLED>').length > 0, 20_000);
  const from = performance.now();
  controller.abort();
  expect(await running).toMatchObject({ success: false, error: { code: 'CANCELLED' } });
  expect(performance.now() - from).toBeLessThan(1500);
  await until(() => processesWith('<CANCELLED>').length === 0);
});

test('a ripgrep ends with the thread that started it', async () => {
  const thread = new Worker(new URL('../support/search-thread.ts', import.meta.url), {
    workerData: { workspace, pattern: slow('ORPHANED') },
  });
  thread.on('error', () => {});
  // Until it becomes ripgrep, the process is the program that sets its limits.
  await until(
    () => processesWith('<ORPHANED>').some((pid) => readFileSync(`/proc/${pid}/comm`, 'utf8') === 'rg\n'),
    20_000,
  );
  await thread.terminate();
  await until(() => processesWith('<ORPHANED>').length === 0);
});

test('a schema that does not end holds up nobody beside it', async () => {
  const schema = { pattern: '^(a+)+$' };
  const data = JSON.stringify(`${'a'.repeat(40)}!`);
  const hostile = Array.from({ length: 2 }, () => client.call('data_validate', { data, schema }));
  const from = performance.now();
  expect(await client.call('file_read', { path: 'inside.txt' })).toMatchObject({ success: true });
  expect(performance.now() - from).toBeLessThan(2500 + machineLateMs());
  for (const it of await Promise.all(hostile))
    expect(it).toMatchObject({ success: false, error: { code: 'CPU_LIMIT' } });
  expect(existsSync(`/proc/${daemon.pid}`)).toBe(true);
});
