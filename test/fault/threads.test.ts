/** Threads of reads that hang or run out of memory: each of their calls is answered, and so are the next ones. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { Client } from '../../src/client/client.ts';
import { dataOf, startDaemon, type TestDaemon, until } from '../support/daemon.ts';

// Without a limit of CPU time, which would end a job that spins.
const POLICY = `tiers:
  read_only: { memoryMb: 64 }
  write: { memoryMb: 64 }
`;

let daemon: TestDaemon;
let client: Client;
let files = 0;
beforeEach(async () => {
  daemon = await startDaemon({ policy: POLICY, limits: { boundedWorkMs: 60_000 } });
  client = await daemon.connect();
  mkdirSync(join(daemon.workspace, 'held'));
  writeFileSync(join(daemon.workspace, 'held/long.txt'), `${'a'.repeat(5000)}!\n`);
  await Promise.all(readings(1));
});
afterEach(async () => {
  await client[Symbol.asyncDispose]();
  await daemon[Symbol.asyncDispose]();
});

/** A preview, which runs in the hosts of reads. */
const preview = (input: object, more: object = {}) =>
  client.call('file_multi_edit' as string, input, { preview: true, ...more });
/** Never ends on its line, and does not react to an abort. */
const spin = (more: object = {}) =>
  preview({ path: 'held', pattern: 'long.txt', find: '^(a+)+$', replace: 'b', regex: true }, more);
/** Needs more than 64 MiB. */
const fill = () => {
  writeFileSync(join(daemon.workspace, 'many.txt'), Array.from({ length: 400_000 }, (_, i) => `${i}a`).join('\n'));
  return preview({ pattern: 'many.txt', find: 'a', replace: 'b' });
};
/** Makes several calls at once, none of which the cache can answer. */
const readings = (count: number) =>
  Array.from({ length: count }, () => {
    const path = `read-${++files}.txt`;
    writeFileSync(join(daemon.workspace, path), 'text\n');
    return dataOf(client.call('file_read', { path }));
  });

const readers = async () => {
  const { hosts } = (await client.request('status', {})) as { hosts: { tier: string; pid: number }[] };
  return hosts.filter(({ tier }) => tier === 'read_only').map(({ pid }) => pid);
};
test('a job that fills its heap alone gets MEMORY_LIMIT', async () => {
  expect(await fill()).toMatchObject({
    error: { code: 'MEMORY_LIMIT', details: { limit: 64 * 1024 * 1024, enforcedBy: 'worker thread' } },
    metadata: { resources: { verdict: 'memory' } },
  });
  await Promise.all(readings(20));
});

test('a job that fills its heap beside others is found, and the others are answered', async () => {
  const [filled] = await Promise.all([fill(), ...readings(12)]);
  expect(filled).toMatchObject({ error: { code: 'MEMORY_LIMIT' } });
});

test('readers beside one that is stuck wait for another thread, not for its end', async () => {
  const controller = new AbortController();
  let isStuck = true;
  const stuck = spin({ signal: controller.signal }).finally(() => {
    isStuck = false;
  });
  // Until it blocks the thread.
  await setTimeout(200);
  // Some calls arrive before the other thread is ready.
  const held: Promise<unknown>[] = [];
  let answered = 0;
  await until(async () => {
    held.push(...readings(1).map((it) => it.then(() => answered++)));
    await setTimeout(100);
    return answered > 0;
  });
  await Promise.all(readings(12));
  expect(isStuck).toBe(true);
  controller.abort();
  expect(await stuck).toMatchObject({ error: { code: 'CANCELLED' } });
  await Promise.all(held);
});

test('a job that does not react to its end is ended with its thread, and its host goes on with another thread', async () => {
  const before = await readers();
  expect(await spin({ timeoutMs: 300 })).toMatchObject({ error: { code: 'TIMEOUT' } });
  await Promise.all(readings(20));
  expect(await readers()).toEqual(before);
  expect(before).toHaveLength(1);
});

test('a host whose threads have ended as often as they may is replaced, and no call notices', async () => {
  await using worn = await startDaemon({ policy: POLICY, limits: { boundedWorkMs: 60_000, hostThreadStartsMax: 2 } });
  await using by = await worn.connect();
  mkdirSync(join(worn.workspace, 'held'));
  writeFileSync(join(worn.workspace, 'held/long.txt'), `${'a'.repeat(5000)}!\n`);
  const read = async () => (await by.call('file_read', { path: 'held/long.txt' }, { cache: false })).metadata.hostPid;
  const first = await read();
  const input = { path: 'held', pattern: 'long.txt', find: '^(a+)+$', replace: 'b', regex: true };
  for (let i = 0; i < 2; i++)
    expect(await by.call('file_multi_edit' as string, input, { preview: true, timeoutMs: 300 })).toMatchObject({
      error: { code: 'TIMEOUT' },
    });
  const next = await read();
  expect(next).toEqual(expect.any(Number));
  expect(next).not.toBe(first);
});
