import { appendFileSync, cpSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'oxc-parser';
import { dataOf } from '../../test/support/daemon.ts';
import { defineBench } from '../bench.ts';
import { inTurns } from '../measure.ts';
import { here } from '../results.ts';

export default defineBench({
  title: 'Import graph',
  question:
    'What does the graph of this repository’s own sources cost, cold and after a change, beside the parser alone over the same files?',
  async run(bench) {
    const client = await bench.client('graph');
    const copied = bench.small ? ['workers', 'tsconfig.json'] : ['src', 'workers', 'tsconfig.json', 'package.json'];
    for (const it of copied) cpSync(here(`../${it}`), join(client.folder, it), { recursive: true });
    const files = readdirSync(client.folder, { recursive: true, encoding: 'utf8' }).filter((it) => it.endsWith('.ts'));
    bench.value('files', files.length, '');
    const graph = () => dataOf(client.call('code_graph', {}, { cache: false }));
    const from = performance.now();
    await graph();
    bench.value('cold, with the start of host and parser', performance.now() - from, 'ms');
    // Each file is new to the cache, since its time has changed.
    const touchAll = () => {
      for (const it of files) appendFileSync(join(client.folder, it), '\n');
    };
    const taken = await inTurns(
      {
        'the parser alone': async () => {
          const parsed = files.map((it) => parse(it, readFileSync(join(client.folder, it), 'utf8')));
          for (const it of await Promise.all(parsed)) void it.module;
        },
        'graph, all files changed': async () => {
          touchAll();
          await graph();
        },
        'graph, one file changed': async () => {
          appendFileSync(join(client.folder, files[0] ?? ''), '\n');
          await graph();
        },
        'graph, nothing changed': graph,
      },
      { rounds: bench.size(1, 10), times: 1, warmRounds: bench.size(0, 1) },
    );
    bench.times(taken, {
      over: 'the parser alone',
      goals: { 'graph, all files changed': { most: 600 }, 'graph, one file changed': { most: 50 } },
    });
  },
});
