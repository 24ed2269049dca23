import { expect, test } from 'vitest';
import type { AuditEntry } from '../../../../src/store/audit/log.ts';
import { toolUsage } from '../../../../src/store/audit/tool-usage.ts';
import { LogFolder } from '../../../support/audit.ts';

const limits = { metricToolsMax: 3, toolStatsEntriesMax: 10_000 };
const ended = {
  kind: 'outcome',
  sessionId: 's',
  principal: 'p',
  callId: 'c',
  tool: 'file_read',
  durationMs: 10,
} as const;
const HOUR_MS = 3_600_000;
const START = Date.UTC(2026, 0, 2);

/** A record with entries, each at an hour of a day. */
function recordOf(folder: LogFolder, entries: readonly (readonly [hour: number, entry: Partial<AuditEntry>])[]) {
  const log = folder.open();
  for (const [hour, entry] of entries) {
    folder.powers.nowMs = START + hour * HOUR_MS;
    log.append({ ...ended, ...entry });
  }
  folder.powers.nowMs = START + 24 * HOUR_MS;
  return log;
}

test('calls are counted by tool and hour, with failures, refusals, cache hits and costs', async () => {
  using folder = new LogFolder();
  const log = recordOf(folder, [
    [-1, {}],
    [1, { detail: { cached: true } }],
    [1, { code: 'TIMEOUT', durationMs: 1000 }],
    [5, { kind: 'refusal', code: 'POLICY_DENIED' }],
    [6, { tool: 'github__get_issue', detail: { costUsd: 0.25 } }],
    [6, { kind: 'intent' }],
    [7, { tool: 'github__get_issue', detail: { costUsd: 0.5 } }],
  ]);
  const usage = await log.counted((it) => toolUsage(it, { hours: 24, limits }));
  expect(usage).toMatchObject({ since: '2026-01-02T00:00:00.000Z', periodMs: HOUR_MS });
  expect(usage.cut).toBeUndefined();
  const [read, github] = usage.tools;
  expect(read).toMatchObject({ tool: 'file_read', calls: 3, failed: 1, refused: 1, cacheHits: 1, usd: 0 });
  expect(read?.overTime.map(({ at, calls }) => [at, calls])).toEqual([
    ['2026-01-02T01:00:00.000Z', 2],
    ['2026-01-02T05:00:00.000Z', 1],
  ]);
  expect(read?.overTime[1]).not.toHaveProperty('p50Ms');
  expect(read?.lastAt).toBe('2026-01-02T05:00:00.000Z');
  expect(github).toMatchObject({ tool: 'github__get_issue', calls: 2, usd: 0.75 });
  const one = await log.counted((it) => toolUsage(it, { hours: 24, tool: 'github__get_issue', limits }));
  expect(one.tools.map(({ tool }) => tool)).toEqual(['github__get_issue']);
});

test('percentiles are within 5 % of the durations', async () => {
  using folder = new LogFolder();
  const log = recordOf(
    folder,
    Array.from({ length: 1000 }, (_, i) => [1, { durationMs: i + 1 }] as const),
  );
  const { tools } = await log.counted((it) => toolUsage(it, { hours: 24, limits }));
  const [{ p50Ms = 0, p99Ms = 0 } = {}] = tools;
  expect(Math.abs(p50Ms - 500) / 500).toBeLessThan(0.06);
  expect(Math.abs(p99Ms - 990) / 990).toBeLessThan(0.06);
});

test('names that callers make up, and tools beyond metricToolsMax, are counted together', async () => {
  using folder = new LogFolder();
  const log = recordOf(folder, [
    [1, { tool: 'a' }],
    [1, { tool: 'b' }],
    ...Array.from({ length: 50 }, (_, i) => [2, { tool: `no_${i}`, kind: 'refusal', code: 'TOOL_NOT_FOUND' }] as const),
    [3, { tool: 'c' }],
    [3, { tool: 'd' }],
  ]);
  const { tools } = await log.counted((it) => toolUsage(it, { hours: 24, limits }));
  expect(tools.map(({ tool, calls }) => [tool, calls])).toEqual([
    ['unknown', 50],
    ['other', 2],
    ['d', 1],
    ['c', 1],
  ]);
});

test('no more than toolStatsEntriesMax entries are counted, which the answer says', async () => {
  using folder = new LogFolder();
  const log = recordOf(
    folder,
    Array.from({ length: 5000 }, () => [1, {}] as const),
  );
  const counted = (toolStatsEntriesMax: number) =>
    log.counted((it) => toolUsage(it, { hours: 24, limits: { ...limits, toolStatsEntriesMax } }));
  expect(await counted(3000)).toMatchObject({ cut: true, tools: [{ calls: 3000 }] });
  const whole = await counted(5000);
  expect(whole.tools[0]?.calls).toBe(5000);
  expect(whole.cut).toBeUndefined();
});
