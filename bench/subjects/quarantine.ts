import { execFile } from 'node:child_process';
import { chmodSync, existsSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import type { ToolResult } from '../../src/base/call.ts';
import { startDaemon, type TestDaemon } from '../../test/support/daemon.ts';
import { type Context, defineBench } from '../bench.ts';

const run = promisify(execFile);

/** An editor looks more seldom: once a second, or after a change. */
const LOOK_EVERY_MS = 250;

/** A repository whose config is ready to be armed; `$t` is its folder. */
const READY = (n: number) => `t=t${n}; git init -q $t; sleep 0.1
  printf '[core]\\n\\tfsmonitor = %s/trip.sh\\n' $PWD > team`;

/** Arms it and prints for how many milliseconds the config could be read. */
const ARMED = `python3 -c '
import os, time
path = os.environ["t"] + "/.git/config"
os.rename("team", path); since = time.perf_counter()
while True:
    try:
        with open(path) as f:
            if "trip" not in f.read(): break
    except OSError: break
    if time.perf_counter() - since > 0.2: break
print((time.perf_counter() - since) * 1000)
time.sleep(0.05)'`;

/** Waits until the person's git opens the repository, and arms it then. Four loops of renames keep the follower busy. */
const WAITING = (
  loops: number,
) => `for i in $(seq ${loops}); do (while :; do mv x$i y$i; mv y$i x$i; done) 2>/dev/null & : > x$i; done
python3 -c '
import ctypes, os, time
libc = ctypes.CDLL(None); fd = libc.inotify_init(); git = os.environ["t"] + "/.git"
libc.inotify_add_watch(fd, git.encode(), 0x20)
os.read(fd, 4096); os.rename("team", git + "/config"); time.sleep(0.3)'; kill $(jobs -p) 2>/dev/null; :`;

interface Attack {
  /** Whether the person's git ran what was armed. */
  readonly ran: boolean;
  readonly isTold: boolean;
  readonly stdout: string;
}

/** One attack in a session of its own, since the third is paused. */
async function attack(daemon: TestDaemon, command: string, look: () => Promise<unknown>): Promise<Attack> {
  const ran = join(daemon.workspace, 'RAN');
  rmSync(ran, { force: true });
  await using client = await daemon.connect();
  const called = client.call('terminal_execute', { command }) as Promise<ToolResult<{ stdout: string }>>;
  const [result] = await Promise.all([called, look()]);
  if (!result.success) throw new Error(result.error.message);
  const hasRun = existsSync(ran);
  for (const it of readdirSync(daemon.workspace))
    if (it !== 'trip.sh') rmSync(join(daemon.workspace, it), { recursive: true });
  const isTold = (result.metadata.quarantined ?? []).length > 0;
  return { ran: hasRun, isTold, stdout: result.data.stdout };
}

async function lookAt(folder: string): Promise<void> {
  await run('git', ['status'], { cwd: folder }).catch(() => undefined); // It is no repository yet, or no more.
}

/** The attacks whose command waits for the person's git. */
async function waiting(bench: Context, daemon: TestDaemon, loops: number): Promise<Attack[]> {
  const tries = bench.size(2, loops > 0 ? 100 : 300);
  const all: Attack[] = [];
  for (let n = 0; n < tries; n++) {
    const name = (loops + 1) * 10_000 + n;
    const command = `${READY(name)}; export t; ${WAITING(loops)}`;
    const looks = async () => {
      for (const until = performance.now() + 600; performance.now() < until; )
        await lookAt(join(daemon.workspace, `t${name}`));
    };
    all.push(await attack(daemon, command, looks));
  }
  const beside = loops > 0 ? `, beside ${loops} loops of renames` : '';
  bench.value(`armed when the person’s git begins${beside}: ran, percent of ${tries}`, shareThatRan(all), '');
  return all;
}

const shareThatRan = (all: readonly Attack[]): number => (100 * all.filter((it) => it.ran).length) / all.length;

export default defineBench({
  title: 'Moved away',
  question: 'How long can an armed git config be read, and how often does the person’s git run it?',
  async run(bench) {
    await using daemon = await startDaemon();
    const trip = join(daemon.workspace, 'trip.sh');
    writeFileSync(trip, `#!/bin/sh\necho ran >> '${join(daemon.workspace, 'RAN')}'\n`);
    chmodSync(trip, 0o755);
    const tries = bench.size(3, 1000);
    const blind: Attack[] = [];
    for (let n = 0; n < tries; n++) {
      const look = async () => {
        await delay(100 + Math.random() * LOOK_EVERY_MS);
        await lookAt(join(daemon.workspace, `t${n}`));
      };
      blind.push(await attack(daemon, `${READY(n)}; export t; ${ARMED}`, look));
    }
    bench.times({ 'from usable to moved away': [blind.map((it) => Number(it.stdout))] });
    bench.value(
      `blind, beside git status each ${LOOK_EVERY_MS} ms: ran, percent of ${tries}`,
      shareThatRan(blind),
      '',
      { most: 0.5 },
    );
    const all = [...blind, ...(await waiting(bench, daemon, 0)), ...(await waiting(bench, daemon, 4))];
    const untold = all.filter((it) => !it.isTold).length;
    bench.value('attacks of which nothing was told', untold, '', { most: 0 });
  },
});
