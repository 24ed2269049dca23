/** The part of a graph that was asked for, within the bounds of an answer. */
import { ToolError } from '../../../src/base/errors.ts';
import type { Limits } from '../../../src/base/limits.ts';
import type { GraphEdge, GraphQuery, ImportGraphAnswer } from '../../../src/tools/source/source-code.ts';
import { circlesOf } from './circles.ts';
import { type ImportGraph, plainPath } from './import-graph.ts';
import { unusedIn } from './unused.ts';

export function viewOf(
  graph: ImportGraph,
  query: GraphQuery,
  { graphEntriesMax: max }: Limits,
): Omit<ImportGraphAnswer, 'skipped'> {
  const all = [...graph.edges.values()].flat();
  const counted = new Map(
    [...graph.edges].map(([from, edges]) => [
      from,
      edges.filter((it) => query.types || !it.typeOnly).map((it) => it.to),
    ]),
  );
  const cycles = circlesOf(counted, max);
  const { unresolved, external } = outsideOf(graph);
  const unused = query.show === 'unused' ? unusedIn(graph) : { unusedFiles: [], unusedExports: [] };
  const { nodes, edges } = partOf(graph, query, all, cycles);
  const lists = { nodes, edges, cycles, unresolved, external, ...unused };
  return {
    nodes: nodes.slice(0, max),
    edges: edges.slice(0, max),
    cycles,
    unresolved: unresolved.slice(0, max),
    external: external.slice(0, max),
    unusedFiles: unused.unusedFiles.slice(0, max),
    unusedExports: unused.unusedExports.slice(0, max),
    totals: {
      files: graph.tables.size,
      edges: all.length,
      cycles: cycles.length,
      unresolved: unresolved.length,
      external: external.length,
    },
    truncated: Object.values(lists).some((it) => it.length > max) || cycles.length === max,
  };
}

function outsideOf({ tables, resolutions }: ImportGraph): Pick<ImportGraphAnswer, 'unresolved' | 'external'> {
  const unresolved: ImportGraphAnswer['unresolved'] = [];
  const external = new Set<string>();
  for (const [file, { imports }] of tables)
    for (const [at, { module, line }] of imports.entries()) {
      const it = resolutions.get(file)?.[at];
      if (it && 'external' in it) external.add(it.external);
      if (it && 'unresolved' in it) unresolved.push({ file, line, module, reason: it.unresolved });
    }
  return { unresolved, external: [...external].sort() };
}

/** The files and edges of a view: those on circles, those within some steps of a file, or all. */
function partOf(
  graph: ImportGraph,
  { show, file, depth }: GraphQuery,
  all: readonly GraphEdge[],
  cycles: readonly string[][],
): { nodes: string[]; edges: GraphEdge[] } {
  if (show === 'summary') return mostImported(graph, all);
  if (show === 'unused') return { nodes: [], edges: [] };
  const within = (nodes: ReadonlySet<string>) => all.filter((it) => nodes.has(it.from) && nodes.has(it.to));
  if (show === 'cycles') {
    const nodes = new Set(cycles.flat());
    return { nodes: [...nodes].sort(), edges: within(nodes) };
  }
  if (file === undefined) {
    if (show === 'imports') return { nodes: [...graph.tables.keys()], edges: [...all] };
    throw new ToolError('INPUT_INVALID', '`show: importers` needs `file`: whose importers are meant');
  }
  const start = plainPath(file);
  if (!graph.tables.has(start))
    throw new ToolError('INPUT_INVALID', `\`${file}\` is no source of this graph`, {
      suggestion: 'Give a source file below `path`, relative to the workspace; files that git ignores are left out.',
    });
  const next = new Map<string, GraphEdge[]>();
  for (const it of all) {
    const key = show === 'imports' ? it.from : it.to;
    const known = next.get(key);
    if (known) known.push(it);
    else next.set(key, [it]);
  }
  const steps = new Map([[start, 0]]);
  const edges: GraphEdge[] = [];
  for (const [node, step] of steps) {
    if (step >= depth) continue;
    for (const it of next.get(node) ?? []) {
      const other = show === 'imports' ? it.to : it.from;
      edges.push(it);
      if (!steps.has(other)) steps.set(other, step + 1);
    }
  }
  return { nodes: [...steps.keys()], edges };
}

/** The files that most others import, and what goes between them. */
function mostImported({ tables }: ImportGraph, all: readonly GraphEdge[]): { nodes: string[]; edges: GraphEdge[] } {
  const counts = new Map([...tables.keys()].map((it) => [it, 0]));
  for (const { to } of all) counts.set(to, (counts.get(to) ?? 0) + 1);
  const first = [...counts].sort(([a, m], [b, n]) => n - m || (a < b ? -1 : 1)).slice(0, SUMMARY_NODES);
  const nodes = new Set(first.map(([it]) => it));
  return { nodes: [...nodes], edges: all.filter((it) => nodes.has(it.from) && nodes.has(it.to)) };
}

const SUMMARY_NODES = 20;
