import fc from 'fast-check';
import { expect, test } from 'vitest';
import { defaultLimits } from '../../../../src/base/limits.ts';
import { FairQueue } from '../../../../src/pipeline/queue/fair-queue.ts';

const slot = (session: string, more: object = {}) => ({
  ...{
    line: 'line',
    slots: 1,
    slotsPerSession: 99,
    principal: session,
    session,
    signal: new AbortController().signal,
    congested: () => false,
  },
  ...more,
});

test('sessions take turns, however many calls one of them has', async () => {
  const queue = new FairQueue(defaultLimits);
  const order: string[] = [];
  const leave = await queue.enter(slot('first'));
  const all = ['a', 'a', 'a', 'b', 'b', 'c'].map(async (session) => {
    const done = await queue.enter(slot(session));
    order.push(session);
    done();
  });
  leave();
  await Promise.all(all);
  expect(order).toEqual(['a', 'b', 'c', 'a', 'b', 'a']);
  expect([queue.running, queue.queued]).toEqual([0, 0]);
});

test('principals take turns, however many sessions one of them has, and so do the sessions of each', async () => {
  const queue = new FairQueue(defaultLimits);
  const order: string[] = [];
  const leave = await queue.enter(slot('first'));
  const all = ['m1', 'm1', 'm2', 'm3', 'f1', 'f1'].map(async (session) => {
    const done = await queue.enter(slot(session, { principal: session[0] }));
    order.push(session);
    done();
  });
  leave();
  await Promise.all(all);
  expect(order).toEqual(['m1', 'f1', 'm2', 'f1', 'm3', 'm1']);
  expect([queue.running, queue.queued]).toEqual([0, 0]);
});

test('more waiting calls than a session may have are QUEUE_FULL, and others still get in line', async () => {
  const queue = new FairQueue({ ...defaultLimits, sessionQueueMax: 2 });
  const leave = await queue.enter(slot('a'));
  const waiting = [queue.enter(slot('a')), queue.enter(slot('a'))];
  await expect(queue.enter(slot('a'))).rejects.toMatchObject({
    code: 'QUEUE_FULL',
    extras: { details: { retryAfterMs: expect.any(Number) } },
  });
  const other = queue.enter(slot('b'));
  leave();
  await Promise.all([...waiting, other].map(async (it) => (await it)()));
});

test('a session with as many slots as one may have leaves the others to others, and gets one when it leaves one', async () => {
  const queue = new FairQueue(defaultLimits);
  const some = { slots: 3, slotsPerSession: 2 };
  const leave = await queue.enter(slot('greedy', some));
  await queue.enter(slot('greedy', some));
  let begun = false;
  const third = queue.enter(slot('greedy', some)).then(() => (begun = true));
  (await queue.enter(slot('other', some)))();
  expect(begun).toBe(false);
  leave();
  await third;
  expect(queue.running).toBe(2);
});

test('an aborted call leaves the queue', async () => {
  const queue = new FairQueue(defaultLimits);
  const leave = await queue.enter(slot('a'));
  const controller = new AbortController();
  const gone = queue.enter(slot('b', { signal: controller.signal }));
  const next = queue.enter(slot('c'));
  controller.abort(new Error('gone'));
  await expect(gone).rejects.toThrow('gone');
  leave();
  (await next)();
  expect(queue.queued).toBe(0);
});

test('a call whose caller does not read waits until it reads, and delays no other call', async () => {
  const queue = new FairQueue(defaultLimits);
  let congested = true;
  let begun = 0;
  const slow = Array.from({ length: 3 }, () =>
    queue.enter(slot('slow', { slots: 2, congested: () => congested })).then((leave) => ({ leave, n: ++begun })),
  );
  (await queue.enter(slot('other', { slots: 2 })))();
  expect(begun).toBe(0);
  congested = false;
  queue.wake();
  for (const it of slow) (await it).leave();
  expect(begun).toBe(3);
});

test('never more than its slots run at once, and all run', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.constantFrom('a', 'b', 'c'), { maxLength: 60 }),
      fc.integer({ min: 1, max: 5 }),
      async (sessions, slots) => {
        const queue = new FairQueue(defaultLimits);
        let [running, most, done] = [0, 0, 0];
        await Promise.all(
          sessions.map(async (session, i) => {
            const leave = await queue.enter(slot(session, { slots }));
            most = Math.max(most, ++running);
            if (i % 3 === 0) await new Promise(setImmediate);
            running -= 1;
            done += 1;
            leave();
          }),
        );
        expect(most).toBeLessThanOrEqual(slots);
        expect(done).toBe(sessions.length);
      },
    ),
    { numRuns: 50 },
  );
});
