import { rmSync, writeFileSync } from 'node:fs';
import { dataOf } from '../../test/support/daemon.ts';
import { ShadowBench } from '../../test/support/shadow.ts';
import { type Context, defineBench } from '../bench.ts';
import type { Taken } from '../measure.ts';

const CHANGED = 100;

const since = (from: number) => [performance.now() - from];

/** Measures the thread that knows what a workspace held, without a daemon. */
async function inThread(bench: Context, { files, rounds }: { files: number; rounds: number }): Promise<void> {
  using shadow = new ShadowBench();
  shadow.sh(`git init -q . && for d in $(seq 1 200); do mkdir d$d; for f in $(seq 1 ${files / 200}); do
    echo "file $f of $d" > d$d/f$f; done; done; git add -A && git commit -qm first && git gc -q && sleep 0.1
    git update-index --refresh -q || true`);
  const [baseline, nothing, many, undo]: number[][][] = [[], [], [], []];
  await shadow.build();
  for (let round = 0; round < Math.min(rounds, 4); round++) {
    const from = performance.now();
    await shadow.shadow.build();
    baseline?.push(since(from));
  }
  const write = (round: number) => {
    for (let n = 1; n <= CHANGED; n++) writeFileSync(shadow.at(`d${n}/f1`), `round ${round} ${n}\n`.repeat(50));
  };
  for (let round = 0; round < rounds; round++) {
    // What the last round undid is taken in first, as the changes of a person would be.
    await shadow.begin(round);
    await shadow.end(round, undefined);
    let from = performance.now();
    await shadow.begin(round);
    await shadow.end(round, shadow.newKey());
    nothing?.push(since(from));
    await shadow.begin(round);
    write(round);
    const key = shadow.newKey();
    from = performance.now();
    const report = await shadow.end(round, key);
    many?.push(since(from));
    if (report === undefined || report === 'lost' || report.undo !== 'full') throw new Error('not kept');
    from = performance.now();
    const undone = await shadow.undo(key, report.paths);
    undo?.push(since(from));
    if (undone.restored.length !== CHANGED) throw new Error('not undone');
  }
  const names = {
    baseline: `reading ${files} tracked files, in the background`,
    nothing: 'before and after a command that changes nothing',
    many: `after a command that changed ${CHANGED} files`,
    undo: `undo of ${CHANGED} files`,
  };
  bench.times(
    {
      [names.baseline]: baseline as Taken,
      [names.nothing]: nothing as Taken,
      [names.many]: many as Taken,
      [names.undo]: undo as Taken,
    },
    {
      goals: {
        [names.baseline]: { most: 1000 },
        [names.nothing]: { most: 0.3 },
        [names.many]: { most: 15 },
        [names.undo]: { most: 50 },
      },
    },
  );
}

/** A command by a client whose changes are kept, beside one whose workspace can't be read in time. */
async function byClient(bench: Context, rounds: number): Promise<void> {
  const client = await bench.client('shadow');
  const run = (command: string) => client.call('terminal_execute', { command });
  for (let tries = 0; (await run('date +%N > made')).metadata.undo !== 'full'; tries++) {
    if (tries > 1000) throw new Error('the workspace is not read');
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  rmSync(`${client.folder}/made`);
  const all: number[][] = [];
  for (let round = 0; round < rounds; round++) {
    const from = performance.now();
    await dataOf(run('true'));
    all.push(since(from));
  }
  bench.times({ '`true` by a client, its changes kept': all }, {});
}

export default defineBench({
  title: 'Undo of commands',
  question: 'What does it cost to keep, and to undo, what a command changed?',
  async run(bench) {
    await inThread(bench, { files: bench.size(400, 20_000), rounds: bench.size(5, 20) });
    await byClient(bench, bench.size(5, 200));
  },
});
