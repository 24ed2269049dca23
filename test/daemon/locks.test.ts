import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { openDaemon, until } from '../support/daemon.ts';

/** Fails while another instance runs. */
const ALONE = 'mkdir busy || exit 9; sleep 0.2; rmdir busy';

async function exitCodes(locks: string): Promise<unknown[]> {
  await using daemon = await openDaemon({ policy: `tiers:\n  execute: { decision: allow, locks: ${locks} }\n` });
  await using one = await daemon.connect();
  await using other = await daemon.connect();
  const results = await Promise.all(
    [one, other, one, other].map((client) => client.call('terminal_execute', { command: ALONE })),
  );
  return results.map((it) => it.success && it.data.exitCode);
}

test('commands of a workspace run one after the other where the policy locks it', async () => {
  expect(await exitCodes('workspace')).toEqual([0, 0, 0, 0]);
});

test('commands run beside each other where the policy locks nothing', async () => {
  expect(await exitCodes('none')).toContain(9);
});

test('a command that redirects to a file and writes to that file wait for each other', async () => {
  await using daemon = await openDaemon();
  await using client = await daemon.connect();
  const command = client.call('terminal_execute', {
    command: '{ echo a; until [ -e other.txt ]; do sleep 0.05; done; echo b; } > log.txt',
  });
  const write = client.call('file_write', { path: 'log.txt', content: 'c\n' });
  const beside = client.call('file_write', { path: 'other.txt', content: 'd\n' });
  expect(await Promise.race([command, write, beside])).toMatchObject({ success: true, data: { path: 'other.txt' } });
  await Promise.all([command, write]);
  expect(readFileSync(join(daemon.workspace, 'log.txt'), 'utf8')).toBe('c\n');
});

test('calls that wait for a path end with their time, and those behind them go on', async () => {
  await using daemon = await openDaemon();
  await using client = await daemon.connect();
  const command = client.call('terminal_execute', { command: 'sleep 1 > log.txt' });
  const late = client.call('file_write', { path: 'log.txt', content: 'c\n' }, { timeoutMs: 100 });
  expect(await late).toMatchObject({ success: false, error: { code: 'TIMEOUT' } });
  expect(await client.call('file_write', { path: 'x.txt', content: '' })).toMatchObject({ success: true });
  expect(await command).toMatchObject({ success: true });
});

test('a session whose calls wait for many paths is told so, and leaves room for others', async () => {
  await using daemon = await openDaemon({ limits: { lockWaitingPathsMax: 40, sessionLockWaitingPathsMax: 10 } });
  await using greedy = await daemon.connect();
  await using other = await daemon.connect();
  const command = greedy.call('terminal_execute', { command: 'sleep 1 > log.txt' });
  // Now it holds the lock of the path; before, a write of the flood might.
  await until(() => existsSync(join(daemon.workspace, 'log.txt')));
  const flood = Array.from({ length: 30 }, (_, i) => greedy.call('file_write', { path: 'log.txt', content: `${i}` }));
  const late = other.call('file_write', { path: 'log.txt', content: 'other' });
  const refused = (await Promise.all(flood)).filter((it) => !it.success && it.error.code === 'QUEUE_FULL');
  expect(refused).toHaveLength(20);
  expect(refused[0]).toMatchObject({
    error: {
      message: 'calls of this session wait for locks on 10 paths that other calls hold; at most 10 are allowed',
    },
  });
  expect(await late).toMatchObject({ success: true });
  expect(await command).toMatchObject({ success: true });
});
