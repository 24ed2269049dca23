import { dataOf } from '../../test/support/daemon.ts';
import { defineBench } from '../bench.ts';
import { ripgrep } from '../floors/ripgrep.ts';
import { makeTree } from '../floors/tree.ts';
import { inTurns } from '../measure.ts';

export default defineBench({
  title: 'Search',
  question: 'What does a search through the daemon cost, beside bare ripgrep over the same tree?',
  async run(bench) {
    const files = bench.size(400, 20_000);
    const client = await bench.client('search');
    makeTree(client.folder, files);
    const bare =
      (...args: string[]) =>
      () =>
        ripgrep(client.folder, ...args);
    const call = (tool: 'file_grep' | 'file_glob' | 'workspace_structure', input: Record<string, unknown>) => () =>
      dataOf(client.call(tool, input as never, { cache: false }));
    const all = { pattern: '**/*.ts', maxResults: bench.size(5000, 20_000) };
    const pairs: Record<string, [ours: () => Promise<unknown>, floor: () => Promise<void>]> = {
      'file_grep, 1 file': [
        call('file_grep', { pattern: 'words', path: 'part-0/d0/f1.ts' }),
        bare('--max-depth=1', '-e', 'x'),
      ],
      'file_grep, rare': [call('file_grep', { pattern: 'needle', maxResults: 5000 }), bare('-n', '-i', '-e', 'needle')],
      'file_grep, none': [
        call('file_grep', { pattern: 'n[aeiou]thing at all' }),
        bare('-n', '-i', '-e', 'n[aeiou]thing at all'),
      ],
      'file_grep, *.ts': [
        call('file_grep', { pattern: 'needle', include: '*.ts' }),
        bare('-n', '-i', '-g', '*.ts', '-e', 'needle'),
      ],
      'file_grep, 200 of many': [call('file_grep', { pattern: 'words' }), bare('-n', '-i', '-m1', '-e', 'words')],
      'file_glob, **/*.ts': [call('file_glob', all), bare('--files', '-g', '**/*.ts')],
      'file_glob, few': [call('file_glob', { pattern: '**/f1*1.js' }), bare('--files', '-g', '**/f1*1.js')],
      workspace_structure: [call('workspace_structure', {}), bare('--files')],
    };
    for (const [name, [ours, floor]] of Object.entries(pairs)) {
      const taken = await inTurns(
        { ripgrep: floor, [name]: ours },
        { rounds: bench.size(1, 10), times: bench.size(1, 3), warmRounds: bench.size(0, 1) },
      );
      bench.beside(name, taken[name] as number[][], { name: 'ripgrep', taken: taken.ripgrep as number[][] });
    }
    bench.say(`A tree of ${files} files.`);
  },
});
