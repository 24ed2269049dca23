import { execFileSync } from 'node:child_process';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { startDaemon, type TestDaemon, temporaryDir } from '../../test/support/daemon.ts';
import { RawPeer } from '../../test/support/raw-peer.ts';
import { type Context, defineBench } from '../bench.ts';
import { median, quantile } from '../measure.ts';

/** A short command line that is slow to judge: each word may name ten paths, and each path is checked against every rule. */
const SLOW_LINE = `cat ${Array.from({ length: 93 }, (_, at) => `a=b:c,d@${at}`).join(' ')}`.slice(0, 1024);
const INPUT = { tool: 'terminal_execute', input: { command: SLOW_LINE } };
/** The longest that others may wait during a flood, in ms. */
const GOAL = { most: 250 };
/** A slower probe counts as this many ms. */
const PROBE_MS_MAX = 60_000;

async function timed(run: () => Promise<unknown>): Promise<number> {
  const from = performance.now();
  await Promise.race([run(), wait(PROBE_MS_MAX, undefined, { ref: false })]);
  return performance.now() - from;
}

/** Sends all requests of a flood at once. */
type Flood = (peers: readonly RawPeer[], count: number) => void;

const FLOODS: Record<string, Flood> = {
  '8 sessions, 1000 policy.explain each': (peers, count) => {
    for (const it of peers)
      for (let id = 0; id < count; id++) it.send({ id: `f${id}`, method: 'policy.explain', params: INPUT });
  },
  '8 sessions, 1000 tools.call each': (peers, count) => {
    for (const it of peers)
      for (let id = 0; id < count; id++) it.send({ id: `f${id}`, method: 'tools.call', params: INPUT });
  },
  '8 sessions, 1000 tools.list each': (peers, count) => {
    for (const it of peers)
      for (let id = 0; id < count; id++) it.send({ id: `f${id}`, method: 'tools.list', params: {} });
  },
  '4 batches of 1000': (peers, count) => {
    const calls = Array.from({ length: count }, (_, id) => ({ id: `c${id}`, ...INPUT }));
    for (const it of peers.slice(0, 4)) it.send({ id: 'batch', method: 'tools.batch', params: { calls } });
  },
};

/** Times of another session's requests during `flood`. */
async function underFlood(bench: Context, name: string, flood: Flood): Promise<void> {
  await using daemon = await startDaemon({ policy: 'extends: default\n' });
  await using client = await daemon.connect();
  await client.call('file_write', { path: 'small', content: 'x' });
  const read = () => client.call('file_read', { path: 'small' }, { cache: false });
  await read();
  const peers = Array.from({ length: bench.size(2, 8) }, () => new RawPeer(daemon.socket));
  await Promise.all(peers.map((it) => it.hello()));
  flood(peers, bench.size(30, 1000));
  const probes = {
    'calls.list': () => client.request('calls.list', { limit: 1 }),
    file_read: read,
    'connect + hello': async () => {
      const peer = new RawPeer(daemon.socket);
      await peer.hello();
      peer.socket.destroy();
    },
  };
  const taken: Record<string, number[]> = { 'calls.list': [], file_read: [], 'connect + hello': [] };
  const until = performance.now() + bench.size(300, 12_000);
  do {
    for (const [what, probe] of Object.entries(probes)) taken[what]?.push(await timed(probe));
  } while (performance.now() < until);
  const slowest = Math.max(...Object.values(taken).map((all) => quantile(all, 0.99)));
  for (const [what, all] of Object.entries(taken)) {
    const p99 = quantile(all, 0.99);
    bench.value(`${name}: ${what} of another, median`, median(all), 'ms');
    bench.value(`${name}: ${what} of another, p99`, p99, 'ms', p99 === slowest ? GOAL : undefined);
  }
  for (const it of peers) it.socket.destroy();
}

/** Connects and says hello `attempts` times in a row; gives how many were served, and their times. */
async function helloes(
  daemon: TestDaemon,
  attempts: number,
  params: object,
): Promise<{ served: number; taken: number[] }> {
  const taken: number[] = [];
  for (let i = 0; i < attempts; i++) {
    const peer = new RawPeer(daemon.socket);
    const from = performance.now();
    const answer = await peer.hello(params).catch(() => undefined);
    if (answer?.result) taken.push(performance.now() - from);
    peer.socket.destroy();
  }
  return { served: taken.length, taken };
}

/** Checks who can still connect when one principal has opened as many connections as it can. */
async function crowded(bench: Context, name: string, speak: boolean): Promise<void> {
  await using daemon = await startDaemon({ limits: { helloTimeoutMs: 600_000 } });
  const peers = Array.from({ length: 300 }, () => new RawPeer(daemon.socket));
  if (speak) await Promise.allSettled(peers.map((it) => it.hello()));
  else await wait(1_000);
  const attempts = bench.size(5, 200);
  const operator = { role: 'operator', token: daemon.token('operator') };
  // On the same socket, a token makes another principal.
  const agent = { token: daemon.token('agent') };
  for (const [who, params] of Object.entries({ 'another principal': agent, 'an operator': operator })) {
    const { served, taken } = await helloes(daemon, attempts, params);
    bench.value(`${name}: share of ${who}’s hellos served`, served / attempts, '', { least: 1 });
    if (taken.length > 0) bench.value(`${name}: connect + hello of ${who}, p99`, quantile(taken, 0.99), 'ms', GOAL);
  }
  for (const it of peers) it.socket.destroy();
}

const MiB = 1024 * 1024;

/** Counts refusals for others when commands print more than a small disk of the state directory holds. Mounting it needs root. */
async function fullDisk(bench: Context): Promise<void> {
  const name = 'two commands with 27 MB each, a state directory of 48 MiB';
  if (process.getuid?.() !== 0) return bench.skip(name, 'a disk of that size takes root');
  const disk = temporaryDir('disk');
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=48m,mode=700', 'tmpfs', disk]);
  try {
    const stateDir = join(disk, 'state');
    mkdirSync(stateDir, { mode: 0o700 });
    const command = `head -c ${27 * MiB} /dev/zero | tr '\\\\0' 'x'`;
    const attempts = bench.size(5, 100);
    let served = 0;
    {
      await using daemon = await startDaemon({ stateDir });
      await using client = await daemon.connect();
      for (let i = 0; i < 2; i++) await client.call('terminal_execute', { command });
      for (let i = 0; i < attempts; i++)
        if ((await client.call('file_write', { path: 'small', content: `${i}` })).success) served += 1;
    }
    bench.value(`${name}: share of later writes that succeed`, served / attempts, '', { least: 1 });
    // Fills the rest of the disk, as a daemon without a reserve would.
    const left = join(stateDir, 'results', '00000000-0000-7000-8000-000000000000.log');
    try {
      writeFileSync(left, Buffer.alloc(48 * MiB));
    } catch {} // ENOSPC, as intended.
    const starts = await startDaemon({ stateDir }).then(
      (it) => it[Symbol.asyncDispose]().then(() => 1),
      () => 0,
    );
    bench.value('the same disk, full to the last byte: share of starts that succeed', starts, '', { least: 1 });
  } finally {
    execFileSync('umount', [disk]);
    rmSync(disk, { recursive: true });
  }
}

export default defineBench({
  title: 'Floods',
  question: 'How long do others wait while one client asks for as much as it can?',
  async run(bench) {
    for (const [name, flood] of Object.entries(FLOODS)) await underFlood(bench, name, flood);
    await crowded(bench, '300 connections that say nothing', false);
    await crowded(bench, '300 connections that say hello', true);
    await fullDisk(bench);
  },
});
