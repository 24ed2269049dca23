/** Places the calls of a batch in columns by level, each near those that it waits for, and lines around the calls between. */

export interface GraphCall {
  readonly id: string;
  readonly level: number;
  readonly dependsOn: readonly string[];
}

export interface Place {
  readonly column: number;
  readonly row: number;
}

export interface Edge {
  readonly from: string;
  readonly to: string;
  /** Free places in the columns between, in order. */
  readonly via: readonly Place[];
}

export interface Layout {
  /** Column and row of each call. */
  readonly at: ReadonlyMap<string, Place>;
  readonly columns: number;
  readonly rows: number;
  readonly edges: readonly Edge[];
}

/** Most free places for lines; with more, lines go behind calls. */
const VIA_MAX = 200;

interface Item {
  readonly key: string;
  /** Keys of the items in columns before that it should be near to. */
  readonly near: readonly string[];
}

/** The key of the place through which lines from a call go in a column; an id has no spaces. */
const viaKey = (from: string, column: number): string => `${from} ${column}`;

/** Calls that are not among `calls` are left out of the edges. */
export function layOut(calls: readonly GraphCall[]): Layout {
  const levels = [...new Set(calls.map(({ level }) => level))].sort((a, b) => a - b);
  const columnOf = new Map(calls.map(({ id, level }) => [id, levels.indexOf(level)]));
  const pairs = calls.flatMap(({ id, dependsOn }) =>
    dependsOn.filter((it) => columnOf.has(it)).map((from) => ({ from, to: id })),
  );
  const items: Item[][] = levels.map(() => []);
  for (const { id, dependsOn } of calls) {
    const column = columnOf.get(id) as number;
    const near = dependsOn.map((it) => (columnOf.get(it) === column - 1 ? it : viaKey(it, column - 1)));
    items[column]?.push({ key: id, near });
  }
  const through = freePlaces(pairs, columnOf);
  for (const [key, { from, column }] of through.size > VIA_MAX ? [] : through)
    items[column]?.push({ key, near: [column - 1 === columnOf.get(from) ? from : viaKey(from, column - 1)] });
  const placed = place(items);
  const edges = pairs.map(({ from, to }): Edge => {
    const between = columnsBetween(columnOf.get(from) as number, columnOf.get(to) as number);
    return { from, to, via: between.flatMap((column) => placed.get(viaKey(from, column)) ?? []) };
  });
  const at = new Map(calls.map(({ id }) => [id, placed.get(id) as Place]));
  return { at, columns: levels.length, rows: Math.max(0, ...items.map((it) => it.length)), edges };
}

const columnsBetween = (from: number, to: number): number[] =>
  Array.from({ length: Math.max(0, to - from - 1) }, (_, at) => from + 1 + at);

/** The places that lines need in the columns between their ends; lines from one call share theirs. */
function freePlaces(
  pairs: readonly { readonly from: string; readonly to: string }[],
  columnOf: ReadonlyMap<string, number>,
): Map<string, { from: string; column: number }> {
  const found = new Map<string, { from: string; column: number }>();
  for (const { from, to } of pairs)
    for (const column of columnsBetween(columnOf.get(from) as number, columnOf.get(to) as number)) {
      found.set(viaKey(from, column), { from, column });
      if (found.size > VIA_MAX) return found;
    }
  return found;
}

/** Gives each item of a column the row nearest to what stands before it. */
function place(items: readonly (readonly Item[])[]): Map<string, Place> {
  const placed = new Map<string, Place>();
  for (const [column, all] of items.entries()) {
    const ranked = all.map(({ key, near }, order) => {
      const rows = near.flatMap((it) => placed.get(it)?.row ?? []);
      return { key, mean: rows.length === 0 ? order : rows.reduce((sum, it) => sum + it, 0) / rows.length };
    });
    ranked.sort((a, b) => a.mean - b.mean);
    for (const [row, { key }] of ranked.entries()) placed.set(key, { column, row });
  }
  return placed;
}
