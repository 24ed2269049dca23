import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { dataOf } from '../../test/support/daemon.ts';
import { defineBench } from '../bench.ts';
import { editFile } from '../floors/edit.ts';
import { inTurns } from '../measure.ts';

const FILE = `value = 0\n${'a line of forty characters, or nearly so\n'.repeat(200)}`;

export default defineBench({
  title: 'Edits',
  question: 'What does a change of a file cost, beside a bare edit that is as safe?',
  async run(bench) {
    const client = await bench.client('edits');
    for (const name of ['bare', 'edited']) writeFileSync(join(client.folder, name), FILE);
    let bare = 0;
    let edited = 0;
    let written = 0;
    const taken = await inTurns(
      {
        'read, write, fsync, rename': () =>
          editFile(join(client.folder, 'bare'), (text) => text.replace(`value = ${bare}\n`, `value = ${++bare}\n`)),
        file_edit: () => {
          const [search, replace] = [`value = ${edited}\n`, `value = ${++edited}\n`];
          return dataOf(
            client.call('file_edit', { path: 'edited', operations: [{ type: 'replace', search, replace }] }),
          );
        },
        file_write: () => dataOf(client.call('file_write', { path: 'written', content: `${++written}\n${FILE}` })),
      },
      { rounds: bench.size(3, 10), times: bench.size(5, 100), warmRounds: bench.size(1, 15) },
    );
    bench.times(taken, { over: 'read, write, fsync, rename', goals: { file_edit: { most: 3 } } });
  },
});
