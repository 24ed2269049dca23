// What does each layer cost? Every figure stands beside its floor, measured in the same run. `--small` for the tests.
import { spawn } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createConnection } from 'node:net';
import { cpus } from 'node:os';
import { join } from 'node:path';
import { dataOf, startDaemon, type TestDaemon, temporaryDir, until } from '../test/support/daemon.ts';
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

/** Latency of `times` runs one after the other, after a tenth as many to warm up. */
async function latency(name: string, times: number, run: () => Promise<unknown>): Promise<Figure> {
  for (let i = 0; i < times / 10; i++) await run();
  const took: number[] = [];
  for (let i = 0; i < times; i++) {
    const from = performance.now();
    await run();
    took.push(performance.now() - from);
  }
  took.sort((a, b) => a - b);
  const figure = {
    name,
    p50Ms: took[Math.floor(times / 2)] as number,
    p99Ms: took[Math.floor(times * 0.99)] as number,
  };
  figures.push(figure);
  return figure;
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
async function echoFloor(): Promise<Figure> {
  const path = join(temporaryDir('echo'), 's');
  const server = spawn(
    process.execPath,
    ['-e', `require('net').createServer((s) => s.pipe(s)).listen(${JSON.stringify(path)}, () => console.log('up'))`],
    {
      stdio: ['ignore', 'pipe', 'inherit'],
    },
  );
  await new Promise((resolve) => server.stdout.once('data', resolve));
  const socket = createConnection(path);
  const message = Buffer.alloc(128);
  const floor = await latency(
    'socket echo (floor)',
    rounds,
    () => new Promise((resolve) => socket.once('data', resolve) && socket.write(message)),
  );
  socket.destroy();
  server.kill();
  return floor;
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
writeFileSync(join(daemon.workspace, 'empty'), '');
writeFileSync(
  join(daemon.workspace, 'four-kib.txt'),
  'x'.repeat(4095).replace(/.{63}x/g, (it) => `${it.slice(0, 63)}\n`),
);
await using client = await daemon.connect();
await dataOf(client.call('terminal_execute', { command: 'true' }));
await dataOf(client.call('file_write', { path: 'note', content: '' }));
const idle = await memory(daemon);

const echo = await echoFloor();
const unknown = await latency('refused in the gateway', rounds, () => client.call('no_such_tool', {}));
const noop = await latency('through a host (empty file)', rounds, () => client.call('file_read', { path: 'empty' }));
const read = await latency('file_read 4 KiB', rounds, () => client.call('file_read', { path: 'four-kib.txt' }));
const many = await throughput('file_read 4 KiB, 32 in flight', { inFlight: 32, times: rounds * 4 }, () =>
  client.call('file_read', { path: 'four-kib.txt' }),
);
const floor = commandFloor(daemon.workspace);
const bare = await latency('spawn true (floor)', commands, () => floor.bare());
const bwrap = await latency('bare bubblewrap true (floor)', commands, () => floor.bubblewrap());
const command = await latency('terminal_execute true', commands, () =>
  client.call('terminal_execute', { command: 'true' }),
);

console.log(`Node ${process.version}, ${cpus().length} × ${cpus()[0]?.model}, level ${daemon.confinement.level}\n`);
for (const it of figures) {
  const rate = it.perSecond
    ? `${Math.round(it.perSecond)}/s`
    : `p50 ${it.p50Ms.toFixed(3)} ms  p99 ${it.p99Ms.toFixed(3)} ms`;
  console.log(`${it.name.padEnd(32)} ${rate}`);
}
const claims = {
  'gateway alone / echo': ratio(unknown, echo),
  'dispatch through a host / echo': ratio(noop, echo),
  'file_read 4 KiB / echo': ratio(read, echo),
  'terminal_execute true / bare bubblewrap': ratio(command, bwrap),
  'terminal_execute true / bare spawn': ratio(command, bare),
  'file_read per second, 32 in flight': Math.round(many.perSecond ?? 0),
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
