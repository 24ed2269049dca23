import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { BatchCall, Client } from '../../src/client/client.ts';
import { type Context, defineBench } from '../bench.ts';
import { inTurns, median } from '../measure.ts';

/** Approves every question at once. */
async function answer(person: Client): Promise<void> {
  for await (const { method, params } of person.notifications(['approvals']))
    if (method === 'approval.requested') {
      const { approvalId } = params.approval as { approvalId: string };
      await person.request('approvals.resolve', { approvalId, decision: 'approve' });
    }
}

function subjectsOf(client: Client, { calls, commands }: { calls: number; commands: number }) {
  const all = Array.from({ length: calls }, (_, at) => at);
  const path = (at: number) => ({ path: `f${at}.txt` });
  const reads = (cache: boolean): BatchCall[] =>
    all.map((at) => ({ id: `c${at}`, tool: 'file_read', input: path(at), options: { cache } }));
  const sleeps: BatchCall[] = Array.from({ length: commands }, (_, at) => ({
    id: `s${at}`,
    tool: 'terminal_execute',
    input: { command: 'sleep 0.05' },
  }));
  const batch = async (its: BatchCall[], settings = {}) => {
    const { success } = await client.batch(its, settings);
    if (!success) throw new Error('a call of the batch failed');
  };
  const write = async (file: string, options = {}) => {
    const result = await client.call('file_write', { path: file, content: 'x' }, options);
    if (!result.success) throw new Error(result.error.message);
  };
  return {
    'reads, one after the other': async () => {
      for (const at of all) await client.call('file_read', path(at), { cache: false });
    },
    'reads, all at once': () => Promise.all(all.map((at) => client.call('file_read', path(at), { cache: false }))),
    'reads, in a batch': () => batch(reads(false)),
    'reads, in a batch, from the cache': () => batch(reads(true)),
    'commands of 50 ms, 1 at once': () => batch(sleeps, { concurrency: 1 }),
    'commands of 50 ms, 5 at once': () => batch(sleeps, { concurrency: 5 }),
    'commands of 50 ms, 10 at once': () => batch(sleeps, { concurrency: 10 }),
    'commands of 50 ms, unlimited': () => batch(sleeps),
    'a write': () => write('w.txt'),
    'a write, up to 5 retries, none needed': () => write('w.txt', { retries: 5 }),
    'a write that a program approves at once': () => write('asked/w.txt'),
  };
}

async function run(bench: Context): Promise<void> {
  const client = await bench.client('.');
  await using operator = await (await bench.daemon()).connect({ role: 'operator' });
  const [calls, commands] = [bench.size(20, 100), bench.size(2, 24)];
  for (let at = 0; at < calls; at++) writeFileSync(join(client.folder, `f${at}.txt`), `${at}\n`.repeat(512));
  mkdirSync(join(client.folder, 'asked'));
  const answering = answer(operator);
  const taken = await inTurns(subjectsOf(client, { calls, commands }), {
    rounds: bench.size(1, 15),
    times: 1,
    warmRounds: bench.size(0, 1),
  });
  const [reads, sleeps, write] = ['reads, one after the other', 'commands of 50 ms, 1 at once', 'a write'] as const;
  bench.times(taken, {
    over: {
      'reads, all at once': reads,
      'reads, in a batch': reads,
      'reads, in a batch, from the cache': reads,
      'commands of 50 ms, 5 at once': sleeps,
      'commands of 50 ms, 10 at once': sleeps,
      'commands of 50 ms, unlimited': sleeps,
      'a write, up to 5 retries, none needed': write,
      'a write that a program approves at once': write,
    },
  });
  bench.say(`${calls} reads and ${commands} commands each.`);
  const bars = Object.entries(taken).map(([name, its]) => ({ name, ms: median(its.flat()) }));
  bench.draw({
    name: 'orchestration',
    title: 'Orchestration, medians (bars: logarithmic)',
    kind: 'bars',
    bars: bars.map(({ name, ms }) => ({ name, value: Math.log10(1 + ms), label: `${ms.toFixed(1)} ms` })),
  });
  await operator[Symbol.asyncDispose]();
  await answering;
}

export default defineBench({
  title: 'Orchestration',
  question: 'What do calls together bring, and what do retries and approvals cost?',
  run,
});
