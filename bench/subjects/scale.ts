import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createConnection, type Socket } from 'node:net';
import { join } from 'node:path';
import { defaultLimits } from '../../src/base/limits.ts';
import { systemPowers } from '../../src/base/powers.ts';
import type { Client } from '../../src/client/client.ts';
import { AuditLog } from '../../src/store/audit/log.ts';
import { dataOf, removeTree, startDaemon, type TestDaemon, temporaryDir } from '../../test/support/daemon.ts';
import { type Context, defineBench } from '../bench.ts';
import { auditEntry } from '../floors/audit-entry.ts';
import { makeTree } from '../floors/tree.ts';
import { exponentOf, median, quantile } from '../measure.ts';
import { memoryOfAll, processesOf } from '../memory.ts';
import { shown } from '../report.ts';
import { type Curve, short } from '../svg.ts';

type Points = (readonly [x: number, y: number])[];

/** A cost at several sizes, and the expected exponent of its growth. */
interface Growth {
  readonly name: string;
  readonly x: string;
  readonly y: string;
  readonly points: Points;
  readonly expected: number;
}

async function timed(run: () => unknown): Promise<number> {
  const from = performance.now();
  await run();
  return performance.now() - from;
}

async function medianMs(times: number, run: () => Promise<unknown>): Promise<number> {
  await run();
  const all: number[] = [];
  for (let i = 0; i < times; i++) all.push(await timed(run));
  return median(all);
}

const rssKib = ({ pid }: TestDaemon) => Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]);
const read = (client: Client, path: string) => dataOf(client.call('file_read', { path }, { cache: false }));

/** Milliseconds per call over several `clients` with `inFlight` calls at once, and the p99 of one call. */
async function lanes(clients: readonly Client[], { inFlight, calls }: { inFlight: number; calls: number }) {
  await Promise.all(clients.map((it) => read(it, 'empty')));
  const all: number[] = [];
  let at = 0;
  const lane = async () => {
    while (at < calls) {
      const client = clients[at++ % clients.length] as Client;
      all.push(await timed(() => read(client, 'empty')));
    }
  };
  const took = await timed(() => Promise.all(Array.from({ length: inFlight }, lane)));
  return { eachMs: took / all.length, p99Ms: quantile(all, 0.99) };
}

async function inFlight(bench: Context, client: Client): Promise<Growth[]> {
  const [each, worst]: [Points, Points] = [[], []];
  for (const n of bench.small ? [1, 8] : [1, 2, 4, 8, 16, 32, 64]) {
    const { eachMs, p99Ms } = await lanes([client], { inFlight: n, calls: bench.size(40, 4000) });
    each.push([n, eachMs]);
    worst.push([n, p99Ms]);
  }
  return [
    { name: 'time a call, by calls in flight', x: 'in flight', y: 'ms', points: each, expected: 0 },
    { name: 'p99 of a call, by calls in flight', x: 'in flight', y: 'ms', points: worst, expected: 1 },
  ];
}

async function payloads(bench: Context, client: Client & { folder: string }): Promise<Growth> {
  const points: Points = [];
  for (const kib of bench.small ? [1, 64] : [1, 8, 64, 512, 2048, 8192]) {
    // In lines, like real files.
    writeFileSync(join(client.folder, `${kib}-kib`), `${'x'.repeat(63)}\n`.repeat(kib * 16));
    points.push([kib, await medianMs(bench.size(3, 20), () => read(client, `${kib}-kib`))]);
  }
  return { name: 'file_read, by size of the file', x: 'KiB', y: 'ms', points, expected: 1 };
}

async function sessions(bench: Context, { folder: workspace }: { folder: string }): Promise<Growth> {
  const daemon = await bench.daemon();
  const points: Points = [];
  const clients: Client[] = [];
  try {
    for (const n of bench.small ? [1, 10] : [1, 10, 50, 100, 200]) {
      while (clients.length < n) clients.push(await daemon.connect({ workspace }));
      const { eachMs } = await lanes(clients, { inFlight: 8, calls: bench.size(40, 2000) });
      points.push([n, eachMs]);
    }
  } finally {
    await Promise.all(clients.map((it) => it[Symbol.asyncDispose]()));
  }
  return { name: 'time a call, by sessions, 8 in flight', x: 'sessions', y: 'ms', points, expected: 0 };
}

