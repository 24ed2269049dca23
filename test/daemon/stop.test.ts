/** `ringfence stop` ends a daemon that accepts no requests, by signalling the process that holds its state. */
import { execFile } from 'node:child_process';
import { readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { lockHolder } from '../../src/store/database.ts';
import { type OpenDaemon, ringfence, startDaemon, until } from '../support/daemon.ts';

function stop({ stateDir, socket }: OpenDaemon): Promise<{ code: number; said: string }> {
  const args = [ringfence, 'stop', '--state', stateDir, '--socket', socket];
  return new Promise((resolve) => {
    execFile(process.execPath, args, { timeout: 60_000 }, (error, _, stderr) =>
      resolve({ code: error ? Number(error.code) : 0, said: stderr }),
    );
  });
}

test('a daemon whose socket is gone stops', async () => {
  await using daemon = await startDaemon();
  rmSync(daemon.socket);
  const { code, said } = await stop(daemon);
  expect([code, said]).toEqual([0, expect.stringContaining(`process ${daemon.pid}`)]);
  expect(await daemon.ended).toBe(0);
}, 120_000);

test('a daemon whose operator token is gone stops', async () => {
  await using daemon = await startDaemon();
  rmSync(join(daemon.stateDir, 'operator.token'));
  expect((await stop(daemon)).code).toBe(0);
  expect(await daemon.ended).toBe(0);
}, 60_000);

test('a daemon that was suspended and answers no request stops as soon as it runs again', async () => {
  await using daemon = await startDaemon();
  daemon.process.kill('SIGSTOP');
  const stopped = stop(daemon);
  // The signal is pending, which shows in its status.
  const pending = () => /ShdPnd:\s*(\S+)/.exec(readFileSync(`/proc/${daemon.pid}/status`, 'utf8'))?.[1] ?? '0';
  try {
    await until(() => BigInt(`0x${pending()}`) !== 0n, 60_000);
  } finally {
    daemon.process.kill('SIGCONT'); // A process that stays stopped would never end.
  }
  expect((await stopped).code).toBe(0);
  expect(await daemon.ended).toBe(0);
}, 60_000);

test('the kernel names the process that holds a lock, and no process for a free one', async () => {
  await using daemon = await startDaemon();
  const lock = join(daemon.stateDir, 'daemon.lock');
  expect(lockHolder(lock)).toBe(daemon.pid);
  expect(lockHolder(join(daemon.stateDir, 'policy.yaml'))).toBeUndefined();
  expect(lockHolder(join(daemon.stateDir, 'nothing'))).toBeUndefined();
});
