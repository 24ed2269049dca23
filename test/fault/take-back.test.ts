/** Ends a call in the middle of its changes: its answer does not wait for the roll-back, and the next call does. */
import { readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { statOf } from '../../src/sandbox/proc.ts';
import { dataOf, processesWith, startDaemon, type TestDaemon, until } from '../support/daemon.ts';

const LARGE_BYTES = 127 * 1024 * 1024;
const TIME_MS = 500;
/** Milliseconds; waiting for the held hosts would take more than twice as long. test/fault/limits.test.ts holds a copy to one second. */
const SOON_MS = 5000;
const PARTIAL = '.ringfence-';

const partialIn = (folder: string) => readdirSync(folder).filter((it) => it.startsWith(PARTIAL));

/** Stops a host, as if its disk were busy, and any that replaces it, until this is disposed. */
function holdHosts({ pid: daemon }: TestDaemon, pid: number): Disposable {
  const isBelow = (it: number): boolean => it === daemon || (it > 1 && isBelow(statOf(it)?.parent ?? 0));
  const hosts = () => processesWith('workers/host.').filter(isBelow);
  const known = new Set(hosts());
  const stopped = new Set([pid]);
  process.kill(pid, 'SIGSTOP');
  const timer = setInterval(() => {
    for (const it of hosts()) {
      if (known.has(it) || stopped.has(it)) continue;
      stopped.add(it);
      signal(it, 'SIGSTOP');
    }
  }, 5);
  return {
    [Symbol.dispose]() {
      clearInterval(timer);
      for (const it of stopped) signal(it, 'SIGCONT');
    },
  };
}

function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name);
  } catch {
    // ESRCH: already gone.
  }
}

/** Lets a copy run out of time while half of it is written and its host is stopped. */
async function cutOff(daemon: TestDaemon, client: Awaited<ReturnType<TestDaemon['connect']>>) {
  const { workspace } = daemon;
  writeFileSync(join(workspace, 'large'), Buffer.alloc(LARGE_BYTES, 'x'));
  const { metadata } = await client.call('file_write', { path: 'small', content: '' });
  await dataOf(client.call('file_read', { path: 'small' }));
  const from = performance.now();
  const copying = client.call('file_copy', { sourcePath: 'large', destPath: 'copy' }, { timeoutMs: TIME_MS });
  while (partialIn(workspace).length === 0) await setTimeout(0);
  const held = holdHosts(daemon, metadata.hostPid as number);
  const result = await copying;
  return { result, tookMs: performance.now() - from, held };
}

test('a call that runs out of time answers before its changes are taken back, and a call on its path comes after that', async () => {
  await using daemon = await startDaemon();
  await using client = await daemon.connect();
  await using other = await daemon.connect();
  await dataOf(other.call('file_list', {}));
  const { result, tookMs, held } = await cutOff(daemon, client);
  let read: unknown;
  {
    using _ = held;
    expect(result).toMatchObject({ success: false, error: { code: 'TIMEOUT' } });
    expect(tookMs).toBeLessThan(SOON_MS);
    expect(partialIn(daemon.workspace)).not.toEqual([]);
    void client.call('file_read', { path: 'copy' }).then((it) => (read = it));
    // In its own session: reads of other sessions wait for no write.
    expect(await dataOf(other.call('file_list', {}))).toBeDefined();
    await setTimeout(500);
    expect(read).toBeUndefined();
  }
  await until(() => read !== undefined);
  expect(read).toMatchObject({ success: false, error: { code: 'NOT_FOUND' } });
  expect(partialIn(daemon.workspace)).toEqual([]);
  await dataOf(client.call('file_write', { path: 'copy', content: 'x' }));
}, 60_000);

test('a daemon that is stopped meanwhile takes them back before it ends', async () => {
  const daemon = await startDaemon();
  const client = await daemon.connect();
  const { held } = await cutOff(daemon, client);
  let isGone = false;
  const stopped = daemon.ended.then(() => (isGone = true));
  daemon.process.kill('SIGTERM');
  await setTimeout(1000);
  expect(isGone).toBe(false);
  held[Symbol.dispose]();
  await stopped;
  expect(partialIn(daemon.workspace)).toEqual([]);
  await client[Symbol.asyncDispose]().catch(() => {});
  await daemon[Symbol.asyncDispose]();
}, 60_000);
