// Checks whether the daemon grows: mixed calls with failures, cancels, killed hosts and reconnects for some minutes,
// while its resources are sampled: npm run soak -- --minutes 10, or --hours 2. Exit code 1 if something grows beyond noise and
// bound.
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { loadavg } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import type { Client } from '../src/client.ts';
import { ALLOW_ALL, startDaemon, type TestDaemon } from '../test/support/daemon.ts';
import type { Figure } from './bench.ts';
import { measureBuilt } from './built.ts';
import { fit } from './measure.ts';
import { isReached, shown } from './report.ts';
import { machine, writeResults } from './results.ts';

const { values } = parseArgs({
  options: { minutes: { type: 'string', default: '10' }, hours: { type: 'string' }, json: { type: 'string' } },
});
const minutes = values.hours === undefined ? Number(values.minutes) : 60 * Number(values.hours);
if (!(minutes > 0)) throw new Error('--minutes and --hours take a number above 0');

const LANES = 6;
const SAMPLES = 120;
/** Share of the time in which caches, rings and pools fill, which they do once. */
const WARM_UP = 0.3;

/**
 * Resources that must not grow, with their units and the growth allowed after the warm-up: memory of calls is
 * bounded, but slow to fill.
 */
const BOUNDS = {
  rss: { unit: 'MiB', most: 24 },
  fds: { unit: '', most: 8 },
  threads: { unit: '', most: 4 },
  children: { unit: '', most: 4 },
} as const;
/** Files that grow with each call by design, up to limits of their own; drawn, not judged. */
const SIZES = ['audit', 'journal', 'results'] as const;

type Sample = Record<keyof typeof BOUNDS | (typeof SIZES)[number], number>;

function bytesOf(path: string): number {
  let bytes = 0;
  for (const name of readdirSync(path, { recursive: true, encoding: 'utf8' })) {
    try {
      bytes += statSync(join(path, name)).size;
    } catch {
      // ENOENT: removed meanwhile.
    }
  }
  return bytes;
}

function look({ pid, stateDir }: TestDaemon): Sample {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  const field = (name: string) => Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(status)?.[1]);
  const mib = (filter: RegExp) =>
    readdirSync(stateDir)
      .filter((it) => filter.test(it))
      .map((it) => join(stateDir, it))
      .reduce((sum, it) => sum + (statSync(it).isDirectory() ? bytesOf(it) : statSync(it).size), 0) /
    2 ** 20;
  return {
    rss: field('VmRSS') / 1024,
    fds: readdirSync(`/proc/${pid}/fd`).length,
    threads: field('Threads'),
    children: readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ').length,
    audit: mib(/^audit/),
    journal: mib(/^(undo|journal)/),
    results: mib(/^results/),
  };
}

/** One call of each kind, failing ones included. */
const CALLS: ((client: Client, n: number) => Promise<unknown>)[] = [
  (client, n) => client.call('file_write', { path: `f${n % 50}`, content: `round ${n}\n`.repeat(50) }),
  (client, n) => client.call('file_read', { path: `f${n % 50}` }),
  (client, n) => client.call('file_read', { path: `missing-${n}` }),
  (client) => client.call('file_grep', { pattern: 'round' }),
  (client, n) => client.call('terminal_execute', { command: `echo ${n}; echo error >&2` }),
  (client) => client.call('terminal_execute', { command: 'exit 3' }),
  (client) => client.call('terminal_execute', { command: 'sleep 5' }, { signal: AbortSignal.timeout(50) }),
  (client) => client.call('no_such_tool' as string, {}),
  (client, n) => client.call('file_read', { path: n } as never),
  (client) => client.call('code_run', { code: 'return (await tools.file_list({ path: "." })).entries.length' }),
];

interface Load {
  done: number;
}

/** Makes calls until `isOver`, on one connection after another. */
async function lane(daemon: TestDaemon, load: Load, isOver: () => boolean): Promise<void> {
  while (!isOver()) {
    await using client = await daemon.connect();
    for (let n = 0; n < 100 && !isOver(); n++) {
      await CALLS[load.done++ % CALLS.length]?.(client, load.done);
    }
  }
}

