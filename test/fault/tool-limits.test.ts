/** Tools that exceed their share of the thread: each ends at its limit, and calls beside it are answered. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { ToolResult } from '../../src/base/call.ts';
import type { Client } from '../../src/client/client.ts';
import { dataOf, startDaemon, type TestDaemon } from '../support/daemon.ts';

const POLICY = `tiers:
  read_only: { cpuMs: 900, memoryMb: 64 }
  write: { cpuMs: 400, memoryMb: 64 }
`;
/** Never ends on the line below. */
const SPIN = { path: 'held', pattern: 'long.txt', find: '^(a+)+$', replace: 'b', regex: true };

let daemon: TestDaemon;
let client: Client;
beforeAll(async () => {
  // Long enough that the thread's clock ends it first, even on a busy machine.
  daemon = await startDaemon({ policy: POLICY, limits: { boundedWorkMs: 20_000 } });
  client = await daemon.connect();
  mkdirSync(join(daemon.workspace, 'held'));
  writeFileSync(join(daemon.workspace, 'held/long.txt'), `${'a'.repeat(5000)}!\n`);
  writeFileSync(join(daemon.workspace, 'short.txt'), 'text\n');
  await Promise.all([
    dataOf(client.call('file_write', { path: 'warm.txt', content: '' })),
    dataOf(client.call('file_read', { path: 'short.txt' })),
  ]);
});
afterAll(async () => {
  await client[Symbol.asyncDispose]();
  await daemon[Symbol.asyncDispose]();
});

const OVER = (limit: number) => ({
  success: false,
  error: { code: 'CPU_LIMIT', details: { limit, used: expect.any(Number), enforcedBy: 'thread clock' } },
  metadata: { resources: { verdict: 'cpu', enforcedBy: 'thread clock' } },
});

let files = 0;
/** Makes several calls at once, none of which the cache can answer. */
function readings(count: number, on = { daemon, client }) {
  return Array.from({ length: count }, () => {
    const path = `read-${++files}.txt`;
    writeFileSync(join(on.daemon.workspace, path), 'text\n');
    return on.client.call('file_read', { path });
  });
}

test('a tool that spins is CPU_LIMIT soon after its limit by its own clock, and its host lives on', async () => {
  const spinning = await client.call('file_multi_edit', SPIN);
  expect(spinning).toMatchObject(OVER(400));
  const used = spinning.success ? 0 : Number(spinning.error.details?.used);
  expect(used).toBeGreaterThan(400);
  expect(used).toBeLessThan(900);
  const next = await client.call('file_write', { path: 'next.txt', content: '' });
  expect(next.metadata.hostPid).toBe(spinning.metadata.hostPid);
  expect(next).toMatchObject({ success: true });
});

test('writes beside one that spins are answered within a second', async () => {
  const spinning = client.call('file_multi_edit', SPIN);
  const waits: number[] = [];
  for (let i = 0; i < 20; i++) {
    const from = performance.now();
    await dataOf(client.call('file_write', { path: `beside-${i}.txt`, content: 'x' }));
    waits.push(performance.now() - from);
  }
  expect(Math.max(...waits)).toBeLessThan(1000);
  expect(await spinning).toMatchObject(OVER(400));
});

test('previews that spin in threads of readers are CPU_LIMIT, and all readers are answered', async () => {
  const spinning = [1, 2].map(() => client.call('file_multi_edit', SPIN, { preview: true }));
  const ended = Promise.all(spinning).then(() => performance.now());
  const reading = readings(24);
  for (const read of await Promise.all(reading)) expect(read).toMatchObject({ success: true });
  // Calls that wait for the thread wait for its end; no host is started for them.
  const readAt = performance.now();
  expect(readAt - (await ended)).toBeLessThan(1000);
  for (const spun of await Promise.all(spinning)) expect(spun).toMatchObject(OVER(400));
});

test('a tool within its limit says what it took of its thread, and by what it is held', async () => {
  const [{ metadata }] = (await Promise.all(readings(1))) as [ToolResult];
  expect(metadata.resources).toMatchObject({ verdict: 'ok', enforcedBy: 'worker thread, timer, thread clock' });
  expect(metadata.resources.cpuMs).toBeLessThan(900);
});

test('a tool that fills the heap that its policy allows is MEMORY_LIMIT, and readers beside it are answered', async () => {
  // With more CPU time than the others, of which a busy machine could take more than a heap's filling.
  await using roomy = await startDaemon({ policy: POLICY.replace('cpuMs: 400', 'cpuMs: 20000') });
  await using its = await roomy.connect();
  const lines = Array.from({ length: 400_000 }, (_, i) => `${i}a`).join('\n');
  writeFileSync(join(roomy.workspace, 'many.txt'), lines);
  const filling = its.call('file_multi_edit', { pattern: 'many.txt', find: 'a', replace: 'b' });
  const reading = readings(8, { daemon: roomy, client: its });
  for (const read of await Promise.all(reading)) expect(read).toMatchObject({ success: true });
  expect(await filling).toMatchObject({
    error: { code: 'MEMORY_LIMIT', details: { limit: 64 * 1024 * 1024, enforcedBy: 'worker thread' } },
    metadata: { resources: { verdict: 'memory' } },
  });
});
