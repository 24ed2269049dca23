/** When an idle thread collects its garbage. */
import { Worker } from 'node:worker_threads';
import { beforeEach, expect, test } from 'vitest';
import { IdleHeap } from '../../../src/hosts/idle-heap.ts';

let nowMs = 0;
let timers: { readonly atMs: number; readonly fn: () => void }[];
let collected: number;
let heap: IdleHeap;
beforeEach(() => {
  nowMs = 0;
  timers = [];
  collected = 0;
  const after = (ms: number, fn: () => void) => {
    const timer = { atMs: nowMs + ms, fn };
    timers.push(timer);
    return { cancel: () => void timers.splice(timers.indexOf(timer), 1) };
  };
  heap = new IdleHeap({ after, monotonicMs: () => nowMs }, () => (collected += 1));
});

function pass(ms: number): void {
  const untilMs = nowMs + ms;
  for (let next = timers.shift(); next; next = timers.shift()) {
    if (next.atMs > untilMs) {
      timers.unshift(next);
      break;
    }
    nowMs = next.atMs;
    next.fn();
  }
  nowMs = untilMs;
}

test('a thread in use is not collected, and one that was used is, once', () => {
  for (let i = 0; i < 20; i++) {
    heap.used();
    pass(10_000);
  }
  expect(collected).toBe(0);
  pass(60_000);
  expect(collected).toBe(1);
  pass(600_000);
  expect(collected).toBe(1);
  heap.used();
  pass(31_000);
  expect(collected).toBe(2);
});

test('a daemon that is closed collects nothing afterwards', () => {
  heap.used();
  heap[Symbol.dispose]();
  heap.used();
  pass(60_000);
  expect(collected).toBe(0);
});

test('garbage of a burst goes back to the machine', async () => {
  const module = new URL('../../../src/hosts/idle-heap.ts', import.meta.url).href;
  const source = `const { IdleHeap } = await import(${JSON.stringify(module)});
    const { parentPort } = await import('node:worker_threads');
    let burst = Array.from({ length: 100_000 }, (_, i) => ({ name: 'n' + i, list: [i] }));
    burst = undefined;
    const { getHeapStatistics } = await import('node:v8');
    const before = getHeapStatistics().total_physical_size;
    new IdleHeap({ after: (_, fn) => (setTimeout(fn, 1), {}), monotonicMs: () => performance.now() * 1e6 }).used();
    setTimeout(() => parentPort.postMessage([before, getHeapStatistics().total_physical_size]), 300);`;
  const worker = new Worker(`import('data:text/javascript,' + ${JSON.stringify(encodeURIComponent(source))})`, {
    eval: true,
  });
  const [before, after] = await new Promise<[number, number]>((resolve, reject) =>
    worker.once('message', resolve).once('error', reject),
  );
  await worker.terminate();
  expect(after).toBeLessThan(before / 2);
});
