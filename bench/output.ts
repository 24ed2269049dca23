// How fast does output come through, beside a bare pipe? 200 MB of lines, to a caller that wants their head and tail, and to one
// that reads all of it. `--small` for the tests.
import { spawn } from 'node:child_process';
import { cpus } from 'node:os';
import type { Client } from '../src/client.ts';
import { dataOf, startDaemon } from '../test/support/daemon.ts';

const small = process.argv.includes('--small');
const bytes = small ? 4_000_000 : 200_000_000;
const rounds = small ? 1 : 3;

const LINES = `yes '2026-11-21T12:18:58.792Z INFO [worker-3] done path=/v1/items/42 status=200 took=12.5ms' | head -c ${bytes}`;
const SUBJECTS: Record<string, string> = {
  'a log': LINES,
  zeros: `head -c ${bytes} /dev/zero`,
  'source code': `perl -e 'open F, "package-lock.json"; $/ = undef; $x = <F>; 1 while print $x' | head -c ${bytes}`,
};

/** A shell whose output one process reads and drops. */
function pipe(command: string): Promise<void> {
  return new Promise((resolve, reject) => {
    const child = spawn('bash', ['-c', command], { stdio: ['ignore', 'pipe', 'inherit'] });
    let read = 0;
    child.stdout.on('data', (chunk: Buffer) => (read += chunk.length));
    child.once('close', () => (read === bytes ? resolve() : reject(new Error(`${read} bytes came`))));
  });
}

async function throughUs(client: Client, command: string, progress: boolean): Promise<void> {
  const running = client.call('terminal_execute', { command }, { progress });
  if (progress) for await (const _ of running);
  await dataOf(running);
  const { outputBytes } = (await running).metadata.resources;
  if (outputBytes !== bytes) throw new Error(`${outputBytes} bytes came`);
}

async function seconds(run: () => Promise<void>): Promise<number> {
  const from = performance.now();
  await run();
  return (performance.now() - from) / 1000;
}

await using daemon = await startDaemon({ workspace: process.cwd() });
await using client = await daemon.connect();
await dataOf(client.call('terminal_execute', { command: 'true' }));
console.log(`Node ${process.version}, ${cpus().length} × ${cpus()[0]?.model}, ${bytes / 1e6} MB\n`);
for (const [name, command] of Object.entries(SUBJECTS)) {
  const took = { bare: Infinity, kept: Infinity, told: Infinity };
  // Turns, since the machine's mood changes by the second.
  for (let round = 0; round < rounds; round++) {
    took.bare = Math.min(took.bare, await seconds(() => pipe(command)));
    took.kept = Math.min(took.kept, await seconds(() => throughUs(client, command, false)));
    took.told = Math.min(took.told, await seconds(() => throughUs(client, command, true)));
  }
  const rate = (s: number) => `${Math.round(bytes / 1e6 / s)} MB/s`.padStart(10);
  const share = (s: number) => `${Math.round((took.bare / s) * 100)} %`.padStart(6);
  console.log(
    `${name.padEnd(12)} bare pipe ${rate(took.bare)}  ours ${rate(took.kept)} ${share(took.kept)}  told as it comes ${rate(took.told)} ${share(took.told)}`,
  );
}
