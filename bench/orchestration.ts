// What does running calls together bring, and what do cache, retries and approvals cost? The five comparisons of the
// orchestration exercise, taking turns in one run (`npm run bench`). `--small` for the tests; else writes docs/orchestration.svg.
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { BatchCall, Client } from '../src/client.ts';
import { startDaemon } from '../test/support/daemon.ts';
import { toSvg } from './bars.ts';

const small = process.argv.includes('--small');
const rounds = small ? 2 : 15;
const CALLS = 100;

await using daemon = await startDaemon({
  policy: [
    'tiers:',
    '  execute: { decision: allow }',
    'approvals: { headless: wait }',
    'rules:',
    '  - { id: ask, match: { write: "asked/**" }, decision: ask, reason: a person is asked }',
  ].join('\n'),
});
await using client = await daemon.connect();
await using operator = await daemon.connect({ role: 'operator' });
for (let at = 0; at < CALLS; at++) writeFileSync(join(daemon.workspace, `f${at}.txt`), `${at}\n`.repeat(512));
mkdirSync(join(daemon.workspace, 'asked'));
void answer(operator);

/** Says yes at once to whatever is asked. */
async function answer(person: Client): Promise<void> {
  for await (const { method, params } of person.notifications(['approvals']))
    if (method === 'approval.requested') {
      const { approvalId } = params.approval as { approvalId: string };
      await person.request('approvals.resolve', { approvalId, decision: 'approve' });
    }
}

const path = (at: number) => ({ path: `f${at}.txt` });
const reads = (cache: boolean): BatchCall[] =>
  Array.from({ length: CALLS }, (_, at) => ({ id: `c${at}`, tool: 'file_read', input: path(at), options: { cache } }));
const sleeps: BatchCall[] = Array.from({ length: 24 }, (_, at) => ({
  ...{ id: `s${at}`, tool: 'terminal_execute', input: { command: 'sleep 0.05' } },
}));
const batch = async (calls: BatchCall[], settings = {}) => {
  const { success } = await client.batch(calls, settings);
  if (!success) throw new Error('a call of the batch failed');
};
const write = async (file: string, options = {}) => {
  const result = await client.call('file_write', { path: file, content: 'x' }, options);
  if (!result.success) throw new Error(result.error.message);
};

/** Milliseconds each; names begin with the comparison that they belong to. */
const subjects: Record<string, () => Promise<unknown>> = {
  '1 100 reads, one after the other': async () => {
    for (let at = 0; at < CALLS; at++) await client.call('file_read', path(at), { cache: false });
  },
  '1 100 reads, all at once': () =>
    Promise.all(Array.from({ length: CALLS }, (_, at) => client.call('file_read', path(at), { cache: false }))),
  '1 100 reads, in a batch': () => batch(reads(false)),
  '2 100 reads in a batch, cache off': () => batch(reads(false)),
  '2 100 reads in a batch, cache on': () => batch(reads(true)),
  '3 24 commands of 50 ms, 1 at once': () => batch(sleeps, { concurrency: 1 }),
  '3 24 commands of 50 ms, 5 at once': () => batch(sleeps, { concurrency: 5 }),
  '3 24 commands of 50 ms, 10 at once': () => batch(sleeps, { concurrency: 10 }),
  '3 24 commands of 50 ms, unlimited': () => batch(sleeps),
  '4 a write, no retries': () => write('w.txt'),
  '4 a write, up to 5 retries, none needed': () => write('w.txt', { retries: 5 }),
  '5 a write that is allowed': () => write('w.txt'),
  '5 a write that a program approves at once': () => write('asked/w.txt'),
};

const took = new Map<string, number[]>(Object.keys(subjects).map((name) => [name, []]));
for (let round = 0; round < rounds; round++) {
  for (const [name, run] of Object.entries(subjects)) {
    const from = performance.now();
    await run();
    if (round > 0 || small) took.get(name)?.push(performance.now() - from);
  }
}
const p50 = (times: number[]) => times.sort((a, b) => a - b)[Math.floor(times.length / 2)] as number;

const hits: number[] = [];
for (let at = 0; at < (small ? 20 : 2000); at++) {
  const from = performance.now();
  const { metadata } = await client.call('file_read', path(at % CALLS));
  if (metadata.cached) hits.push(performance.now() - from);
}

const figures = [...took].map(([name, times]) => ({ name, ms: p50(times) }));
for (const { name, ms } of figures) console.log(`${name.padEnd(44)} p50 ${ms.toFixed(2)} ms`);
console.log(`cache hit${' '.repeat(35)} p50 ${p50(hits).toFixed(3)} ms`);
if (!small) {
  const bars = figures.map(({ name, ms }) => ({
    name: name.slice(2),
    value: Math.log10(1 + ms),
    label: `${ms.toFixed(1)} ms`,
  }));
  writeFileSync(
    new URL('../docs/orchestration.svg', import.meta.url),
    toSvg('Orchestration, p50 (bars: logarithmic)', bars),
  );
}
