// What does undo cost? Of one file in a large tree, by a worker and by a client, and what the journal adds to each write.
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fileWrite from '../src/tools/file/write.ts';
import { ALLOW_ALL, dataOf, startDaemon, temporaryDir } from '../test/support/daemon.ts';
import { makeWorkspace } from '../test/support/workspace.ts';
import { Spool } from '../workers/spool.ts';

const small = process.argv.includes('--small');
const FILES = small ? 500 : 20_000;
const ROUNDS = small ? 20 : 300;

async function p50Of(rounds: number, run: (round: number) => Promise<() => Promise<unknown>>): Promise<number> {
  const took: number[] = [];
  for (let round = 0; round < rounds; round++) {
    const measured = await run(round);
    const from = performance.now();
    await measured();
    took.push(performance.now() - from);
  }
  return took.sort((a, b) => a - b)[Math.floor(took.length / 2)] as number;
}

const print = (name: string, ms: number) => console.log(`${name.padEnd(52)} p50 ${ms.toFixed(2)} ms`);

function fill(path: string): void {
  for (let n = 0; n < FILES; n++) {
    const folder = join(path, `d${n % 200}`);
    mkdirSync(folder, { recursive: true });
    writeFileSync(join(folder, `f${n}`), `file ${n}\n`.repeat(100));
  }
}

const content = (round: number) => `round ${round}\n`.repeat(100);
const path = 'd7/f7';
const key = (n: number) => n.toString(16).padStart(64, '0');

/** Without a daemon: what a worker does. */
async function inWorker(): Promise<void> {
  using ws = makeWorkspace();
  fill(ws.path);
  const folder = temporaryDir('spool');
  try {
    const write = (round: number, journal?: { folder: string; key: string }) => {
      const context = ws.context(journal ? { journal } : {});
      return async () => {
        await fileWrite.run(fileWrite.input.parse({ path, content: content(round) }), context);
        context.endJournal();
      };
    };
    const plain = await p50Of(ROUNDS, async (round) => write(round));
    const kept = await p50Of(ROUNDS, async (round) => write(round, { folder, key: key(round) }));
    print('file_write in a worker, without a journal', plain);
    print('file_write in a worker, with a journal', kept);
    const undone = await p50Of(ROUNDS, async (round) => {
      const own = { folder, key: key(100_000 + round) };
      await write(round + 1, own)();
      const context = ws.context({ journal: { folder, key: key(200_000 + round) } });
      return async () => {
        await context.undo({ key: own.key, paths: [path], force: false });
        context.endJournal();
      };
    });
    print(`undo of one file in a worker, ${FILES} files`, undone);
    if (new Spool(folder, key(200_000)).entries().length === 0) throw new Error('nothing was undone');
  } finally {
    rmSync(folder, { recursive: true });
  }
}

async function byClient(): Promise<void> {
  await using daemon = await startDaemon({ policy: ALLOW_ALL });
  fill(daemon.workspace);
  await using client = await daemon.connect();
  const write = (round: number) => client.call('file_write', { path, content: content(round) });
  await dataOf(write(-1));
  print('file_write by a client', await p50Of(ROUNDS, async (round) => () => write(round)));
  const undone = await p50Of(ROUNDS, async (round) => {
    const { callId } = await write(ROUNDS + round);
    return async () => {
      const answer = (await client.request('calls.undo', { callId })) as { restored: string[] };
      const { restored } = answer;
      if (restored.length !== 1) throw new Error(`nothing was undone: ${JSON.stringify(answer)}`);
    };
  });
  print(`undo of one file by a client, ${FILES} files`, undone);
}

await inWorker();
await byClient();
