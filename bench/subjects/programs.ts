import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Client } from '../../src/client/client.ts';
import { dataOf, startDaemon } from '../../test/support/daemon.ts';
import { type Context, defineBench } from '../bench.ts';
import { createIsolates } from '../floors/isolate.ts';
import { inTurns, type Taken } from '../measure.ts';

const run = (client: Client, code: string) => dataOf(client.call('code_run', { code }));

async function oneProgram(bench: Context, client: Client): Promise<void> {
  using bare = await createIsolates();
  const floor = 'bare isolated-vm: isolate, context, 1 + 1';
  const taken = await inTurns(
    {
      [floor]: () => bare.run('1 + 1'),
      'return 1 + 1': () => run(client, 'return 1 + 1'),
      'the same in TypeScript': () => run(client, 'const n: number = 1; return n + 1'),
    },
    { rounds: bench.size(2, 10), times: bench.size(3, 100) },
  );
  bench.times(taken, { over: floor });
}

/** Reads `count` files, by the client and by one program. Each turn has new files, since a program's reads may be cached. */
async function manyCalls(bench: Context, client: Client & { folder: string }, count: number): Promise<void> {
  const paths = Array.from({ length: count }, (_, at) => `f${at}.txt`);
  const all = `const paths = Array.from({ length: ${count} }, (_, at) => "f" + at + ".txt"); let sum = 0;`;
  const subjects: Record<string, () => Promise<unknown>> = {
    [`${count} calls over the socket, one by one`]: async () => {
      for (const path of paths) await dataOf(client.call('file_read', { path }, { cache: false }));
    },
    [`${count} calls of one program, one by one`]: () =>
      run(client, `${all} for (const path of paths) sum += (await tools.file_read({ path })).lines; return sum;`),
    [`${count} calls of one program, all at once`]: () =>
      run(
        client,
        `${all} for (const it of await Promise.all(paths.map((path) => tools.file_read({ path })))) sum += it.lines; return sum;`,
      ),
  };
  const taken: Record<string, number[][]> = {};
  for (let round = -1; round < bench.size(1, 20); round++)
    for (const [name, work] of Object.entries(subjects)) {
      for (const path of paths) writeFileSync(join(client.folder, path), 'a line\n'.repeat(512));
      const from = performance.now();
      await work();
      if (round >= 0) taken[name] = [...(taken[name] ?? []), [performance.now() - from]];
    }
  bench.times(taken as Record<string, Taken>, { over: Object.keys(subjects)[0] as string });
}

/** Programs of every kind, all in one host, to reveal leaks. */
const KINDS = [
  'return 1 + 1',
  'console.log("x".repeat(1000)); return Array.from({ length: 50 }, (_, at) => ({ at }))',
  'const all = []; for (let i = 0; i < 1e5; i++) all.push({ i }); return all.length',
  'return (await tools.file_read({ path: "f0.txt" })).lines',
  'setTimeout(() => {}, 60_000); await new Promise((go) => setTimeout(go, 1)); return 1',
  'throw new Error("x")',
  'const b = new Uint8Array(2 ** 20).fill(1); return b.length',
];

async function oneHost(bench: Context, runs: number): Promise<void> {
  await using daemon = await startDaemon({ limits: { isolateRunsMax: 2 * runs } });
  await using client = await daemon.connect();
  writeFileSync(join(daemon.workspace, 'f0.txt'), 'a line\n');
  const hosts = new Set<number>();
  const some = async (count: number) => {
    for (let at = 0; at < count; at++) {
      const { metadata } = await client.call('code_run', { code: KINDS[at % KINDS.length] as string });
      if (metadata.hostPid !== undefined) hosts.add(metadata.hostPid);
    }
    const pid = [...hosts].at(-1) ?? 0;
    return Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024;
  };
  const early = await some(runs / 4);
  const late = await some((runs / 4) * 3);
  bench.value(`Rss of one isolate host, after ${runs} programs`, late, 'MiB');
  bench.value('how much of it since a quarter of them', late - early, 'MiB', { most: 16 });
  bench.value('hosts that were lost on the way', hosts.size - 1, '', { most: 0 });
}

export default defineBench({
  title: 'Programs',
  question: 'What does a program cost beside a bare isolate, and what does it save beside single calls?',
  async run(bench) {
    const client = await bench.client('programs');
    await oneProgram(bench, client);
    for (const count of bench.small ? [12] : [12, 100]) await manyCalls(bench, client, count);
    // Needs a daemon of its own, too slow for the small form.
    if (!bench.small) await oneHost(bench, 2000);
  },
});
