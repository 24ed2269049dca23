import { spawn } from 'node:child_process';
import { copyFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Client } from '../../src/client/client.ts';
import { dataOf } from '../../test/support/daemon.ts';
import { defineBench } from '../bench.ts';
import { inTurns } from '../measure.ts';

const subjectsOf = (bytes: number): Record<string, string> => ({
  'a log': `yes '2026-11-21T12:18:58.792Z INFO [worker-3] done path=/v1/items/42 status=200 took=12.5ms' | head -c ${bytes}`,
  zeros: `head -c ${bytes} /dev/zero`,
  'source code': `perl -e 'open F, "package-lock.json"; $/ = undef; $x = <F>; 1 while print $x' | head -c ${bytes}`,
});

/** A shell whose output a process reads and drops. */
function pipe(command: string, { cwd, bytes }: { cwd: string; bytes: number }): Promise<void> {
  return new Promise((resolve, reject) => {
    const child = spawn('bash', ['-c', command], { cwd, stdio: ['ignore', 'pipe', 'inherit'] });
    let read = 0;
    child.stdout.on('data', (chunk: Buffer) => (read += chunk.length));
    child.once('close', () => (read === bytes ? resolve() : reject(new Error(`${read} bytes came`))));
  });
}

async function throughUs(client: Client, command: string, { bytes, progress }: { bytes: number; progress: boolean }) {
  const running = client.call('terminal_execute', { command }, { progress });
  if (progress) for await (const _ of running);
  await dataOf(running);
  const { outputBytes } = (await running).metadata.resources;
  if (outputBytes !== bytes) throw new Error(`${outputBytes} bytes came`);
}

export default defineBench({
  title: 'Output',
  question: 'How fast does a command’s output come through, beside a bare pipe?',
  async run(bench) {
    const bytes = bench.size(1_000_000, 200_000_000);
    const client = await bench.client('.');
    const cwd = client.folder;
    copyFileSync(new URL('../../package-lock.json', import.meta.url), join(cwd, 'package-lock.json'));
    for (const [name, command] of Object.entries(subjectsOf(bytes))) {
      const [bare, kept, told] = [`${name}: a bare pipe`, `${name}: kept`, `${name}: told as it comes`];
      const taken = await inTurns(
        {
          [bare]: () => pipe(command, { cwd, bytes }),
          [kept]: () => throughUs(client, command, { bytes, progress: false }),
          [told]: () => throughUs(client, command, { bytes, progress: true }),
        },
        { rounds: bench.size(1, 4), times: 1, warmRounds: bench.size(0, 1) },
      );
      bench.rates(taken, { amount: bytes / 1e6, unit: 'MB/s', over: bare, goals: { [kept]: { ratio: 2 } } });
    }
  },
});
