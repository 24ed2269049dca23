import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fileWrite from '../../src/tools/file/write.ts';
import { dataOf, temporaryDir } from '../../test/support/daemon.ts';
import { makeWorkspace } from '../../test/support/workspace.ts';
import { Spool } from '../../workers/undo/spool.ts';
import { type Context, defineBench } from '../bench.ts';
import type { Taken } from '../measure.ts';

/** Runs rounds of one turn; each turn is prepared before its time is measured. */
async function timed(rounds: number, ready: (round: number) => Promise<() => Promise<unknown>>): Promise<Taken> {
  const all: number[][] = [];
  for (let round = -1; round < rounds; round++) {
    const run = await ready(round);
    const from = performance.now();
    await run();
    if (round >= 0) all.push([performance.now() - from]);
  }
  return all;
}

function fill(path: string, files: number): void {
  for (let n = 0; n < files; n++) {
    const folder = join(path, `d${n % 200}`);
    mkdirSync(folder, { recursive: true });
    writeFileSync(join(folder, `f${n}`), `file ${n}\n`.repeat(100));
  }
}

const content = (round: number) => `round ${round}\n`.repeat(100);
const path = 'd7/f7';
const key = (n: number) => n.toString(16).padStart(64, '0');

/** Measures a worker without a daemon. */
async function inWorker(bench: Context, { files, rounds }: { files: number; rounds: number }): Promise<void> {
  using ws = makeWorkspace();
  fill(ws.path, files);
  const folder = temporaryDir('spool');
  try {
    const write = (round: number, journal?: { folder: string; key: string }) => {
      const context = ws.context(journal ? { journal } : {});
      return async () => {
        await fileWrite.run?.(fileWrite.input.parse({ path, content: content(round) }), context);
        context.endJournal();
      };
    };
    const plain = await timed(rounds, async (round) => write(round));
    const kept = await timed(rounds, async (round) => write(round, { folder, key: key(1 + round) }));
    const undone = await timed(rounds, async (round) => {
      const own = { folder, key: key(100_001 + round) };
      await write(round + 1, own)();
      const context = ws.context({ journal: { folder, key: key(200_001 + round) } });
      return async () => {
        await context.undo({ keys: [own.key], paths: [path], force: false });
        context.endJournal();
      };
    });
    const [floor, journalled] = ['a write in a worker, no journal', 'a write in a worker, with its journal'];
    const undo = `undo of one file in a worker, ${files} files`;
    bench.times(
      { [floor]: plain, [journalled]: kept, [undo]: undone },
      { over: floor, goals: { [undo]: { most: 5 } } },
    );
    if (new Spool(folder, key(200_001)).entries().length === 0) throw new Error('nothing was undone');
  } finally {
    rmSync(folder, { recursive: true });
  }
}

async function byClient(bench: Context, { files, rounds }: { files: number; rounds: number }): Promise<void> {
  const client = await bench.client('undo');
  fill(client.folder, files);
  const write = (round: number) => client.call('file_write', { path, content: content(round) });
  await dataOf(write(-2));
  const undone = async (round: number) => {
    const { callId } = await write(rounds + round + 1);
    return async () => {
      const answer = (await client.request('calls.undo', { callId })) as { restored: string[] };
      if (answer.restored.length !== 1) throw new Error(`nothing was undone: ${JSON.stringify(answer)}`);
    };
  };
  bench.times(
    {
      'file_write by a client': await timed(rounds, async (round) => () => dataOf(write(round))),
      [`undo of one file by a client, ${files} files`]: await timed(rounds, undone),
    },
    { over: 'file_write by a client' },
  );
}

export default defineBench({
  title: 'Undo',
  question: 'What do undo of one file in a large tree, and its journal, cost?',
  async run(bench) {
    const size = { files: bench.size(200, 20_000), rounds: bench.size(5, 300) };
    await inWorker(bench, size);
    await byClient(bench, size);
  },
});
