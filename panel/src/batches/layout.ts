/** Places the calls of a batch in columns by level, each near those that it waits for. */

export interface GraphCall {
  readonly id: string;
  readonly level: number;
  readonly dependsOn: readonly string[];
}

export interface Layout {
  /** Column and row of each call. */
  readonly at: ReadonlyMap<string, { readonly column: number; readonly row: number }>;
  readonly columns: number;
  readonly rows: number;
  /** From a call to one that waits for it. */
  readonly edges: readonly (readonly [from: string, to: string])[];
}

/** Calls that are not among `calls` are left out of the edges. */
export function layOut(calls: readonly GraphCall[]): Layout {
  const at = new Map<string, { column: number; row: number }>();
  const byLevel = Map.groupBy(calls, ({ level }) => level);
  const levels = [...byLevel.keys()].sort((a, b) => a - b);
  let rows = 0;
  for (const [column, level] of levels.entries()) {
    const near = (byLevel.get(level) as GraphCall[]).map((call, order) => {
      const parents = call.dependsOn.flatMap((it) => at.get(it)?.row ?? []);
      const mean = parents.length === 0 ? order : parents.reduce((sum, it) => sum + it, 0) / parents.length;
      return { id: call.id, mean };
    });
    near.sort((a, b) => a.mean - b.mean);
    for (const [row, { id }] of near.entries()) at.set(id, { column, row });
    rows = Math.max(rows, near.length);
  }
  const edges = calls.flatMap(({ id, dependsOn }) =>
    dependsOn.filter((it) => at.has(it)).map((it) => [it, id] as const),
  );
  return { at, columns: levels.length, rows, edges };
}
