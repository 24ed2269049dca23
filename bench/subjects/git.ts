import { dataOf } from '../../test/support/daemon.ts';
import { defineBench } from '../bench.ts';
import { gitStatus, makeRepository } from '../floors/git.ts';
import { inTurns } from '../measure.ts';

export default defineBench({
  title: 'Git',
  question: 'What does git_status cost, beside the same git run bare and an empty command of ours together?',
  async run(bench) {
    const client = await bench.client('git');
    const files = bench.size(50, 1000);
    makeRepository(client.folder, files);
    const command = () => dataOf(client.call('terminal_execute', { command: 'true' }));
    const taken = await inTurns(
      {
        'git status, bare': () => gitStatus(client.folder),
        'git status, bare, and terminal_execute true': async () => {
          await gitStatus(client.folder);
          await command();
        },
        git_status: () => dataOf(client.call('git_status', {})),
        git_diff: () => dataOf(client.call('git_diff', {})),
        git_log: () => dataOf(client.call('git_log', {})),
      },
      { rounds: bench.size(2, 10), times: bench.size(1, 10), warmRounds: bench.size(1, 5) },
    );
    const floor = 'git status, bare, and terminal_execute true';
    bench.times(taken, { over: { git_status: floor, git_diff: floor, git_log: floor } });
    bench.say(`A repository of ${files} files.`);
  },
});
