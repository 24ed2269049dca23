import { execFileSync } from 'node:child_process';
import { mkdirSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { removeTree, startDaemon, temporaryDir } from '../../test/support/daemon.ts';
import { openPlaced } from '../../test/support/placed.ts';
import { defineBench } from '../bench.ts';
import { makeRepository } from '../floors/git.ts';
import type { Taken } from '../measure.ts';

export default defineBench({
  title: 'Clones of a fleet',
  question: 'How long does a session wait for its clone, beside `git clone` of the mirror?',
  async run(bench) {
    const files = bench.size(50, 1000);
    const [folder, origins] = [temporaryDir('bench-fleet'), temporaryDir('bench-origins')];
    const work = join(origins, 'project');
    mkdirSync(work);
    makeRepository(work, files);
    const commit = execFileSync('git', ['rev-parse', 'HEAD'], { cwd: work, encoding: 'utf8' }).trim();
    await using daemon = await startDaemon({ config: { fleet: { folder, origins: [`file://${origins}/*`] } } });
    await using operator = await daemon.connect({ role: 'operator' });
    const [cold, warm, bare]: number[][][] = [[], [], []];
    const timed = async (into: number[][] | undefined, run: () => unknown) => {
      const from = performance.now();
      await run();
      into?.push([performance.now() - from]);
    };
    const named = `git+file://${work}#${commit}`;
    for (let round = 0; round < bench.size(3, 30); round++) {
      let session: Awaited<ReturnType<typeof openPlaced>> | undefined;
      await timed(round === 0 ? cold : warm, async () => {
        session = await openPlaced(daemon, operator, named);
      });
      await session?.[Symbol.asyncDispose]();
      // The next one does not wait behind the end of this one.
      while (readdirSync(join(folder, 'clones')).length > 0) await sleep(20);
      const mirror = join(folder, 'mirrors', readdirSync(join(folder, 'mirrors'))[0] as string);
      const to = join(origins, 'bare');
      const clone = ['clone', '-q', '--no-hardlinks', '--no-checkout', mirror, to];
      await timed(bare, () => {
        for (const it of [clone, ['-C', to, 'read-tree', '--reset', '-u', commit]])
          execFileSync('git', it, { stdio: 'ignore' });
      });
      rmSync(to, { recursive: true });
    }
    const names = { cold: 'session, first fetch', warm: 'session on a warm clone', bare: 'git clone of the mirror' };
    bench.times(
      { [names.cold]: cold as Taken, [names.warm]: warm as Taken, [names.bare]: bare as Taken },
      { over: { [names.warm]: names.bare }, goals: { [names.warm]: { most: 150 } } },
    );
    bench.say(`A repository of ${files} files, from its folder.`);
    for (const it of [folder, origins]) removeTree(it);
  },
});
