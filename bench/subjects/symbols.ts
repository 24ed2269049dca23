import { cpSync } from 'node:fs';
import { join } from 'node:path';
import { dataOf } from '../../test/support/daemon.ts';
import { defineBench } from '../bench.ts';
import { inTurns } from '../measure.ts';
import { here } from '../results.ts';

export default defineBench({
  title: 'Symbols',
  question: 'What does a question about symbols of this repository cost, beside a text search?',
  async run(bench) {
    const client = await bench.client('symbols');
    const copied = bench.small ? ['workers', 'tsconfig.json'] : ['src', 'workers', 'tsconfig.json', 'package.json'];
    for (const it of copied) cpSync(here(`../${it}`), join(client.folder, it), { recursive: true });
    const refer = (symbol: string) => () =>
      dataOf(client.call('workspace_find_references', { symbol }, { cache: false }));
    const from = performance.now();
    await refer('PathRules')();
    bench.value('cold, the first question', performance.now() - from, 'ms');
    const grep = { pattern: 'PathRules' };
    const taken = await inTurns(
      {
        file_grep: () => dataOf(client.call('file_grep', grep, { cache: false })),
        references: refer('PathRules'),
        'references, very many': refer('limits'),
        symbols: () => dataOf(client.call('workspace_search_symbol', { query: 'PathRules' }, { cache: false })),
      },
      { rounds: bench.size(1, 10), times: bench.size(1, 3), warmRounds: bench.size(0, 1) },
    );
    bench.times(taken, { over: 'file_grep' });
  },
});