/** Connections that stay silent. */
async function connections(bench: Context, client: Client): Promise<Growth> {
  const daemon = await bench.daemon();
  await medianMs(bench.size(5, 200), () => read(client, 'empty'));
  const sockets: Socket[] = [];
  const points: Points = [];
  const before = rssKib(daemon);
  const counts = bench.small ? [1, 50] : [1, 10, 100, 300, 1000];
  for (const n of counts) {
    while (sockets.length < n) {
      const socket = createConnection(daemon.socket);
      sockets.push(socket);
      await new Promise((resolve) => socket.once('connect', resolve));
      // The kernel accepts connections before the daemon does, but queues only some hundreds.
      if (sockets.length % 64 === 0) await read(client, 'empty');
    }
    points.push([n, await medianMs(bench.size(5, 200), () => read(client, 'empty'))]);
  }
  const most = counts.at(-1) as number;
  bench.value(`memory of an idle connection, of ${most}`, (rssKib(daemon) - before) / most, 'KiB');
  for (const it of sockets) it.destroy();
  return { name: 'one call, by idle connections', x: 'idle', y: 'ms', points, expected: 0 };
}

/** Time of an append with its write, and of a query, in logs of several sizes. */
async function auditRows(bench: Context): Promise<Growth[]> {
  const folder = temporaryDir('scale-audit');
  const [appends, queries, verifies]: [Points, Points, Points] = [[], [], []];
  try {
    // Nothing is dropped for age or size.
    const limits = { ...defaultLimits, auditBytesMax: 2 ** 40 };
    using log = new AuditLog(join(folder, 'audit.db'), limits, systemPowers(), { redact: (it) => it });
    for (const rows of bench.small ? [500, 5000] : [1e4, 1e5, 1e6, ...(bench.long ? [1e7] : [])]) {
      while (log.entries < rows) {
        for (let i = 0; i < 500; i++) log.append(auditEntry());
        log.flush();
      }
      const append = () => {
        log.append(auditEntry());
        log.flush();
      };
      appends.push([rows, await medianMs(200, async () => append())]);
      const page = { order: 'newest', limit: 50 } as const;
      queries.push([rows, await medianMs(bench.size(3, 50), () => log.query(page))]);
      if (rows <= 1e5) verifies.push([rows, await timed(() => log.verify())]);
    }
  } finally {
    rmSync(folder, { recursive: true });
  }
  const of = (name: string, points: Points, expected: number) => ({ name, x: 'entries', y: 'ms', points, expected });
  return [
    of('an audit entry on disk, by entries', appends, 0),
    of('the newest 50 entries, by entries', queries, 0),
    of('verify, by entries', verifies, 1),
  ];
}

async function workspaces(bench: Context): Promise<Growth[]> {
  const daemon = await bench.daemon();
  const [calls, memory]: [Points, Points] = [[], []];
  const clients: Client[] = [];
  for (const n of bench.small ? [1, 2] : [1, 2, 5, 10, 50]) {
    while (clients.length < n) {
      const client = await bench.client(`w${clients.length}`);
      writeFileSync(join(client.folder, 'empty'), '');
      clients.push(client);
      await read(client, 'empty');
    }
    calls.push([n, await medianMs(bench.size(5, 200), () => read(clients[0] as Client, 'empty'))]);
    memory.push([n, rssKib(daemon) / 1024]);
  }
  return [
    { name: 'one call, by workspaces', x: 'workspaces', y: 'ms', points: calls, expected: 0 },
    { name: 'Rss of the gateway, by workspaces', x: 'workspaces', y: 'MiB', points: memory, expected: 0 },
  ];
}

