/** The critical path of a graph of calls: what a longer call costs the whole, and what it does not. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { criticalPathOf } from '../../../../src/pipeline/batch/critical-path.ts';

test('the longest chain decides, and every other call has slack', () => {
  const before: Record<string, string[]> = { a: [], b: ['a'], c: ['a'], d: ['b', 'c'], e: [] };
  const durations: Record<string, number> = { a: 10, b: 100, c: 30, d: 5, e: 1 };
  const found = criticalPathOf(
    Object.keys(before),
    (id) => before[id] as string[],
    (id) => durations[id] as number,
  );
  expect(found).toEqual({
    criticalPath: ['a', 'b', 'd'],
    totalMs: 115,
    slackMs: new Map([
      ['a', 0],
      ['b', 0],
      ['c', 70],
      ['d', 0],
      ['e', 114],
    ]),
  });
});

test('no calls have no path', () => {
  expect(criticalPathOf([], () => [], Number)).toEqual({ criticalPath: [], totalMs: 0, slackMs: new Map() });
});

test('a call in any graph may take its slack longer at no cost, and a millisecond more costs one', () => {
  const graph = fc.array(fc.record({ before: fc.array(fc.nat(20), { maxLength: 4 }), ms: fc.nat(50) }), {
    minLength: 1,
    maxLength: 20,
  });
  fc.assert(
    fc.property(graph, fc.nat(), (nodes, pick) => {
      const order = nodes.map((_, at) => String(at));
      const before = (id: string) => (nodes[Number(id)]?.before ?? []).filter((it) => it < Number(id)).map(String);
      const longer = (which: string, by: number) =>
        criticalPathOf(order, before, (id) => (nodes[Number(id)]?.ms ?? 0) + (id === which ? by : 0)).totalMs;
      const { criticalPath, slackMs, totalMs } = criticalPathOf(order, before, (id) => nodes[Number(id)]?.ms ?? 0);
      expect(criticalPath.reduce((sum, id) => sum + (nodes[Number(id)]?.ms ?? 0), 0)).toBe(totalMs);
      for (const id of criticalPath) expect(slackMs.get(id)).toBe(0);
      const id = String(pick % nodes.length);
      expect(longer(id, slackMs.get(id) as number)).toBe(totalMs);
      expect(longer(id, (slackMs.get(id) as number) + 1)).toBe(totalMs + 1);
    }),
  );
});
