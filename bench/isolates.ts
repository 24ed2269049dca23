// What does a program cost beside the bare isolate that it runs in, and what does it save beside the calls that it makes?
// `--small` for the tests; `--soak` instead runs ten thousand programs in one host and looks at what stays behind.
import { type ChildProcess, spawn } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { join } from 'node:path';
import { createInterface, type Interface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import type { Client } from '../src/client.ts';
import { dataOf, startDaemon, type TestDaemon } from '../test/support/daemon.ts';

const small = process.argv.includes('--small');
const soaks = process.argv.includes('--soak');
const CALLS = 100;
const FEW = 12;

/** The floor, in a process of its own that is started as an isolate host is: one bare isolate for each line, and its milliseconds. */
async function serveBare(): Promise<void> {
  const { default: ivm } = await import('isolated-vm');
  for await (const _ of createInterface({ input: process.stdin })) {
    const from = performance.now();
    const isolate = new ivm.Isolate({ memoryLimit: 64 });
    const context = await isolate.createContext();
    await context.eval('1 + 1');
    isolate.dispose();
    process.stdout.write(`${performance.now() - from}\n`);
  }
}

class Bare implements Disposable {
  readonly #child: ChildProcess;
  readonly #lines: AsyncIterator<string>;
  readonly #reader: Interface;

  constructor() {
    const args = [
      '--disable-warning=ExperimentalWarning',
      '--no-node-snapshot',
      fileURLToPath(import.meta.url),
      '--bare',
    ];
    this.#child = spawn(process.execPath, args, { stdio: ['pipe', 'pipe', 'inherit'] });
    this.#reader = createInterface({ input: this.#child.stdout as NodeJS.ReadableStream });
    this.#lines = this.#reader[Symbol.asyncIterator]();
  }

  async run(): Promise<number> {
    this.#child.stdin?.write('\n');
    return Number((await this.#lines.next()).value);
  }

  [Symbol.dispose](): void {
    this.#reader.close();
    this.#child.stdin?.end();
  }
}

const p = (times: number[], share: number) =>
  times.toSorted((a, b) => a - b)[Math.floor(times.length * share)] as number;
const line = (name: string, figure: string) => console.log(`${name.padEnd(44)} ${figure}`);

/** Milliseconds of each subject, in blocks that take turns; the first tenth is not counted. */
async function inTurns(
  times: number,
  subjects: Record<string, () => Promise<unknown>>,
): Promise<Map<string, number[]>> {
  const took = new Map(Object.keys(subjects).map((name) => [name, [] as number[]]));
  for (let block = 0; block <= 10; block++)
    for (const [name, run] of Object.entries(subjects))
      for (let at = 0; at < times / 10; at++) {
        const from = performance.now();
        const own = await run();
        if (block > 0) took.get(name)?.push(typeof own === 'number' ? own : performance.now() - from);
      }
  for (const [name, ms] of took) line(name, `p50 ${p(ms, 0.5).toFixed(2)} ms  p99 ${p(ms, 0.99).toFixed(2)} ms`);
  return took;
}

const median = (took: Map<string, number[]>, name: string) => p(took.get(name) as number[], 0.5);

/** A second of as many as there are lanes, again and again; the median of the rates. */
async function rate(lanes: (() => Promise<unknown>)[]): Promise<number> {
  const seconds: number[] = [];
  for (let round = 0; round < (small ? 2 : 7); round++) {
    const from = performance.now();
    let done = 0;
    const untilMs = from + (small ? 200 : 1000);
    await Promise.all(
      lanes.map(async (run) => {
        for (; performance.now() < untilMs; done++) await run();
      }),
    );
    seconds.push((done * 1000) / (performance.now() - from));
  }
  return p(seconds, 0.5);
}

const run = (client: Client, code: string) => dataOf(client.call('code_run', { code }));

async function oneProgram(daemon: TestDaemon): Promise<void> {
  await using client = await daemon.connect();
  await using other = await daemon.connect();
  using bare = new Bare();
  using second = new Bare();
  const program = () => run(client, 'return 1 + 1');
  await run(other, 'return 1');
  const bareName = 'bare isolated-vm: isolate, context, 1 + 1';
  const took = await inTurns(small ? 20 : 2000, {
    [bareName]: () => bare.run(),
    'return 1 + 1': program,
    'the same in TypeScript': () => run(client, 'const n: number = 1; return n + 1'),
    'a file_read': () => client.call('file_read', { path: 'f0.txt' }, { cache: false }),
  });
  line('return 1 + 1 / bare isolated-vm', (median(took, 'return 1 + 1') / median(took, bareName)).toFixed(2));
  const programs = await rate([program, () => run(other, 'return 1 + 1')]);
  const isolates = await rate([() => bare.run(), () => second.run()]);
  line('programs a second, two sessions', programs.toFixed(0));
  line('bare isolates a second, two processes', isolates.toFixed(0));
}

async function manyCalls(daemon: TestDaemon): Promise<void> {
  await using client = await daemon.connect();
  const paths = Array.from({ length: CALLS }, (_, at) => `f${at}.txt`);
  const read = (path: string) => dataOf(client.call('file_read', { path }, { cache: false }));
  const each = async (count: number) => {
    for (const path of paths.slice(0, count)) await read(path);
  };
  // Their results are remembered for a caller who lets them be; a program's calls do so, and so each round has new files.
  const anew = (count: number) => {
    for (const path of paths.slice(0, count)) writeFileSync(join(daemon.workspace, path), 'a line\n'.repeat(512));
  };
  const sum = (count: number, all: string) =>
    run(
      client,
      `const paths = Array.from({ length: ${count} }, (_, at) => "f" + at + ".txt"); let sum = 0; ${all} return sum;`,
    );
  const timed = (count: number, work: () => Promise<unknown>) => async () => {
    anew(count);
    const from = performance.now();
    await work();
    return performance.now() - from;
  };
  const took = await inTurns(small ? 10 : 200, {
    '100 calls over the socket, one by one': timed(CALLS, () => each(CALLS)),
    '100 calls over the socket, all at once': timed(CALLS, () => Promise.all(paths.map(read))),
    '100 calls of one program, one by one': timed(CALLS, () =>
      sum(CALLS, 'for (const path of paths) sum += (await tools.file_read({ path })).lines;'),
    ),
    '100 calls of one program, all at once': timed(CALLS, () =>
      sum(
        CALLS,
        'for (const it of await Promise.all(paths.map((path) => tools.file_read({ path })))) sum += it.lines;',
      ),
    ),
    '12 calls over the socket, one by one': timed(FEW, () => each(FEW)),
    '12 calls of one program, all at once': timed(FEW, () =>
      sum(FEW, 'for (const it of await Promise.all(paths.map((path) => tools.file_read({ path })))) sum += it.lines;'),
    ),
  });
  const ratio = (a: string, b: string) => (median(took, a) / median(took, b)).toFixed(2);
  const [byProgram, byCalls] = ['100 calls of one program, all at once', '100 calls over the socket, one by one'];
  line('a program of 100 calls / 100 calls', ratio(byProgram, byCalls));
  line(
    'a program of 12 calls / 12 calls',
    ratio('12 calls of one program, all at once', '12 calls over the socket, one by one'),
  );
}

const rssMib = (pid: number) => Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024;

function childrenOf(pid: number): number[] {
  const own = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ').filter(Boolean).map(Number);
  return own.flatMap((child) => [child, ...childrenOf(child)]);
}

/** Programs of every kind that ends well, with errors among them; one host for all, so that what leaks would show. */
async function soak(): Promise<void> {
  const runs = small ? 100 : 10_000;
  await using daemon = await startDaemon({ limits: { isolateRunsMax: 2 * runs } });
  await using client = await daemon.connect();
  writeFileSync(join(daemon.workspace, 'f0.txt'), 'a line\n');
  const programs = [
    'return 1 + 1',
    'console.log("x".repeat(1000)); return Array.from({ length: 50 }, (_, at) => ({ at }))',
    'const all = []; for (let i = 0; i < 1e5; i++) all.push({ i }); return all.length',
    'return (await tools.file_read({ path: "f0.txt" })).lines',
    'setTimeout(() => {}, 60_000); await new Promise((go) => setTimeout(go, 1)); return 1',
    'throw new Error("x")',
    'const n: number = 1; return n',
    'const b = new Uint8Array(2 ** 20).fill(1); return b.length',
  ];
  let hostPid = 0;
  let crashed = 0;
  const some = async (count: number) => {
    for (let at = 0; at < count; at++) {
      const result = await client.call('code_run', { code: programs[at % programs.length] as string });
      if (!result.success && result.error.code !== 'CODE_ERROR') crashed += 1;
      // An error of the program is an end of it like another, and its host goes on.
      if (hostPid !== 0 && result.metadata.hostPid !== hostPid) crashed += 1;
      hostPid = result.metadata.hostPid ?? 0;
    }
  };
  const look = () => ({
    daemon: rssMib(daemon.pid),
    host: rssMib(hostPid),
    processes: childrenOf(daemon.pid).length,
  });
  await some(runs / 5);
  const seen = [look()];
  const from = performance.now();
  for (let at = 0; at < 20; at++) {
    await some((runs * 0.8) / 20);
    seen.push(look());
  }
  line('soak, programs a second', ((runs * 800) / (performance.now() - from)).toFixed(0));
  const mean = (all: number[]) => all.reduce((sum, it) => sum + it, 0) / all.length;
  for (const who of ['daemon', 'host'] as const) {
    const [early, late] = [seen.slice(0, 5), seen.slice(-5)].map((part) => mean(part.map((it) => it[who])));
    line(`soak, RSS of the ${who}, MiB`, `${early?.toFixed(1)} early, ${late?.toFixed(1)} late`);
  }
  const processes = seen.map((it) => it.processes);
  line('soak, processes below the daemon', `${Math.min(...processes)} at least, ${Math.max(...processes)} at most`);
  line('soak, hosts that were lost', `${crashed} in ${runs} programs`);
}

async function main(): Promise<void> {
  console.log(`Node ${process.version}, ${cpus().length} × ${cpus()[0]?.model}\n`);
  if (small || !soaks) {
    await using daemon = await startDaemon();
    for (let at = 0; at < CALLS; at++) writeFileSync(join(daemon.workspace, `f${at}.txt`), 'a line\n'.repeat(512));
    await oneProgram(daemon);
    await manyCalls(daemon);
  }
  if (small || soaks) await soak();
}

await (process.argv.includes('--bare') ? serveBare() : main());
