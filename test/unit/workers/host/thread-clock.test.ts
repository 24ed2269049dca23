import { Worker } from 'node:worker_threads';
import { expect, test } from 'vitest';
import { type OverTime, ThreadWatch } from '../../../../workers/host/thread-clock.ts';
import { JobPlaces } from '../../../../workers/host/thread-slots.ts';

const PLACES = new URL('../../../../workers/host/thread-slots.ts', import.meta.url).href;

/** A thread that begins jobs in these places and then loops for ever. */
function spinIn(places: JobPlaces, begun: number[]): Worker {
  const text = `
    import { workerData } from 'node:worker_threads';
    import { JobPlaces, ownTaskId } from '${PLACES}';
    const places = new JobPlaces(workerData.buffer);
    const { user, system } = process.threadCpuUsage();
    for (const it of workerData.begun) places.enter(it, { taskId: ownTaskId(), begunMs: (user + system) / 1000 });
    for (;;);`;
  const workerData = { buffer: places.buffer, begun };
  return new Worker(new URL(`data:text/javascript,${encodeURIComponent(text)}`), { workerData });
}

type Told = { job: number; over: OverTime } | { thread: number };

/** The first report of a watch on a thread with several jobs, each limited to 150 ms. */
async function firstOf(jobs: number): Promise<{ told: Told; thread: number }> {
  const places = new JobPlaces(4);
  const { promise, resolve } = Promise.withResolvers<Told>();
  const watch = new ThreadWatch({
    places,
    everyMs: 10,
    onOver: (job, over) => resolve({ job, over }),
    onSharedOver: (thread) => resolve({ thread }),
  });
  const begun = Array.from({ length: jobs }, () => places.take());
  for (const [index, place] of begun.entries()) watch.begin(index + 1, place, 150);
  const worker = spinIn(places, begun);
  const { threadId } = worker;
  try {
    return { told: await promise, thread: threadId };
  } finally {
    for (const [index] of begun.entries()) watch.end(index + 1);
    await worker.terminate();
  }
}

test('a job that spins alone in its thread is over its limit, by what it used', async () => {
  const { told } = await firstOf(1);
  expect(told).toEqual({ job: 1, over: { limit: 150, used: expect.any(Number) } });
  expect('over' in told && told.over.used).toBeGreaterThan(150);
});

test('of jobs that share a thread none is blamed: the thread is told', async () => {
  const { told, thread } = await firstOf(3);
  expect(told).toEqual({ thread });
});

test('a place is taken by one job at a time, and says nothing of a thread before it has begun', () => {
  const places = new JobPlaces(2);
  const [first, second] = [places.take(), places.take()];
  expect(first).not.toBe(second);
  expect(() => places.take()).toThrow(/more jobs than places/);
  places.free(first);
  expect(places.take()).toBe(first);
  expect(places.seatOf(first)).toBeUndefined();
});
