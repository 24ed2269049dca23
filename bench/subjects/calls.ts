import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import type { Client } from '../../src/client/client.ts';
import { dataOf } from '../../test/support/daemon.ts';
import { defineBench } from '../bench.ts';
import { createChain } from '../floors/chain.ts';
import { createEcho } from '../floors/echo.ts';
import { inTurns, together } from '../measure.ts';
import { memoryOf, memoryOfAll, processesOf } from '../memory.ts';

const read = (client: Client, path: string, cache: boolean) => () =>
  dataOf(client.call('file_read', { path }, { cache }));

export default defineBench({
  title: 'Calls',
  question:
    'What does one call cost, and how many go through, beside the least that any daemon and the same hops cost?',
  async run(bench) {
    const client = await bench.client('.');
    writeFileSync(join(client.folder, 'empty'), '');
    writeFileSync(join(client.folder, 'four-kib.txt'), `${'x'.repeat(63)}\n`.repeat(64));
    await dataOf(client.call('terminal_execute', { command: 'true' }));
    await dataOf(client.call('file_write', { path: 'note', content: '' }));
    const daemon = await bench.daemon();
    // Idle: what the start took was given back, half a minute after it.
    await setTimeout(bench.size(0, 40_000));
    // Measured before the status request, which takes memory, too.
    const gateway = memoryOf(daemon.pid, 'Rss');
    const processes = await processesOf(daemon, 3);
    const [rss, pss] = [memoryOfAll(processes, 'Rss'), memoryOfAll(processes, 'Pss')];
    using echo = await createEcho();
    using chain = await createChain();

    const times = bench.size(400, 4000);
    const lanes = (run: () => Promise<unknown>) => together(run, { inFlight: 32, times });
    const many = await inTurns(
      {
        'the same hops, empty, 32 in flight': lanes(chain.run),
        'refused in the gateway, 32 in flight': lanes(() => client.call('no_such_tool' as string, {})),
        'file_read of 4 KiB, 32 in flight': lanes(read(client, 'four-kib.txt', false)),
        'file_read of 4 KiB from the cache, 32 in flight': lanes(read(client, 'four-kib.txt', true)),
        'an empty file, 32 in flight': lanes(read(client, 'empty', false)),
      },
      { rounds: bench.size(2, 5), times: 1, warmRounds: bench.size(1, 10) },
    );
    bench.rates(many, {
      amount: times,
      unit: '/s',
      over: 'the same hops, empty, 32 in flight',
      goals: {
        'file_read of 4 KiB, 32 in flight': { least: 10_000 },
        'an empty file, 32 in flight': { least: 15_000 },
      },
    });

    const one = await inTurns(
      {
        'socket echo': echo.run,
        'the same hops, empty': chain.run,
        'refused in the gateway': () => client.call('no_such_tool' as string, {}),
        'dispatch through a host (an empty file)': read(client, 'empty', false),
        'file_read of 4 KiB': read(client, 'four-kib.txt', false),
        'file_read of 4 KiB from the cache': read(client, 'four-kib.txt', true),
      },
      { rounds: bench.size(3, 10), times: bench.size(100, 500) },
    );
    bench.times(one, {
      over: 'socket echo',
      goals: {
        'dispatch through a host (an empty file)': { ratio: 5 },
        'file_read of 4 KiB from the cache': { most: 0.2 },
      },
    });
    bench.beside('dispatch beside the hops that it makes', one['dispatch through a host (an empty file)'], {
      name: 'the same hops, empty',
      taken: one['the same hops, empty'],
    });
    bench.value('the idle gateway, Rss', gateway, 'MiB', { most: 90 });
    bench.value('an idle daemon and its warm hosts, Pss', pss, 'MiB', { most: 200 });
    bench.value('the same, sum of Rss (counts shared pages each time)', rss, 'MiB');
  },
});
