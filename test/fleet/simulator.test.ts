/** Placement and fencing at sizes and through failures that no machine of ours has, in virtual time. */
import { describe, expect, test } from 'vitest';
import { START_WITHIN_MS, whyNotStart } from '../../src/base/fencing.ts';
import { type Candidate, place } from '../../src/fleet/placement.ts';
import { LOST_MS } from '../../src/fleet/presence.ts';
import { FleetSimulator } from '../support/fleet-simulator.ts';

const SMALL = { nodes: 6, sessions: 60, forMs: 120_000, callsPerSecond: 2, failuresPerMinute: 6 };

test('1 000 nodes with 50 000 sessions start no call twice, none without its lease, and know each loss in time', () => {
  const report = new FleetSimulator({
    ...{ nodes: 1_000, sessions: 50_000, forMs: 6_000 },
    ...{ seed: 1, callsPerSecond: 0.2, failuresPerMinute: 2 },
  }).run();
  expect([report.doubled, report.unowned, report.lied]).toEqual([[], [], []]);
  expect(report.placements).toBeGreaterThan(50_000);
  expect(report.done).toBeGreaterThan(20_000);
  expect(report.unknown).toBeGreaterThan(0);
  // Gateways look every 100 ms.
  expect(report.lossKnownMs).toBeLessThanOrEqual(LOST_MS + 100);
  expect(report.busiest).toBeLessThan(3 * report.average);
}, 240_000);

describe('many runs of a small fleet that fails all the time', () => {
  test.each(Array.from({ length: 20 }, (_, seed) => seed))('seed %i', (seed) => {
    const report = new FleetSimulator({ ...SMALL, seed }).run();
    expect([report.doubled, report.unowned, report.lied]).toEqual([[], [], []]);
    expect(report.fenced).toBeGreaterThan(0);
  });
});

test.each([
  ['nothing', () => undefined],
  ['the epoch alone', (lease, call) => (lease?.epoch === call.epoch ? undefined : 'another epoch')],
  ['an age of five seconds', (lease, call, now) => whyNotStart(lease, call, now - 3_000)],
] as readonly (readonly [string, typeof whyNotStart])[])(
  'fencing by %s lets nodes start what they do not own, which the simulator sees',
  (_, fencing) => {
    const runs = Array.from({ length: 5 }, (_, seed) => new FleetSimulator({ ...SMALL, seed, fencing }).run());
    expect(runs.flatMap((it) => it.unowned).length).toBeGreaterThan(0);
  },
);

test('a call starts only under the ownership that it was sent to, while that is fresh and somebody waits', () => {
  const lease = { epoch: 7, confirmedAtMs: 1_000 };
  const call = { epoch: 7, notAfterMs: 10_000 };
  expect(whyNotStart(lease, call, 1_000 + START_WITHIN_MS - 1)).toBeUndefined();
  expect(whyNotStart(lease, call, 1_000 + START_WITHIN_MS)).toBe(
    'the ownership was confirmed 2000 ms ago; at most 2000 ms may pass',
  );
  expect(whyNotStart(undefined, call, 1_000)).toContain('does not own');
  expect(whyNotStart(lease, { ...call, epoch: 6 }, 1_000)).toContain('ownership 6');
  expect(whyNotStart({ ...lease, confirmedAtMs: 9_999 }, call, 10_000)).toContain('gateway');
});

describe('placement', () => {
  const node = (name: string, change: Partial<Candidate> = {}): Candidate => ({
    ...{ name, labels: ['linux'], presence: 'here', hasPolicy: true, draining: false, paused: false },
    ...{ sessions: 0, load: 0, freeMemory: 100 },
    ...change,
  });
  const bounds = { sessionsMax: 10, freeMemoryMin: 50 };
  const wanted = { key: 'k', labels: ['linux'] };

  test.each([
    [{ presence: 'suspected' }, 'is suspected'],
    [{ presence: 'lost' }, 'is lost'],
    [{ hasPolicy: false }, 'follows another policy'],
    [{ draining: true }, 'is draining'],
    [{ paused: true }, 'is paused'],
    [{ labels: [] }, 'has no label linux'],
    [{ sessions: 10 }, 'has 10 sessions; at most 10 are placed'],
    [{ freeMemory: 49 }, 'has 49 free bytes of memory; 50 are needed'],
  ] as const)('gives no session to a node with %o', (change, why) => {
    expect(place(wanted, [node('a', change)], bounds)).toEqual({ refused: `no node will do: a ${why}` });
    expect(place(wanted, [node('a', change), node('b')], bounds)).toEqual({ node: 'b' });
  });

  test('keeps a session where its files are', () => {
    const nodes = [node('a'), node('b', { sessions: 9 })];
    expect(place({ ...wanted, node: 'b' }, nodes, bounds)).toEqual({ node: 'b' });
    expect(place({ ...wanted, node: 'c' }, nodes, bounds)).toEqual({ refused: 'node c is not there' });
    expect(place(wanted, [], bounds)).toEqual({ refused: 'no node is there' });
  });

  test('takes the freer of two, and spreads what is placed before the next heartbeat', () => {
    expect(place(wanted, [node('a', { sessions: 5 }), node('b')], bounds)).toEqual({ node: 'b' });
    expect(place(wanted, [node('a'), node('b', { load: 2 })], bounds)).toEqual({ node: 'a' });
    const nodes = Array.from({ length: 10 }, (_, n) => node(`n${n}`));
    const counts = new Map<string, number>();
    for (let n = 0; n < 1_000; n++) {
      const placed = place({ key: `k${n}`, labels: [] }, nodes, bounds);
      if ('node' in placed) counts.set(placed.node, (counts.get(placed.node) ?? 0) + 1);
    }
    expect(counts.size).toBe(10);
    expect(Math.max(...counts.values())).toBeLessThan(200);
  });
});
