/** How tools were used over time, counted from the record in slices that never block the event loop for long. */
import type * as z from 'zod';
import type { Read } from '../../base/result-shapes.ts';
import { TimeSlices } from '../time-slices.ts';
import { assertOpen, type CountedRecord } from './daily.ts';
import type * as shapes from './shapes.ts';

export type Usage = Read<z.output<typeof shapes.toolUsage>>;
export type ToolUsage = Usage['tools'][number];
export type UsageCounts = Omit<ToolUsage['overTime'][number], 'at'>;

export interface UsageRequest {
  /** How far back calls are counted. */
  readonly hours: number;
  /** Only this tool. */
  readonly tool?: string | undefined;
  readonly limits: { readonly metricToolsMax: number; readonly toolStatsEntriesMax: number };
}

/** Number of periods that the time is divided into. */
const PERIODS = 24;
const HOUR_MS = 3_600_000;
/** Most entries that one statement reads, which takes a few milliseconds. */
const SLICE = 2048;
/** Each bucket of durations ends at this many times the end of the one before. */
const GROWTH = 1.1;
/** Stands for names that no session has: callers can write any. */
const UNKNOWN = 'unknown';
/** Stands for further tools once `metricToolsMax` are told apart. */
const OTHER = 'other';

interface Row {
  readonly at: string;
  readonly tool: string;
  readonly kind: 'outcome' | 'refusal';
  readonly code: string | null;
  readonly durationMs: number | null;
  readonly cached: number | null;
  readonly usd: number | null;
}

const READ = `SELECT at, tool, kind, code, durationMs, detail ->> '$.cached' AS cached, detail ->> '$.costUsd' AS usd
  FROM audit WHERE seq BETWEEN ? AND ? AND kind IN ('outcome', 'refusal') AND tool IS NOT NULL ORDER BY seq DESC`;

/** Counts calls by tool and period. Rejects with SHUTTING_DOWN. */
export async function toolUsage(record: CountedRecord, { hours, tool, limits }: UsageRequest): Promise<Usage> {
  assertOpen(record);
  const { database, extent, powers } = record;
  const statement = database.prepare(READ);
  const periodMs = (hours * HOUR_MS) / PERIODS;
  const sinceMs = powers.now() - hours * HOUR_MS;
  const since = new Date(sinceMs).toISOString();
  const tools = new Map<string, CountedTool>();
  const slices = new TimeSlices(powers);
  const first = Math.max(extent.first, extent.last - limits.toolStatsEntriesMax + 1);
  let isWhole = first === extent.first;
  for (let to = extent.last; to >= first; to -= SLICE) {
    const rows = statement.all(Math.max(first, to - SLICE + 1), to) as unknown as Row[];
    for (const row of rows) {
      if (row.at < since) continue;
      const name = row.code === 'TOOL_NOT_FOUND' ? UNKNOWN : row.tool;
      if (tool !== undefined && name !== tool) continue;
      const key = tools.has(name) || tools.size < limits.metricToolsMax ? name : OTHER;
      const counted = tools.get(key) ?? new CountedTool(row.at);
      tools.set(key, counted);
      counted.add(row, Math.floor((Date.parse(row.at) - sinceMs) / periodMs));
    }
    // Entries are in the order of their times.
    if (rows.some(({ at }) => at < since)) {
      isWhole = true;
      break;
    }
    await slices.pause();
    assertOpen(record);
  }
  const toTime = (period: number) => new Date(sinceMs + period * periodMs).toISOString();
  const sorted = [...tools].map(([name, it]) => it.toUsage(name, toTime)).sort((a, b) => b.calls - a.calls);
  return { since, periodMs, tools: sorted, ...(!isWhole && { cut: true }) };
}

/** The calls of one tool. Rows come newest first. */
class CountedTool {
  readonly #lastAt: string;
  readonly #all = new Counted();
  readonly #periods = new Map<number, Counted>();

  constructor(lastAt: string) {
    this.#lastAt = lastAt;
  }

  add(row: Row, period: number): void {
    const counted = this.#periods.get(period) ?? new Counted();
    this.#periods.set(period, counted);
    for (const it of [this.#all, counted]) it.add(row);
  }

  toUsage(tool: string, toTime: (period: number) => string): ToolUsage {
    const periods = [...this.#periods].sort(([a], [b]) => a - b);
    const overTime = periods.map(([period, it]) => ({ at: toTime(period), ...it.toCounts() }));
    return { tool, ...this.#all.toCounts(), lastAt: this.#lastAt, overTime };
  }
}

class Counted {
  #calls = 0;
  #failed = 0;
  #refused = 0;
  #cacheHits = 0;
  #usd = 0;
  #ran = 0;
  /** Calls that ran, by the bucket of their duration: about 200 buckets from a microsecond to a day. */
  readonly #durations = new Map<number, number>();

  add({ kind, code, durationMs, cached, usd }: Row): void {
    this.#calls += 1;
    this.#usd += usd ?? 0;
    if (kind === 'refusal') {
      this.#refused += 1;
      return;
    }
    if (code !== null) this.#failed += 1;
    if (cached !== null) this.#cacheHits += 1;
    this.#ran += 1;
    const bucket = Math.round(Math.log(Math.max(durationMs ?? 0, 0.001)) / Math.log(GROWTH));
    this.#durations.set(bucket, (this.#durations.get(bucket) ?? 0) + 1);
  }

  toCounts(): UsageCounts {
    const [calls, failed, refused, cacheHits] = [this.#calls, this.#failed, this.#refused, this.#cacheHits];
    const usd = Math.round(this.#usd * 1e6) / 1e6;
    const counts = { calls, failed, refused, cacheHits, usd };
    return this.#ran === 0 ? counts : { ...counts, p50Ms: this.#quantile(0.5), p99Ms: this.#quantile(0.99) };
  }

  #quantile(share: number): number {
    let left = Math.ceil(share * this.#ran);
    for (const [bucket, count] of [...this.#durations].sort(([a], [b]) => a - b)) {
      left -= count;
      if (left <= 0) return Number((GROWTH ** bucket).toPrecision(3));
    }
    return 0;
  }
}
