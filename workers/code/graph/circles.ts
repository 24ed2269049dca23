/** Circles in a graph; without recursion, since a chain of files may be as long as it likes. */

type Graph = ReadonlyMap<string, readonly string[]>;

/** The strongly connected components with a circle in them (Tarjan), each sorted; sorted by their first node. */
export function componentsOf(graph: Graph): string[][] {
  const index = new Map<string, number>();
  const low = new Map<string, number>();
  const stack: string[] = [];
  const onStack = new Set<string>();
  const found: string[][] = [];
  for (const root of graph.keys()) {
    if (index.has(root)) continue;
    const work: { node: string; next: number }[] = [];
    const enter = (node: string) => {
      index.set(node, index.size);
      low.set(node, index.size - 1);
      stack.push(node);
      onStack.add(node);
      work.push({ node, next: 0 });
    };
    const lower = (node: string, value: number) => low.set(node, Math.min(low.get(node) as number, value));
    enter(root);
    for (let top = work.at(-1); top; top = work.at(-1)) {
      const { node } = top;
      const target = (graph.get(node) ?? [])[top.next];
      top.next += 1;
      if (target !== undefined) {
        if (!index.has(target)) enter(target);
        else if (onStack.has(target)) lower(node, index.get(target) as number);
        continue;
      }
      work.pop();
      const above = work.at(-1);
      if (above) lower(above.node, low.get(node) as number);
      if (low.get(node) !== index.get(node)) continue;
      const component = stack.splice(stack.lastIndexOf(node));
      for (const it of component) onStack.delete(it);
      if (component.length > 1 || graph.get(node)?.includes(node)) found.push(component.sort());
    }
  }
  return found.sort(([a = ''], [b = '']) => (a < b ? -1 : 1));
}

/** Circles, each as short as it can be for its first node; together they hold every node that is in any circle. */
export function circlesOf(graph: Graph, circlesMax: number): string[][] {
  const circles: string[][] = [];
  for (const component of componentsOf(graph)) {
    const inside = new Set(component);
    const covered = new Set<string>();
    for (const node of component) {
      if (covered.has(node)) continue;
      if (circles.length >= circlesMax) return circles;
      const circle = shortestCircle(node, graph, inside);
      for (const it of circle) covered.add(it);
      circles.push(circle);
    }
  }
  return circles;
}

/** A shortest way from a node back to itself within its component, in which there is one. */
function shortestCircle(node: string, graph: Graph, inside: ReadonlySet<string>): string[] {
  const from = new Map<string, string>();
  const queue = [node];
  for (const at of queue) {
    for (const it of graph.get(at) ?? []) {
      if (it === node) {
        const way = [at];
        for (let step = at; step !== node; ) {
          step = from.get(step) as string;
          way.push(step);
        }
        return way.reverse();
      }
      if (!inside.has(it) || from.has(it)) continue;
      from.set(it, at);
      queue.push(it);
    }
  }
  return [node];
}
