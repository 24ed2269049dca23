/** When the event loop is kept from sleeping, and for how long. */
import { availableParallelism } from 'node:os';
import { setImmediate } from 'node:timers/promises';
import { beforeEach, expect, test } from 'vitest';
import { Polling } from '../../src/base/polling.ts';

const STEP_MS = 0.01;
let nowMs: number;
let looks: number;
let polling: Polling;
beforeEach(() => {
  nowMs = 0;
  looks = 0;
  polling = new Polling(0.5, { monotonicMs });
});

/** Each reading of the clock takes time, so that readings count polls. */
function monotonicMs(): number {
  looks += 1;
  nowMs += STEP_MS;
  return nowMs;
}

/** How often it polls in a hundred turns of the loop. */
async function polled(): Promise<number> {
  const before = looks;
  for (let turn = 0; turn < 100; turn++) await setImmediate();
  return looks - before;
}

const wait = (ms: number) => {
  polling.begin();
  nowMs += ms;
  polling.end();
};

test.skipIf(availableParallelism() < 2).each([
  ['the first wait is slept through', [], 0],
  ['one behind a short one is polled, for as long as it may be', [0.3], 50],
  ['one behind a long one is slept through', [0.3, 0.6], 0],
  ['one short wait behind long ones is enough', [9, 0.3], 50],
])('the event loop polls only while it pays: %s', async (_, waits, most) => {
  waits.forEach(wait);
  polling.begin();
  const looked = await polled();
  expect(Math.abs(looked - most)).toBeLessThanOrEqual(2);
});

test('polling ends with the answer, and an unasked message changes nothing', async () => {
  wait(0.3);
  polling.begin();
  polling.end();
  expect(await polled()).toBeLessThanOrEqual(1);
  nowMs += 50;
  polling.end();
  polling.begin();
  await setImmediate();
  expect(await polled()).toBeGreaterThan(availableParallelism() < 2 ? -1 : 40);
});

test('a second begin during a wait continues the same wait', async () => {
  wait(0.3);
  polling.begin();
  nowMs += 0.6;
  polling.begin();
  expect(await polled()).toBeLessThanOrEqual(1);
});

test('no time is no polling', async () => {
  polling = new Polling(0, { monotonicMs });
  wait(0);
  polling.begin();
  expect(await polled()).toBe(0);
});
