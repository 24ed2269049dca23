// What does each layer cost? Every figure stands beside its floor, measured in the same run. `--small` for the tests.
import { spawn } from 'node:child_process';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createConnection } from 'node:net';
import { cpus } from 'node:os';
import { join } from 'node:path';
import { dataOf, startDaemon, type TestDaemon, temporaryDir, until } from '../test/support/daemon.ts';
import { createChain } from './chain-floor.ts';
import { commandFloor } from './command-floor.ts';

const small = process.argv.includes('--small');
const rounds = small ? 200 : 5000;
const commands = small ? 15 : 200;

interface Figure {
  readonly name: string;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly perSecond?: number;
}
const figures: Figure[] = [];

type Run = () => Promise<unknown>;

/**
 * Latency of each subject, one run after the other. They take turns in blocks, since the machine's mood changes by the second
 * and a floor measured in another one would say nothing.
 */
async function latencies<Name extends string>(
  times: number,
  subjects: Record<Name, Run>,
): Promise<Record<Name, Figure>> {
  const blocks = 10;
  const names = Object.keys(subjects) as Name[];
  const took = Object.fromEntries(names.map((name) => [name, [] as number[]])) as Record<Name, number[]>;
  for (const name of names) for (let i = 0; i < times / 5; i++) await subjects[name]();
  for (let block = 0; block < blocks; block++) {
    for (const name of names) {
      for (let i = 0; i < times / blocks; i++) {
        const from = performance.now();
        await subjects[name]();
        took[name].push(performance.now() - from);
      }
    }
  }
  const toFigure = (name: Name): Figure => {
    const sorted = took[name].sort((a, b) => a - b);
    const at = (share: number) => sorted[Math.floor(sorted.length * share)] as number;
    return { name, p50Ms: at(0.5), p99Ms: at(0.99) };
  };
  const all = Object.fromEntries(names.map((name) => [name, toFigure(name)])) as Record<Name, Figure>;
  figures.push(...(Object.values(all) as Figure[]));
  return all;
}

/** Calls per second with `inFlight` of them under way all the time. */
async function throughput(
  name: string,
  { inFlight, times }: { inFlight: number; times: number },
  run: () => Promise<unknown>,
): Promise<Figure> {
  let left = times;
  const from = performance.now();
  const lane = async () => {
    while (left-- > 0) await run();
  };
  await Promise.all(Array.from({ length: inFlight }, lane));
  const ms = performance.now() - from;
  const figure = { name, p50Ms: ms / times, p99Ms: Number.NaN, perSecond: (times / ms) * 1000 };
  figures.push(figure);
  return figure;
}

/** A Unix socket that sends back what it gets, in a process of its own: the least that any daemon costs. */
async function createEcho(): Promise<{ run: Run } & Disposable> {
  const folder = temporaryDir('echo');
  const path = join(folder, 's');
  const script = `require('net').createServer((s) => s.pipe(s)).listen(${JSON.stringify(path)}, () => console.log('up'))`;
  const server = spawn(process.execPath, ['-e', script], { stdio: ['ignore', 'pipe', 'inherit'] });
  await new Promise((resolve) => server.stdout.once('data', resolve));
  const socket = createConnection(path);
  const message = Buffer.alloc(128);
  return {
    run: () => new Promise((resolve) => socket.once('data', resolve) && socket.write(message)),
    [Symbol.dispose]() {
      socket.destroy();
      server.kill();
      rmSync(folder, { recursive: true });
    },
  };
}