/** Each tree is a repository, with a daemon of its own. */
async function trees(bench: Context): Promise<Growth[]> {
  const points = { hello: [], first: [], later: [], reads: [], memory: [], watches: [] } as Record<string, Points>;
  const sizes = bench.small ? [40, 400] : [1000, 20_000, 200_000];
  for (const files of sizes) {
    const workspace = temporaryDir(`tree-${files}`);
    try {
      makeTree(workspace, files);
      writeFileSync(join(workspace, 'empty'), '');
      commitAll(workspace);
      await using daemon = await startDaemon({ workspace });
      const began = performance.now();
      await using client = await daemon.connect();
      points.hello?.push([files, performance.now() - began]);
      const run = (command: string) => client.call('terminal_execute', { command });
      points.first?.push([files, await timed(() => run('true'))]);
      points.later?.push([files, await medianMs(bench.size(2, 20), () => run('true'))]);
      points.reads?.push([files, await medianMs(bench.size(5, 200), () => read(client, 'empty'))]);
      points.memory?.push([files, memoryOfAll(await processesOf(daemon, 2), 'Pss')]);
      points.watches?.push([files, watchesOf(daemon)]);
      if (files !== sizes.at(-1)) continue;
      const { metadata } = await run('echo >>"$(find . -name "f*.ts" | tail -n 1)"');
      const [first = 0, later = 0, memory = 0] = [points.first, points.later, points.memory].map(
        (it) => it?.at(-1)?.[1],
      );
      bench.say(
        `A repository of ${short(files)} files: the first command of a daemon without hosts takes ${shown({ value: first, unit: 'ms' })}, a ` +
          `later one ${shown({ value: later, unit: 'ms' })}, all processes ${shown({ value: memory, unit: 'MiB' })}; a change of its last file has ` +
          `undo: ${metadata.undo}.`,
      );
    } finally {
      removeTree(workspace);
    }
  }
  const of = (name: string, y: string, of: Points | undefined, expected: number) => ({
    name: `${name}, by files of the workspace`,
    x: 'files',
    y,
    points: of ?? [],
    expected,
  });
  return [
    of('hello', 'ms', points.hello, 0),
    of('the first command of a daemon', 'ms', points.first, 1),
    of('a later command', 'ms', points.later, 0),
    of('one read', 'ms', points.reads, 0),
    of('Pss of daemon and hosts', 'MiB', points.memory, 0),
    of('watches', 'watches', points.watches, 1),
  ];
}

/** Without the collection of garbage that git begins behind a large commit. */
const SETTINGS = ['-c', 'user.name=A', '-c', 'user.email=a@example.com', '-c', 'gc.auto=0', '-c', 'maintenance.auto=0'];

function commitAll(folder: string): void {
  const git = (...args: string[]) => execFileSync('git', [...SETTINGS, ...args], { cwd: folder, stdio: 'ignore' });
  git('init');
  git('add', '-A');
  git('commit', '-m', 'all');
}

/** Watches of inotify that the daemon's followers have. */
function watchesOf({ pid }: TestDaemon): number {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ');
  const followers = children.filter((it) => readFileSync(`/proc/${it}/comm`, 'utf8').trim() === 'follow');
  const all = followers.flatMap((it) => readdirSync(`/proc/${it}/fdinfo`).map((fd) => `/proc/${it}/fdinfo/${fd}`));
  return all.reduce((sum, path) => sum + (readFileSync(path, 'utf8').match(/^inotify/gm)?.length ?? 0), 0);
}

/** Above this an exponent means growth, whatever the machine's noise. */
const NOISE = 0.2;

function told(bench: Context, growths: readonly Growth[]): void {
  const exponent = ({ points }: Growth) => exponentOf(points);
  for (const it of growths) {
    const most = it.points.at(-1)?.[0] ?? 0;
    bench.value(`${it.name}: power of its growth up to ${short(most)}`, exponent(it), '');
  }
  const more = growths.filter((it) => exponent(it) > it.expected + NOISE);
  const names = more.map((it) => `${it.name} (power ${short(exponent(it))} instead of ${it.expected})`);
  bench.say(
    names.length === 0
      ? 'Nothing grows faster than it should.'
      : `**Grows faster than it should**: ${names.join('; ')}.`,
  );
  const curves = growths.map(
    ({ expected, ...it }): Curve => ({
      ...it,
      note: `power ${short(exponentOf(it.points))}, expected ${expected}`,
      log: true,
    }),
  );
  bench.draw({ name: 'scale', title: 'How each cost grows (both axes logarithmic)', kind: 'curves', curves });
}

export default defineBench({
  title: 'Scale',
  question: 'How does each cost grow with what there is more of?',
  async run(bench) {
    const client = await bench.client('scale');
    writeFileSync(join(client.folder, 'empty'), '');
    told(bench, [
      ...(await inFlight(bench, client)),
      await payloads(bench, client),
      await sessions(bench, client),
      await connections(bench, client),
      ...(await auditRows(bench)),
      ...(await workspaces(bench)),
      ...(await trees(bench)),
    ]);
  },
});
