/** The benches run, small, so that they are there when they are wanted. */
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';

test('the bench prints each figure beside its floor', async () => {
  const bench = fileURLToPath(new URL('../../bench/run.ts', import.meta.url));
  const { stdout } = await promisify(execFile)(process.execPath, [bench, '--small']);
  for (const it of [
    'dispatch through a host / echo',
    'terminal_execute true / bare bubblewrap',
    'file_read per second, 32 in flight',
    'idle daemon and three hosts',
  ]) {
    expect(stdout).toMatch(new RegExp(`^${it}.* [\\d.]+$`, 'm'));
  }
}, 60_000);
