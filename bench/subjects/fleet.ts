import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Client, createClient } from '../../src/client/client.ts';
import { dataOf } from '../../test/support/daemon.ts';
import { clientOf, linkOf, noBus, TestFleet } from '../../test/support/fleet.ts';
import { type Context, defineBench } from '../bench.ts';
import { inTurns, median, type Taken, together } from '../measure.ts';

const MIB = 1024 * 1024;

/** The clients that are compared: one at the socket of the daemon, and one at a gateway. */
interface Pair {
  readonly local: Client;
  readonly placed: Client;
}

async function calls(bench: Context, { local, placed }: Pair): Promise<void> {
  const read = (client: Client) => () => dataOf(client.call('file_read', { path: 'four-kib.txt' }, { cache: false }));
  const one = await inTurns(
    { 'file_read of 4 KiB at the daemon': read(local), 'file_read of 4 KiB through a gateway': read(placed) },
    { rounds: bench.size(2, 10), times: bench.size(50, 500), warmRounds: bench.size(1, 4) },
  );
  bench.times(one, { over: 'file_read of 4 KiB at the daemon' });
  const [atDaemon, atGateway] = Object.values(one) as [Taken, Taken];
  const added = atGateway.map((round, at) => median(round) - median(atDaemon[at] ?? []));
  bench.value('a gateway adds to a call', median(added), 'ms', { most: 0.6 });

  const times = bench.size(200, 2_000);
  const lanes = (client: Client) => together(read(client), { inFlight: 32, times });
  const many = await inTurns(
    { '32 in flight at the daemon': lanes(local), '32 in flight through a gateway': lanes(placed) },
    { rounds: bench.size(1, 5), times: 1, warmRounds: bench.size(0, 2) },
  );
  const goals = { '32 in flight through a gateway': { least: 3_000 } };
  bench.rates(many, { amount: times, unit: '/s', over: '32 in flight at the daemon', goals });
}

async function output(bench: Context, { local, placed }: Pair): Promise<void> {
  const times = bench.size(4, 100);
  const lanes = (client: Client) =>
    together(() => dataOf(client.call('file_read', { path: 'one-mib.txt' }, { cache: false })), { inFlight: 4, times });
  const taken = await inTurns(
    { 'results of 1 MiB at the daemon': lanes(local), 'results of 1 MiB through a gateway': lanes(placed) },
    { rounds: bench.size(1, 5), times: 1, warmRounds: bench.size(0, 1) },
  );
  const goals = { 'results of 1 MiB through a gateway': { least: (100 * MIB) / 1e6 } };
  const amount = (times * MIB) / 1e6;
  bench.rates(taken, { amount, unit: 'MB/s', over: 'results of 1 MiB at the daemon', goals });
}

export default defineBench({
  title: 'Fleet',
  question: 'What does a gateway cost, and how soon is a lost node known?',
  async run(bench) {
    if (noBus !== undefined) return bench.skip('a fleet', noBus);
    await using fleet = await TestFleet.start();
    const node = await fleet.node('node', {});
    const socket = await fleet.gateway();
    writeFileSync(join(node.workspace, 'four-kib.txt'), `${'x'.repeat(63)}\n`.repeat(64));
    writeFileSync(join(node.workspace, 'one-mib.txt'), 'x'.repeat(MIB));
    await using local = await node.connect();
    await using placed = await clientOf(socket);
    await calls(bench, { local, placed });
    await output(bench, { local, placed });

    const open = (at: string) => async () => {
      await using _ = await createClient({ socket: at });
    };
    const opened = await inTurns(
      { 'a session at the daemon': open(node.socket), 'a session through a gateway': open(socket) },
      { rounds: bench.size(1, 5), times: bench.size(5, 20) },
    );
    bench.times(opened, { over: 'a session at the daemon' });

    // All processes of the node stand still, as when its machine is gone.
    const link = linkOf(node);
    const call = placed.call('terminal_execute', { command: 'sleep 60' });
    await dataOf(placed.call('file_read', { path: 'four-kib.txt' }));
    for (const pid of [node.pid, link]) process.kill(pid, 'SIGSTOP');
    const from = performance.now();
    await call;
    bench.value('from the stop of a node to its calls being told as unknown', performance.now() - from, 'ms', {
      most: 3_000,
    });
    for (const pid of [node.pid, link]) process.kill(pid, 'SIGCONT');
  },
});
