// Checks that the daemon survives faults and does not grow: mixed calls with failures, cancels and
// reconnects under one fault after another (soak/faults.ts), while its resources are sampled: npm run soak -- --minutes
// 10, or --hours 2. Exit code 1 if a call is never answered or meets a fault of ours, if a file or the audit log is torn,
// if processes are left, or if something grows beyond noise and bound.
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { loadavg } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import type { Client } from '../src/client/client.ts';
import type { TestDaemon } from '../test/support/daemon.ts';
import type { Figure } from './bench.ts';
import { measureBuilt } from './built.ts';
import { fit } from './measure.ts';
import { isReached, shown } from './report.ts';
import { machine, writeResults } from './results.ts';
import { SoakArena } from './soak/arena.ts';
import { FAULTS, type Fault } from './soak/faults.ts';
import { toSvg } from './svg.ts';

const { values } = parseArgs({
  options: { minutes: { type: 'string', default: '10' }, hours: { type: 'string' }, json: { type: 'string' } },
});
const minutes = values.hours === undefined ? Number(values.minutes) : 60 * Number(values.hours);
if (!(minutes > 0)) throw new Error('--minutes and --hours take a number above 0');

const LANES = 6;
const SAMPLES = 120;
/** Share of the time in which caches, rings and pools fill, which they do once. */
const WARM_UP = 0.3;
/** Shares of the time after which the daemon is killed: before its growth is measured, and once full of state. */
const KILLED_AT = [0.08, 0.18, 0.97];
const MEASURED_UNTIL = 0.95;
/** Growth is not judged in a shorter run, which is all warm-up. */
const JUDGED_MINUTES_MIN = 10;

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

/** Calls and faults over time; drawn in the picture, not judged. */
const RATES = ['calls', 'faults'] as const;

type Watched = Record<keyof typeof BOUNDS | (typeof SIZES)[number], number>;
type Sample = Watched & Record<(typeof RATES)[number], number>;

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

function look({ pid, stateDir }: TestDaemon): Watched {
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
  /** Number of calls by outcome: `success`, an error code, or `ended` connections. */
  readonly outcomes: Map<string, number>;
  /** Findings that fail the soak. */
  readonly wrong: string[];
}

/** Time after which a call counts as never answered; faults and calls take seconds. */
const ANSWER_MS = 60_000;

async function outcomeOf(call: Promise<unknown>): Promise<string> {
  const late = AbortSignal.timeout(ANSWER_MS);
  const lateness = new Promise<string>((resolve) => late.addEventListener('abort', () => resolve('never answered')));
  const answer = call.then(
    (it) => (it as { error?: { code: string } }).error?.code ?? 'success',
    () => 'the connection ended',
  );
  return Promise.race([answer, lateness]);
}

/** Makes calls until `isOver`, on one connection after another. */
async function lane(arena: SoakArena, load: Load, isOver: () => boolean): Promise<void> {
  while (!isOver()) {
    try {
      await using client = await arena.daemon.connect();
      for (let n = 0, outcome = ''; n < 100 && !isOver() && outcome !== 'the connection ended'; n++) {
        outcome = await outcomeOf(CALLS[load.done++ % CALLS.length]?.(client, load.done) as Promise<unknown>);
        load.outcomes.set(outcome, (load.outcomes.get(outcome) ?? 0) + 1);
        if (outcome === 'INTERNAL' || outcome === 'never answered') load.wrong.push(outcome);
      }
    } catch {
      // The daemon was killed, or ended the connection under a fault.
      await pause(50);
    }
  }
}

/** Faults one after another, with a pause after each, and the daemon itself killed at some shares of the time. */
async function disturb(arena: SoakArena, seen: Map<string, number>, isOver: () => boolean): Promise<void> {
  const faults = FAULTS.filter((it) => it.missing?.(arena) === undefined);
  const kills = [...KILLED_AT];
  for (let turn = 0; !isOver(); turn++) {
    const isKill = kills[0] !== undefined && shareOver() > kills[0];
    const fault = isKill ? KILL_DAEMON : (faults[turn % faults.length] as Fault);
    if (isKill) kills.shift();
    try {
      await fault.run(arena, turn);
      seen.set(fault.name, (seen.get(fault.name) ?? 0) + 1);
    } catch (error) {
      if (isKill) throw error;
      // The connection was refused or cut because the previous fault still lasts.
      const name = `${fault.name}, refused`;
      seen.set(name, (seen.get(name) ?? 0) + 1);
    }
    await pause(Math.min(15_000, Math.max(300, minutes * 1000)));
  }
}

const KILL_DAEMON: Fault = { name: 'kill -9 of the daemon', run: (arena) => arena.killDaemon() };

/** Checks that the audit log and each file are whole after the faults. */
async function wrongAtTheEnd({ daemon, workspace }: SoakArena): Promise<string[]> {
  await using operator = await daemon.connect({ role: 'operator' });
  const { ok, ...more } = (await operator.request('audit.verify', {})) as { ok: boolean };
  const torn = readdirSync(workspace)
    .filter((it) => /^f\d+$/.test(it))
    .filter((it) => !/^(round \d+\n)\1{49}$/.test(readFileSync(join(workspace, it), 'utf8')));
  const call = await operator.call('file_read', { path: 'f1' });
  return [
    ...(ok ? [] : [`the audit log is not whole: ${JSON.stringify(more)}`]),
    ...torn.map((it) => `the file ${it} is torn`),
    ...(call.success || call.error.code === 'NOT_FOUND' ? [] : [`a read fails afterwards: ${call.error.code}`]),
  ];
}

