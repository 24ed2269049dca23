/** Batches that operators can look at: the newest are kept, those that run in any case, and of large ones fewer. */
import { expect, test } from 'vitest';
import { RecentBatches } from '../../../src/gateway/operator/recent-batches.ts';
import { planBatch } from '../../../src/pipeline/batch/plan.ts';
import { BatchTimeline } from '../../../src/pipeline/batch/timeline.ts';

const owner = { sessionId: 's', client: 'c', principal: 'p', workspace: '/w' };
const past = () => Promise.resolve(() => undefined);

/** Adds a batch of calls, each of which waits for all before it if `isDense`. */
function add(recent: RecentBatches, batchId: string, { size = 1, isDense = false, isOver = true } = {}): BatchTimeline {
  const timeline = new BatchTimeline({ now: () => 0, monotonicMs: () => 0 });
  const ids = Array.from({ length: size }, (_, at) => `c${at}`);
  const calls = ids.map((id, at) => ({ id, tool: 't', dependsOn: isDense ? ids.slice(0, at) : [] }));
  timeline.planned(planBatch(calls, { followsOf: () => [], canonical: (tool) => tool }));
  if (isOver) timeline.over();
  recent.add({ batchId, owner, calls, timeline, past });
  return timeline;
}
const idsOf = (recent: RecentBatches) => recent.list().batches.map((it) => it.batchId);

test('the newest come first, and the oldest that has ended goes for a new one', () => {
  const recent = new RecentBatches({ batchesKept: 2, batchCallsKept: 100 });
  const running = add(recent, 'runs', { isOver: false });
  for (const id of ['a', 'b', 'c']) add(recent, id);
  expect(idsOf(recent)).toEqual(['c', 'runs']);
  running.over();
  add(recent, 'd');
  expect(idsOf(recent)).toEqual(['d', 'c']);
});

test('dependencies count as calls do', () => {
  const recent = new RecentBatches({ batchesKept: 100, batchCallsKept: 60 });
  add(recent, 'dense', { size: 10, isDense: true });
  add(recent, 'small');
  expect(idsOf(recent)).toEqual(['small', 'dense']);
  add(recent, 'wide', { size: 10 });
  expect(idsOf(recent)).toEqual(['wide', 'small']);
});

test('the newest of several batches with one id is returned, or that of a named session', async () => {
  const recent = new RecentBatches({ batchesKept: 10, batchCallsKept: 100 });
  add(recent, 'same', { size: 1 });
  add(recent, 'same', { size: 2 });
  expect(await recent.get({ batchId: 'same' })).toMatchObject({ totalCalls: 2, calls: [{ level: 0 }, { level: 0 }] });
  expect(await recent.get({ batchId: 'same', session: 's' })).toMatchObject({ totalCalls: 2 });
  await expect(recent.get({ batchId: 'same', session: 'other' })).rejects.toThrow('there is no batch same');
});
