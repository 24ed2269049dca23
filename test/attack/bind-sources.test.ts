/**
 * One command swaps names while the sandbox of another is built. bubblewrap follows links in bind sources, so a
 * folder bound on itself, to pin it, could show under its own name what is hidden elsewhere.
 */
import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { startDaemon, until } from '../support/daemon.ts';
import { programs } from '../support/programs.ts';

const SECRET = 'hunter2-behind-a-swapped-folder';
/** At least; longer if no sandbox met a swap while it was built, as on a busy machine. */
const ATTACK_MS = 5_000;
const ATTACK_MS_MAX = 25_000;

test('a command that swaps folders for links shows no command beside it what is hidden', async () => {
  await using daemon = await startDaemon({ limits: { indexSweepMs: 50 } });
  const { workspace } = daemon;
  mkdirSync(join(workspace, 'conf'));
  writeFileSync(join(workspace, 'conf/.env'), SECRET);
  cpSync(join(programs, 'swap-pinned.pl'), join(workspace, 'swap-pinned.pl'));
  await using attacker = await daemon.connect();
  await using reader = await daemon.connect();
  const swapping = attacker.call('terminal_execute', {
    command: 'perl swap-pinned.pl decoy conf . /',
    timeout: 30_000,
  });
  await until(() => execFileSync('ls', [workspace], { encoding: 'utf8' }).includes('decoy'));
  const startMs = Date.now();
  const seen = new Map<string, number>();
  const isNoticed = () => [...seen.keys()].some((it) => it.includes('while the sandbox was built'));
  const isEnough = (ms: number) => ms > ATTACK_MS_MAX || (ms > ATTACK_MS && isNoticed());
  const read = `x=env; cat conf/.$x decoy/.$x decoy/conf/.$x decoy${workspace}/conf/.$x 2>/dev/null; ls -A decoy; true`;
  while (!isEnough(Date.now() - startMs)) {
    const result = await reader.call('terminal_execute', { command: read });
    const got = result.success
      ? (result.data as { stdout: string }).stdout
      : `${result.error.code} ${result.error.message}`;
    seen.set(got, (seen.get(got) ?? 0) + 1);
  }
  writeFileSync(join(workspace, 'stop'), '');
  expect(await swapping).toMatchObject({ success: true, data: { stdout: expect.stringMatching(/swapped \d{3}/) } });
  expect([...seen.keys()].filter((it) => it.includes(SECRET))).toEqual([]);
  // The attack was noticed, and others could still work.
  expect(isNoticed()).toBe(true);
  expect([...seen.keys()].some((it) => !it.startsWith('SANDBOX_UNAVAILABLE'))).toBe(true);
}, 60_000);