/** Kills a host every 3 s; its calls are answered all the same. */
async function killHosts(daemon: TestDaemon, isOver: () => boolean): Promise<number> {
  await using operator = await daemon.connect({ role: 'operator' });
  let killed = 0;
  while (!isOver()) {
    await new Promise((resolve) => setTimeout(resolve, 3000));
    const { hosts } = (await operator.request('status', {})) as { hosts: { pid: number }[] };
    const victim = hosts[killed % Math.max(1, hosts.length)];
    if (!victim) continue;
    try {
      process.kill(victim.pid, 'SIGKILL');
      killed += 1;
    } catch {
      // ESRCH: already ended.
    }
  }
  return killed;
}

await measureBuilt();
await using daemon = await startDaemon({ policy: ALLOW_ALL });
const endsAt = performance.now() + minutes * 60_000;
const isOver = () => performance.now() > endsAt;
const load: Load = { done: 0 };
const running = Promise.all([
  killHosts(daemon, isOver),
  ...Array.from({ length: LANES }, () => lane(daemon, load, isOver)),
]);
const seen: { minute: number; sample: Sample }[] = [];
for (let at = 0; at < SAMPLES; at++) {
  await new Promise((resolve) => setTimeout(resolve, (minutes * 60_000) / SAMPLES));
  seen.push({ minute: ((at + 1) * minutes) / SAMPLES, sample: look(daemon) });
}
const [killed] = await running;
console.log(`${load.done} calls in ${minutes} min, ${killed} hosts killed`);

const settled = seen.filter((it) => it.minute > minutes * WARM_UP);
const curveOf = (name: keyof Sample) => settled.map(({ minute, sample }) => [minute, sample[name]] as const);
const settledMinutes = minutes * (1 - WARM_UP);
const figures: Figure[] = [];
for (const [name, { unit, most }] of Object.entries(BOUNDS) as [keyof typeof BOUNDS, (typeof BOUNDS)['rss']][]) {
  const { slope, error } = fit(curveOf(name));
  // Certain growth: the slope less three standard errors.
  const [growth, noise] = [slope * settledMinutes, 3 * error * settledMinutes];
  figures.push({ name: `${name}, at the end`, unit, value: settled.at(-1)?.sample[name] ?? Number.NaN });
  figures.push({
    name: `${name}, surely grown after the warm-up`,
    unit,
    value: Math.max(0, growth - noise),
    goal: { most },
  });
}
for (const name of SIZES)
  figures.push({ name: `${name}, on disk at the end`, unit: 'MiB', value: settled.at(-1)?.sample[name] ?? Number.NaN });
for (const it of figures)
  console.log(`${it.name.padEnd(44)} ${shown(it).padStart(10)}${isReached(it) ? '' : '  LEAK'}`);
const units: Record<string, string> = { rss: 'MiB', audit: 'MiB', journal: 'MiB', results: 'MiB' };
const names = [...Object.keys(BOUNDS), ...SIZES] as (keyof Sample)[];
const curves = names.map((name) => ({
  name,
  x: 'min',
  y: units[name] ?? '',
  log: false,
  note: `${(fit(curveOf(name)).slope * 60).toFixed(1)} an hour`,
  points: seen.map(({ minute, sample }) => [minute, sample[name]] as const),
}));
const title = `${minutes} minutes of mixed calls: ${load.done} calls, ${killed} hosts killed`;
const findings = {
  figures,
  pictures: [{ name: 'soak', title, kind: 'curves', curves } as const],
  says: [],
  skipped: [],
};
const question = 'Does the daemon grow under mixed calls with failures, cancels, killed hosts and reconnects?';
const about = {
  title: 'The long run',
  question,
  at: new Date().toISOString(),
  seconds: minutes * 60,
  load: loadavg()[0] as number,
};
writeResults({ form: 'full', machine: machine(), benches: { soak: { ...about, ...findings } } }, values.json);
if (!figures.every(isReached)) process.exitCode = 1;