/** Lines of the daemons' log that a failed soak shows. */
const LOG_LINES = 200;
const lastLines = (log: string) => log.split('\n').slice(-LOG_LINES).join('\n');

await measureBuilt();
const arena = await SoakArena.open();
for (const signal of ['SIGINT', 'SIGTERM'] as const)
  process.once(signal, () => void arena[Symbol.asyncDispose]().finally(() => process.exit(1)));
for (const it of FAULTS) {
  const reason = it.missing?.(arena);
  if (reason !== undefined) console.log(`not tried: ${it.name}, since ${reason}`);
}
const startedAt = performance.now();
/** Share of the run that is over. Time without a daemon does not count: on a busy machine the starts after kills alone take as long as a short run. */
const shareOver = () => (performance.now() - startedAt - arena.downMs) / (minutes * 60_000);
const isOver = () => shareOver() > 1;
const load: Load = { done: 0, outcomes: new Map(), wrong: [] };
const faultsSeen = new Map<string, number>();
const faultCount = () => [...faultsSeen.values()].reduce((sum, it) => sum + it, 0);
const seen: { minute: number; sample: Sample }[] = [];
let left = 0;
try {
  const running = Promise.all([
    disturb(arena, faultsSeen, isOver),
    ...Array.from({ length: LANES }, () => lane(arena, load, isOver)),
  ]);
  let hasFailed = false;
  running.catch(() => {
    hasFailed = true; // Awaited below, after the samples.
  });
  for (let at = 0, before = 0; at < SAMPLES && !hasFailed; at++) {
    await pause((minutes * 60_000) / SAMPLES);
    if (!arena.isUp) continue;
    const calls = ((load.done - before) * SAMPLES) / (minutes * 60);
    before = load.done;
    try {
      const sample = { ...look(arena.daemon), calls, faults: faultCount() };
      seen.push({ minute: ((at + 1) * minutes) / SAMPLES, sample });
    } catch {
      // ENOENT: killed while it was looked at.
    }
  }
  await running;
  load.wrong.push(...(await wrongAtTheEnd(arena)));
  left = await arena.close();
} catch (error) {
  // What was measured until then is still told.
  load.wrong.push(`the soak ended early: ${(error as Error).message}`);
} finally {
  await arena[Symbol.asyncDispose]();
}
if (left > 0) load.wrong.push(`${left} processes are left over`);
const listed = (counts: ReadonlyMap<string, number>) =>
  [...counts]
    .sort(([, a], [, b]) => b - a)
    .map(([name, count]) => `${name} ${count}`)
    .join(', ');
console.log(`${load.done} calls in ${minutes} min: ${listed(load.outcomes)}`);
console.log(`${faultCount()} faults: ${listed(faultsSeen)}`);
for (const it of new Set(load.wrong))
  console.log(`WRONG ${load.wrong.filter((other) => other === it).length} times: ${it}`);

const settled = seen.filter((it) => it.minute > minutes * WARM_UP && it.minute < minutes * MEASURED_UNTIL);
const curveOf = (name: keyof Sample) => settled.map(({ minute, sample }) => [minute, sample[name]] as const);
const settledMinutes = minutes * (MEASURED_UNTIL - WARM_UP);
const isJudged = minutes >= JUDGED_MINUTES_MIN;
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
    ...(isJudged && { goal: { most } }),
  });
}
for (const name of SIZES)
  figures.push({ name: `${name}, on disk at the end`, unit: 'MiB', value: settled.at(-1)?.sample[name] ?? Number.NaN });
for (const it of figures)
  console.log(`${it.name.padEnd(44)} ${shown(it).padStart(10)}${isReached(it) ? '' : '  LEAK'}`);
const units: Record<string, string> = { rss: 'MiB', audit: 'MiB', journal: 'MiB', results: 'MiB', calls: '/s' };
const names = [...Object.keys(BOUNDS), ...RATES, ...SIZES] as (keyof Sample)[];
const curves = names.map((name) => ({
  name,
  x: 'min',
  y: units[name] ?? '',
  log: false,
  note: `${(fit(curveOf(name)).slope * 60).toFixed(1)} an hour`,
  points: seen.map(({ minute, sample }) => [minute, sample[name]] as const),
}));
const title = `${minutes} minutes of mixed calls: ${load.done} calls, ${faultCount()} faults`;
const picture = { name: 'soak', title, kind: 'curves', curves } as const;
const findings = {
  figures,
  pictures: [picture],
  says: [
    `Outcomes: ${listed(load.outcomes)}. Faults: ${listed(faultsSeen)}.`,
    ...(load.wrong.length > 0 ? [`**Wrong**: ${[...new Set(load.wrong)].join('; ')}.`] : []),
  ],
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
const results = { form: 'full', machine: machine(), benches: { soak: { ...about, ...findings } } } as const;
const file = writeResults(results, values.json);
const drawn = file.replace(/(\.json)?$/, '.svg');
const log = file.replace(/(\.json)?$/, '.log');
writeFileSync(drawn, toSvg(picture));
writeFileSync(log, arena.log);
console.log(`written: ${file}, ${drawn}, ${log}`);
if (load.wrong.length > 0) console.log(`The end of the daemons' log:\n${lastLines(arena.log)}`);
if (load.wrong.length > 0 || !figures.every(isReached)) process.exitCode = 1;
