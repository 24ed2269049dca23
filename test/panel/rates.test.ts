/** Rates and percentiles between two readings of the daemon's metrics. */
import { expect, test } from 'vitest';
import { callsPerSecond, type Families, percentileMs, readingOf } from '../../panel/src/machine/rates.ts';
import { toTree } from '../../panel/src/machine/sessions.tsx';
import { niceTop } from '../../panel/src/parts/plot.tsx';
import { Histogram } from '../../src/store/telemetry/histogram.ts';

const BOUNDS = [0.001, 0.01, 0.1, 1];

/** Metrics of a daemon whose calls took these seconds. */
function familiesOf(seconds: readonly number[]): Families {
  const [reads, writes] = [new Histogram(BOUNDS), new Histogram(BOUNDS)];
  for (const [at, it] of seconds.entries()) (at % 2 === 0 ? reads : writes).observe(it);
  const samples = [...reads.samples({ tier: 'read_only' }), ...writes.samples({ tier: 'write' })];
  return [
    { name: 'ringfence_calls_total', type: 'counter', help: '', samples: [{ value: seconds.length }] },
    { name: 'ringfence_call_duration_seconds', type: 'histogram', help: '', samples },
    { name: 'process_resident_memory_bytes', type: 'gauge', help: '', samples: [{ value: 100 }] },
    { name: 'ringfence_host_memory_bytes', type: 'gauge', help: '', samples: [{ value: 20 }, { value: 3 }] },
  ];
}

test('only the calls between two readings count, over all tiers', () => {
  const before = readingOf(familiesOf([5, 5, 5]), 1_000);
  const quick = Array.from({ length: 98 }, () => 0.005);
  const now = readingOf(familiesOf([5, 5, 5, ...quick, 0.05, 0.5]), 3_000);
  expect(callsPerSecond(before, now)).toBe(50);
  expect(percentileMs(before, now, 0.5)).toBeGreaterThan(1);
  expect(percentileMs(before, now, 0.5)).toBeLessThanOrEqual(10);
  expect(percentileMs(before, now, 0.99)).toBeGreaterThan(10);
  expect(percentileMs(before, now, 0.99)).toBeLessThanOrEqual(100);
  expect([now.gatewayBytes, now.hostBytes]).toEqual([100, 23]);
});

test('without calls there is no percentile, and beyond the last bucket only that is told', () => {
  const none = readingOf(familiesOf([]), 0);
  expect(percentileMs(none, none, 0.5)).toBeUndefined();
  expect(percentileMs(none, readingOf(familiesOf([50, 50]), 1_000), 0.5)).toBe(1_000);
});

test('a daemon that was started again is no negative rate', () => {
  expect(callsPerSecond(readingOf(familiesOf([1, 1]), 0), readingOf(familiesOf([1]), 1_000))).toBeUndefined();
});

test('sessions stand below those that delegated to them, and all are listed', () => {
  const session = (sessionId: string, parent?: string) => ({
    sessionId,
    client: '',
    principal: '',
    role: 'agent',
    workspace: '',
    calls: 0,
    ...(parent !== undefined && { parent }),
  });
  const all = [session('grandchild', 'child'), session('alone', 'gone'), session('child', 'top'), session('top')];
  expect(toTree(all).map((it) => [it.session.sessionId, it.depth])).toEqual([
    ['alone', 0],
    ['top', 0],
    ['child', 1],
    ['grandchild', 2],
  ]);
});

test('an axis ends at a round number', () => {
  expect([0, 0.3, 1, 1.2, 7, 1000, 1001].map(niceTop)).toEqual([1, 0.5, 1, 2, 10, 1000, 2000]);
});