const ratio = (a: Figure, b: Figure) => (a.p50Ms / b.p50Ms).toFixed(2);
const rss = (pid: number, field: 'Rss' | 'Pss') =>
  Number(new RegExp(`^${field}:\\s+(\\d+)`, 'm').exec(readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8'))?.[1]) / 1024;

async function memory(daemon: TestDaemon): Promise<Record<'Rss' | 'Pss', number>> {
  await using operator = await daemon.connect({ role: 'operator' });
  type Status = { hosts: { pid: number }[] };
  await until(async () => ((await operator.request('status', {})) as Status).hosts.length === 3);
  const { hosts } = (await operator.request('status', {})) as Status;
  const pids = [daemon.pid, ...hosts.map(({ pid }) => pid)];
  const sum = (field: 'Rss' | 'Pss') => pids.reduce((total, pid) => total + rss(pid, field), 0);
  return { Rss: sum('Rss'), Pss: sum('Pss') };
}

await using daemon = await startDaemon();
await using ungrouped = await startDaemon({ config: { cgroup: 'none' } });
writeFileSync(join(daemon.workspace, 'empty'), '');
writeFileSync(
  join(daemon.workspace, 'four-kib.txt'),
  'x'.repeat(4095).replace(/.{63}x/g, (it) => `${it.slice(0, 63)}\n`),
);
await using client = await daemon.connect();
await using ungroupedClient = await ungrouped.connect();
await dataOf(client.call('terminal_execute', { command: 'true' }));
await dataOf(ungroupedClient.call('terminal_execute', { command: 'true' }));
await dataOf(client.call('file_write', { path: 'note', content: '' }));
const idle = await memory(daemon);

using echoes = await createEcho();
using chain = await createChain();
const file =
  (path: string, cache = false) =>
  () =>
    client.call('file_read', { path }, { cache });
const calls = await latencies(rounds, {
  'socket echo (floor)': echoes.run,
  'the same hops, empty (floor)': chain.run,
  'refused in the gateway': () => client.call('no_such_tool', {}),
  'through a host (empty file)': file('empty'),
  'file_read 4 KiB': file('four-kib.txt'),
  'file_read 4 KiB, cached': file('four-kib.txt', true),
});
const many = await throughput(
  'file_read 4 KiB, 32 in flight',
  { inFlight: 32, times: rounds * 4 },
  file('four-kib.txt'),
);
const cached = await throughput(
  'file_read 4 KiB, cached, 32 in flight',
  { inFlight: 32, times: rounds * 4 },
  file('four-kib.txt', true),
);
const floor = commandFloor(daemon.workspace);
const commandCalls = await latencies(commands, {
  'spawn true (floor)': floor.bare,
  'bare bubblewrap true (floor)': floor.bubblewrap,
  'terminal_execute true': () => client.call('terminal_execute', { command: 'true' }),
  'the same without control groups': () => ungroupedClient.call('terminal_execute', { command: 'true' }),
});
const echo = calls['socket echo (floor)'];
const hops = calls['the same hops, empty (floor)'];
const command = commandCalls['terminal_execute true'];

console.log(`Node ${process.version}, ${cpus().length} × ${cpus()[0]?.model}, level ${daemon.confinement.level}\n`);
for (const it of figures) {
  const rate = it.perSecond
    ? `${Math.round(it.perSecond)}/s`
    : `p50 ${it.p50Ms.toFixed(3)} ms  p99 ${it.p99Ms.toFixed(3)} ms`;
  console.log(`${it.name.padEnd(32)} ${rate}`);
}
const claims = {
  'gateway alone / echo': ratio(calls['refused in the gateway'], echo),
  'dispatch through a host / echo': ratio(calls['through a host (empty file)'], echo),
  'the same hops, empty / echo': ratio(hops, echo),
  'dispatch through a host / the same hops, empty': ratio(calls['through a host (empty file)'], hops),
  'file_read 4 KiB / echo': ratio(calls['file_read 4 KiB'], echo),
  'the same, from the cache / echo': ratio(calls['file_read 4 KiB, cached'], echo),
  'terminal_execute true / bare bubblewrap': ratio(command, commandCalls['bare bubblewrap true (floor)']),
  'the same without control groups / bare bubblewrap': ratio(
    commandCalls['the same without control groups'],
    commandCalls['bare bubblewrap true (floor)'],
  ),
  'terminal_execute true / bare spawn': ratio(command, commandCalls['spawn true (floor)']),
  'file_read per second, 32 in flight': Math.round(many.perSecond ?? 0),
  'the same, cached': Math.round(cached.perSecond ?? 0),
  'idle daemon and three hosts, MiB (Pss)': Math.round(idle.Pss),
  'idle daemon and three hosts, MiB (sum of Rss)': Math.round(idle.Rss),
};
console.log();
for (const [name, value] of Object.entries(claims)) console.log(`${name.padEnd(48)} ${value}`);
if (!small) {
  mkdirSync(new URL('results/', import.meta.url), { recursive: true });
  const report = { at: new Date().toISOString(), node: process.version, cpu: cpus()[0]?.model, figures, claims };
  writeFileSync(
    new URL(`results/${report.at.replaceAll(':', '-')}.json`, import.meta.url),
    JSON.stringify(report, null, 2),
  );
}
