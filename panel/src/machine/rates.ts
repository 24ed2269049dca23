/** Rates and percentiles from counters that only grow: what happened between two readings of the daemon's metrics. */
import type { Answer } from '../messages.ts';

export type Families = Extract<Answer<'metrics.read'>, { families: unknown }>['families'];

/** One reading of the metrics, as far as it is plotted. */
export interface Reading {
  /** Milliseconds since the epoch. */
  readonly atMs: number;
  readonly calls: number;
  /** Counts of ended calls by the upper bound of their duration in seconds; each includes those below. */
  readonly buckets: ReadonlyMap<number, number>;
  readonly gatewayBytes: number;
  readonly hostBytes: number;
}

type Sample = Families[number]['samples'][number];

export function readingOf(families: Families, atMs: number): Reading {
  const samples = (name: string): readonly Sample[] => families.find((it) => it.name === name)?.samples ?? [];
  const sum = (name: string): number => samples(name).reduce((total, { value }) => total + value, 0);
  const buckets = new Map<number, number>();
  for (const { suffix, labels, value } of samples('ringfence_call_duration_seconds')) {
    if (suffix !== '_bucket' || labels?.le === undefined) continue;
    const bound = labels.le === '+Inf' ? Infinity : Number(labels.le);
    buckets.set(bound, (buckets.get(bound) ?? 0) + value);
  }
  return {
    atMs,
    calls: sum('ringfence_calls_total'),
    buckets,
    gatewayBytes: sum('process_resident_memory_bytes'),
    hostBytes: sum('ringfence_host_memory_bytes') + sum('ringfence_host_children_memory_bytes'),
  };
}

/** Calls a second between two readings; undefined if the daemon was started again meanwhile. */
export function callsPerSecond(before: Reading, now: Reading): number | undefined {
  const seconds = (now.atMs - before.atMs) / 1000;
  return now.calls < before.calls || seconds <= 0 ? undefined : (now.calls - before.calls) / seconds;
}

/**
 * The duration in milliseconds that a share of the calls between two readings did not exceed, as near as the buckets tell;
 * undefined without calls.
 */
export function percentileMs(before: Reading, now: Reading, share: number): number | undefined {
  const bounds = [...now.buckets.keys()].sort((a, b) => a - b);
  const countAt = (bound: number) => (now.buckets.get(bound) ?? 0) - (before.buckets.get(bound) ?? 0);
  const total = countAt(Infinity);
  if (!(total > 0)) return undefined;
  const wanted = total * share;
  let [low, below] = [0, 0];
  for (const bound of bounds) {
    const count = countAt(bound);
    // Calls beyond the last bound are counted without their times.
    if (count >= wanted && bound === Infinity) return low * 1000;
    if (count >= wanted) return (low + (bound - low) * ((wanted - below) / (count - below))) * 1000;
    [low, below] = [bound, count];
  }
  return undefined;
}
