/** Limits of CPU time by the clocks of threads, some of which spin. */
import { Worker } from 'node:worker_threads';
import { describe, expect, test } from 'vitest';
import { systemPowers } from '../../../src/base/powers.ts';
import { type OverTime, ThreadClocks } from '../../../src/hosts/thread-clocks.ts';
import { ThreadTable } from '../../../workers/host/thread-table.ts';

const TABLE = new URL('../../../workers/host/thread-table.ts', import.meta.url).href;

/** A thread that begins that many jobs and then loops for ever. */
function spinIn(table: ThreadTable, jobs: number): Worker {
  const text = `
    import { threadId, workerData } from 'node:worker_threads';
    import { ownTaskId, ThreadTable } from '${TABLE}';
    const table = new ThreadTable(workerData.buffer);
    table.enter(0, threadId, ownTaskId());
    const { user, system } = process.threadCpuUsage();
    for (let i = 0; i < workerData.jobs; i++) table.begin(0, (user + system) / 1000);
    for (;;);`;
  const workerData = { buffer: table.buffer, jobs };
  return new Worker(new URL(`data:text/javascript,${encodeURIComponent(text)}`), { workerData });
}

type Told = { job: number; over: OverTime } | { thread: number };

/** The first report about a thread with several jobs, each limited to 150 ms. */
async function firstOf(jobs: number): Promise<Told> {
  const table = new ThreadTable(1);
  const { promise, resolve } = Promise.withResolvers<Told>();
  const ids = Array.from({ length: jobs }, (_, index) => ({ id: index + 1, index }));
  using clocks = new ThreadClocks({
    everyMs: 10,
    powers: systemPowers(),
    look() {
      const clock = table.clockOf(0);
      if (clock) clocks.take(clock, ids);
    },
    onOver: (job, over) => resolve({ job, over }),
    onSharedOver: (thread) => resolve({ thread }),
  });
  for (const { id } of ids) clocks.begin(id, 150);
  const worker = spinIn(table, jobs);
  try {
    return await promise;
  } finally {
    await worker.terminate();
  }
}

test('a job that spins alone in its thread is over its limit, by what it used', async () => {
  const told = await firstOf(1);
  expect(told).toEqual({ job: 1, over: { limit: 150, used: expect.any(Number) } });
  expect('over' in told && told.over.used).toBeGreaterThan(150);
});

test('a limit hit by jobs that share a thread blames the thread instead of a job', async () => {
  expect(await firstOf(3)).toEqual({ thread: 0 });
});

describe('by clocks that a host told', () => {
  const told: unknown[] = [];
  const make = () => {
    told.length = 0;
    return new ThreadClocks({
      everyMs: 1e9,
      powers: systemPowers(),
      look() {},
      onOver: (job, { used }) => told.push({ job, used }),
      onSharedOver: (thread) => told.push({ thread }),
    });
  };

  test('a job is charged from the moment in which its thread began it, and told of once', () => {
    using clocks = make();
    clocks.begin(7, 100);
    const jobs = [{ id: 7, index: 4 }];
    clocks.take({ thread: 0, begun: 4, begunMs: 900, cpuMs: 5000 }, jobs);
    clocks.take({ thread: 0, begun: 5, begunMs: 5010, cpuMs: 5110 }, jobs);
    expect(told).toEqual([]);
    clocks.take({ thread: 0, begun: 5, begunMs: 5010, cpuMs: 5120 }, jobs);
    clocks.take({ thread: 0, begun: 5, begunMs: 5010, cpuMs: 5900 }, jobs);
    expect(told).toEqual([{ job: 7, used: 110 }]);
  });

  test('a job that waits behind another one in its thread is charged nothing, and keeps nobody from being blamed', () => {
    using clocks = make();
    for (const it of [1, 2]) clocks.begin(it, 100);
    const jobs = [1, 2].map((id) => ({ id, index: id - 1 }));
    clocks.take({ thread: 0, begun: 1, begunMs: 0, cpuMs: 300 }, jobs);
    expect(told).toEqual([{ job: 1, used: 300 }]);
  });
});

test('clocks are looked at only while a job has a limit', () => {
  const timers: (() => void)[] = [];
  const after = (_: number, fn: () => void) => {
    timers.push(fn);
    return { cancel() {} };
  };
  let looks = 0;
  using clocks = new ThreadClocks({
    everyMs: 1,
    powers: { after },
    look: () => looks++,
    onOver() {},
    onSharedOver() {},
  });
  expect(timers.length).toBe(0);
  clocks.begin(1, 1000);
  for (let i = 0; i < 3; i++) timers.shift()?.();
  clocks.end(1);
  timers.shift()?.();
  expect([looks, timers.length]).toEqual([3, 0]);
});
