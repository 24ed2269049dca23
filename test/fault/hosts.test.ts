/** Kills tier hosts and the daemon; calls elsewhere do not notice. */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect, test } from 'vitest';
import { statOf } from '../../src/sandbox/proc.ts';
import { dataOf, processesWith, startDaemon, type TestDaemon, until } from '../support/daemon.ts';

interface HostStatus {
  tier: string;
  pid: number;
  restarts: number;
}

let daemon: TestDaemon;
afterEach(() => daemon[Symbol.asyncDispose]());

async function hosts(): Promise<HostStatus[]> {
  await using operator = await daemon.connect({ role: 'operator' });
  return ((await operator.request('status', {})) as { hosts: HostStatus[] }).hosts;
}

async function pidOf(tier: string): Promise<number> {
  let pid: number | undefined;
  await until(async () => {
    pid = (await hosts()).find((it) => it.tier === tier)?.pid;
    return pid !== undefined;
  });
  return pid as number;
}

/** The parent's pid; 0 if the process has ended. */
const parentOf = (pid: number): number => statOf(pid)?.parent ?? 0;

describe('a host that is killed', () => {
  test('a host that is killed while it is idle is replaced at the next call', async () => {
    daemon = await startDaemon();
    await using client = await daemon.connect();
    for (const [tool, tier, input] of [
      ['file_list', 'read_only', {}],
      ['file_write', 'write', { path: 'x', content: '' }],
      ['terminal_execute', 'execute', { command: 'true' }],
    ] as const) {
      const { metadata } = await client.call(tool, input);
      process.kill(metadata.hostPid as number, 'SIGKILL');
      await until(async () => (await hosts()).every(({ pid }) => pid !== metadata.hostPid));
      const again = await client.call(tool, input);
      expect(again).toMatchObject({ success: true });
      expect(again.metadata.hostPid).not.toBe(metadata.hostPid);
      expect((await hosts()).find((it) => it.tier === tier)).toMatchObject({ restarts: 1 });
    }
    expect(daemon.process.exitCode).toBeNull();
  });

  test('takes the sandbox with it that waits for the next command', async () => {
    daemon = await startDaemon();
    await using client = await daemon.connect();
    const { metadata } = await client.call('terminal_execute', { command: 'true' });
    const host = metadata.hostPid as number;
    const bashes = () => processesWith('mapfile -d "" -t -u');
    // Bubblewrap, its init, and bash in it; beside its init, what watches its door.
    const waiting = () => {
      const all = bashes();
      const below = (pids: readonly number[]) => all.filter((pid) => pids.includes(parentOf(pid) as number));
      const [outer, inner] = [below([host]), below(below([host]))];
      return [...outer, ...inner, ...below(inner)];
    };
    await until(() => waiting().length >= 3);
    const pids = waiting();
    process.kill(host, 'SIGKILL');
    await until(() => !bashes().some((it) => pids.includes(it)));
  });

  test('a host that is killed under read_only calls is replaced without their callers noticing', async () => {
    daemon = await startDaemon();
    for (let i = 0; i < 3000; i++) writeFileSync(join(daemon.workspace, `f${i}`), '');
    await using client = await daemon.connect();
    const pid = await pidOf('read_only');
    const calls = Array.from({ length: 8 }, () => client.call('file_list', {}));
    process.kill(pid, 'SIGKILL');
    for (const data of await Promise.all(calls.map((it) => dataOf(it)))) expect(data.count).toBe(3000);
  });

  test('a host killed under a command answers HOST_CRASHED at once, runs nothing twice, and leaves no process', async () => {
    daemon = await startDaemon();
    await using client = await daemon.connect();
    const command = 'echo ran >> runs; exec -a marker-of-a-killed-host sleep 60';
    const running = client.call('terminal_execute', { command });
    const runs = join(daemon.workspace, 'runs');
    await until(() => existsSync(runs) && readFileSync(runs, 'utf8') !== '');
    process.kill(await pidOf('execute'), 'SIGKILL');
    expect(await running).toMatchObject({
      success: false,
      error: { code: 'HOST_CRASHED' },
      metadata: { resources: { verdict: 'crashed' } },
    });
    await until(() => processesWith('marker-of-a-killed-host').length === 0, 1000);
    expect(readFileSync(runs, 'utf8')).toBe('ran\n');
    expect(await dataOf(client.call('terminal_execute', { command: 'echo next' }))).toMatchObject({ stdout: 'next\n' });
  });
});

test('a daemon that is killed takes its hosts and commands with it within a second, and the next one starts', async () => {
  daemon = await startDaemon();
  const client = await daemon.connect();
  const running = client.call('terminal_execute', {
    command: 'setsid -f sleep 61; exec -a marker-of-a-killed-daemon sleep 60',
  });
  running.catch(() => {}); // The connection ends.
  await until(() => processesWith('marker-of-a-killed-daemon').length > 0);
  process.kill(daemon.pid, 'SIGKILL');
  await daemon.ended;
  await until(
    () => processesWith(daemon.workspace).length === 0 && processesWith('marker-of-a-killed-daemon').length === 0,
    1000,
  );
  await client[Symbol.asyncDispose]();

  const { stateDir, workspace } = daemon;
  await using next = await startDaemon({ stateDir, workspace });
  await using again = await next.connect();
  expect(await again.call('file_list', {})).toMatchObject({ success: true });
});

test('a client whose daemon was restarted connects again by itself', async () => {
  daemon = await startDaemon();
  await using client = await daemon.connect();
  await dataOf(client.call('file_list', {}));
  process.kill(daemon.pid, 'SIGKILL');
  await client.ended;
  await daemon.ended;
  await using next = await startDaemon({ stateDir: daemon.stateDir, workspace: daemon.workspace });
  expect(await client.call('file_list', {})).toMatchObject({ success: true });
  expect(next.process.exitCode).toBeNull();
});

test('a second daemon with the same state directory is refused, and the first goes on', async () => {
  daemon = await startDaemon();
  await expect(startDaemon({ stateDir: daemon.stateDir, workspace: daemon.workspace })).rejects.toThrow(
    /another daemon uses/,
  );
  await using client = await daemon.connect();
  expect(await client.call('file_list', {})).toMatchObject({ success: true });
});

test('more places at work than there may be hosts are told to come later, and none that its host died under it', async () => {
  daemon = await startDaemon({ limits: { hostsMax: 2 } });
  const folders = Array.from({ length: 6 }, (_, i) => join(daemon.workspace, `p${i}`));
  for (const it of folders) mkdirSync(it);
  const clients = await Promise.all(folders.map((workspace) => daemon.connect({ workspace })));
  const ends = await Promise.all(
    clients.flatMap((client, i) =>
      ['a', 'b', 'c'].map(async (path) => {
        const tool = i % 2 === 0 ? 'file_write' : 'terminal_execute';
        const input = i % 2 === 0 ? { path, content: '' } : { command: `: > ${path}` };
        const result = await client.call(tool, input);
        return result.success ? 'ok' : result.error.code;
      }),
    ),
  );
  expect([...new Set(ends)].sort()).toEqual(['QUEUE_FULL', 'ok']);
  // And later callers find room when these are done.
  for (const client of clients)
    expect(await client.call('file_write', { path: 'd', content: '' })).toMatchObject({ success: true });
  for (const it of clients) await it[Symbol.asyncDispose]();
}, 60_000);
