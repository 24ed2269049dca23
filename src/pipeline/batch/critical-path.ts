/** The chain of dependent calls that decides how long a batch takes, and how much later every other call could end. */

export interface CriticalPath {
  /** The chain with the longest total time, first to last; only making one of these faster makes the batch faster. */
  readonly criticalPath: readonly string[];
  /** Maps a call id to the milliseconds by which the call could end later without the batch ending later. */
  readonly slackMs: ReadonlyMap<string, number>;
  readonly totalMs: number;
}

/**
 * `order` has each call after those that it waits for, which `before` gives. `durationMs` counts from the moment when
 * all of those have ended.
 */
export function criticalPathOf(
  order: readonly string[],
  before: (id: string) => Iterable<string>,
  durationMs: (id: string) => number,
): CriticalPath {
  const ends = new Map<string, { readonly ms: number; readonly after: string | undefined }>();
  let last: string | undefined;
  for (const id of order) {
    let [startMs, after] = [0, undefined as string | undefined];
    for (const other of before(id)) {
      const { ms } = ends.get(other) as { ms: number };
      if (after === undefined || ms > startMs) [startMs, after] = [ms, other];
    }
    const ms = startMs + durationMs(id);
    ends.set(id, { ms, after });
    if (last === undefined || ms > (ends.get(last)?.ms ?? 0)) last = id;
  }
  const totalMs = last === undefined ? 0 : (ends.get(last)?.ms ?? 0);
  const criticalPath: string[] = [];
  for (let at = last; at !== undefined; at = ends.get(at)?.after) criticalPath.unshift(at);
  return { criticalPath, totalMs, slackMs: slackOf(order, before, { ends, durationMs, totalMs }) };
}

interface Timing {
  readonly ends: ReadonlyMap<string, { readonly ms: number }>;
  readonly totalMs: number;
  durationMs(id: string): number;
}

function slackOf(
  order: readonly string[],
  before: (id: string) => Iterable<string>,
  { ends, durationMs, totalMs }: Timing,
): Map<string, number> {
  const latest = new Map(order.map((id) => [id, totalMs]));
  for (const id of order.toReversed()) {
    const startMs = (latest.get(id) as number) - durationMs(id);
    for (const other of before(id)) latest.set(other, Math.min(latest.get(other) as number, startMs));
  }
  return new Map(order.map((id) => [id, Math.max(0, (latest.get(id) as number) - (ends.get(id)?.ms ?? 0))]));
}
