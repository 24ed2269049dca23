/** Estimates a batch before it runs: its levels, its critical path, and its duration from how long past calls took. */
import type { BatchCall, BatchEstimate } from '../../call.ts';
import type { BatchPlan } from './plan.ts';

/** `pastMs` gives the usual duration of a tool in milliseconds; a tool without a past counts as the mean of the others. */
export function estimateBatch(
  calls: readonly BatchCall[],
  { needs, follows, levels }: BatchPlan,
  pastMs: (tool: string) => number | undefined,
): BatchEstimate {
  const past = new Map(calls.map(({ id, tool }) => [id, pastMs(tool)]));
  const known = [...past.values()].filter((it) => it !== undefined);
  const mean = known.length === 0 ? 1 : known.reduce((sum, it) => sum + it, 0) / known.length;
  const before = (id: string) => [...new Set([...(needs.get(id) ?? []), ...(follows.get(id) ?? [])])];
  const ends = new Map<string, { readonly ms: number; readonly after: string | undefined }>();
  for (const id of levels.flat()) {
    const latest = before(id).reduce<string | undefined>(
      (max, it) => (max === undefined || (ends.get(it)?.ms ?? 0) > (ends.get(max)?.ms ?? 0) ? it : max),
      undefined,
    );
    const startMs = latest === undefined ? 0 : (ends.get(latest)?.ms ?? 0);
    ends.set(id, { ms: startMs + (past.get(id) ?? mean), after: latest });
  }
  const last = [...ends].reduce((max, it) => (it[1].ms > max[1].ms ? it : max));
  const criticalPath: string[] = [];
  for (let at: string | undefined = last[0]; at !== undefined; at = ends.get(at)?.after) criticalPath.unshift(at);
  const levelOf = new Map(levels.flatMap((level, at) => level.map((id) => [id, at] as const)));
  return {
    levels,
    maxParallelism: Math.max(...levels.map((it) => it.length)),
    criticalPath,
    ...(known.length > 0 && {
      estimatedMs: Math.round(last[1].ms),
      sequentialMs: Math.round([...past.values()].reduce<number>((sum, it) => sum + (it ?? mean), 0)),
    }),
    calls: calls.map(({ id, tool }) => {
      const ms = past.get(id);
      return {
        id,
        tool,
        level: levelOf.get(id) as number,
        dependsOn: before(id),
        ...(ms !== undefined && { estimatedMs: Math.round(ms) }),
      };
    }),
  };
}
