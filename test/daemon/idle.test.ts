/** Polling ends, and the daemon does not react to its own changes: without calls it uses no processor, whatever it did before. */
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { test } from 'vitest';
import { dataOf, startDaemon, until } from '../support/daemon.ts';

const LOOK_MS = 500;
/** The most CPU time in ms of all its processes per look. */
const QUIET_MS = 20;
/** The most wake-ups of the gateway's loop per look; its timers are further apart. */
const QUIET_WAKES = 4;

test('a daemon that made many short calls one after the other is idle when they end', async () => {
  await using daemon = await startDaemon();
  writeFileSync(join(daemon.workspace, 'a.txt'), 'a');
  const client = await daemon.connect();
  for (let call = 0; call < 300; call++) await dataOf(client.call('file_read', { path: 'a.txt' }, { cache: false }));
  await until(async () => {
    const before = { ms: cpuMs(daemon.pid), wakes: wakesOf(daemon.pid) };
    await sleep(LOOK_MS);
    return cpuMs(daemon.pid) - before.ms < QUIET_MS && wakesOf(daemon.pid) - before.wakes <= QUIET_WAKES;
  }, 20_000);
});

/** CPU time of all threads of a process and of all that it started, in milliseconds. */
function cpuMs(pid: number): number {
  const tasks = existsSync(`/proc/${pid}/task`) ? readdirSync(`/proc/${pid}/task`) : [];
  const fieldsOf = (task: string, file: string) => textOf(`/proc/${pid}/task/${task}/${file}`).split(' ');
  const own = tasks.map((it) => Number(fieldsOf(it, 'schedstat')[0]) / 1e6);
  const children = tasks.flatMap((it) => fieldsOf(it, 'children'));
  return [...own, ...children.filter((it) => it !== '').map((it) => cpuMs(Number(it)))].reduce((a, b) => a + b, 0);
}

/** How often the main thread of a process has slept. */
const wakesOf = (pid: number) => Number(/^voluntary_ctxt_switches:\s+(\d+)/m.exec(textOf(`/proc/${pid}/status`))?.[1]);

function textOf(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return ''; // Ended meanwhile.
  }
}
