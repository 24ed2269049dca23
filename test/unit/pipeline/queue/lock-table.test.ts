import fc from 'fast-check';
import { expect, test } from 'vitest';
import { type LockRequest, LockTable } from '../../../../src/pipeline/queue/lock-table.ts';

const endless = new AbortController().signal;
const wanted = (owner: string, reads: string[], writes: string[]): LockRequest => ({ owner, reads, writes });
const turn = () => new Promise<void>((resolve) => setImmediate(resolve));

/** Whether the second must wait while the first holds its locks. */
async function waits(first: LockRequest, second: LockRequest): Promise<boolean> {
  const table = new LockTable();
  const release = await table.acquire(first, endless);
  let hasBegun = false;
  const then = table.acquire(second, endless).then((it) => {
    hasBegun = true;
    it();
  });
  await turn();
  const waited = !hasBegun;
  release();
  await then;
  return waited;
}

test.each([
  ['a write of the same file', wanted('a', [], ['x']), wanted('b', [], ['x']), true],
  ['a write below a written folder', wanted('a', [], ['src']), wanted('b', [], ['src/x/y']), true],
  ['a write of a folder that a written file is in', wanted('a', [], ['src/x']), wanted('b', [], ['src']), true],
  ['a write of everything', wanted('a', [], ['src/x']), wanted('b', [], ['']), true],
  ['a read of what its own session writes', wanted('a', [], ['src']), wanted('a', ['src/x'], []), true],
  ['a write of what its own session reads', wanted('a', ['src'], []), wanted('a', [], ['src/x']), true],
])('%s waits', async (_, first, second, expected) => {
  expect(await waits(first, second)).toBe(expected);
});

test.each([
  ['another read', wanted('a', ['x'], []), wanted('a', ['x'], [])],
  ['a write elsewhere', wanted('a', [], ['src/a']), wanted('a', [], ['src/ab'])],
  ['a read of what another session writes', wanted('a', [], ['x']), wanted('b', ['x'], [])],
  ['a write of what another session reads', wanted('a', ['x'], []), wanted('b', [], ['x'])],
])('%s does not wait', async (_, first, second) => {
  expect(await waits(first, second)).toBe(false);
});

test('a later call does not overtake one that waits for the same lock', async () => {
  const table = new LockTable();
  const order: string[] = [];
  const take = async (name: string, it: LockRequest) => {
    const release = await table.acquire(it, endless);
    order.push(name);
    await turn();
    release();
  };
  const first = await table.acquire(wanted('a', ['x'], []), endless);
  const all = [
    take('write', wanted('a', [], ['x'])),
    take('read', wanted('a', ['x'], [])),
    take('beside', wanted('a', ['y'], [])),
  ];
  await turn();
  expect(order).toEqual(['beside']);
  first();
  await Promise.all(all);
  expect(order).toEqual(['beside', 'write', 'read']);
});

test('a call that gives up lets the calls behind it go on', async () => {
  const table = new LockTable();
  const stop = new AbortController();
  const release = await table.acquire(wanted('a', ['x'], []), endless);
  const writer = table.acquire(wanted('a', [], ['x']), stop.signal);
  const reader = table.acquire(wanted('a', ['x'], []), endless);
  stop.abort(new Error('enough'));
  await expect(writer).rejects.toThrow('enough');
  (await reader)();
  release();
  expect(table.waiting).toBe(0);
});

test('any calls, whenever they end, all get their turn, and leave the files as one after the other would', async () => {
  const path = fc.constantFrom('', 'a', 'a/b', 'a/b/c', 'a/d', 'e');
  const job = fc.record({
    owner: fc.constantFrom('s', 't'),
    reads: fc.array(path, { maxLength: 2 }),
    writes: fc.array(path, { maxLength: 2 }),
  });
  await fc.assert(
    fc.asyncProperty(
      fc.array(job, { minLength: 1, maxLength: 20 }),
      fc.infiniteStream(fc.nat(3)),
      async (jobs, turns) => {
        const table = new LockTable();
        // The order of writes at each path: the order of arrival wherever two writes meet.
        const tree = new Map<string, number[]>();
        const under = (one: string, other: string) => other === '' || one === other || one.startsWith(`${other}/`);
        const working = new Set<LockRequest>();
        await Promise.all(
          jobs.map(async (it, at) => {
            const release = await table.acquire(it, endless);
            for (const other of working) {
              const meets = (a: readonly string[], b: readonly string[]) =>
                a.some((x) => b.some((y) => under(x, y) || under(y, x)));
              expect(meets(it.writes, other.writes)).toBe(false);
              if (it.owner === other.owner)
                expect(meets(it.writes, other.reads) || meets(it.reads, other.writes)).toBe(false);
            }
            working.add(it);
            for (let n = turns.next().value as number; n > 0; n--) await turn();
            for (const write of it.writes)
              for (const file of ['a', 'a/b', 'a/b/c', 'a/d', 'e'])
                if (under(file, write)) tree.set(file, [...(tree.get(file) ?? []), at]);
            working.delete(it);
            release();
          }),
        );
        for (const [, writers] of tree) expect(writers).toEqual([...writers].sort((a, b) => a - b));
        expect(table.waiting).toBe(0);
      },
    ),
    { numRuns: 200 },
  );
});

test('a thousand who give up at once cost one look at those who wait', async () => {
  const table = new LockTable();
  const stop = new AbortController();
  const release = await table.acquire(wanted('a', [], ['x']), endless);
  const all = Array.from({ length: 1000 }, (_, at) => {
    const paths = Array.from({ length: 20 }, (__, nth) => `deep/er/${at}/${nth}`);
    return table.acquire(wanted('a', [], ['x', ...paths]), stop.signal).catch(() => 'left');
  });
  const startedAt = performance.now();
  stop.abort(new Error('enough'));
  expect(await Promise.all(all)).toEqual(all.map(() => 'left'));
  // A separate check for each would take seconds.
  expect(performance.now() - startedAt).toBeLessThan(500);
  release();
  expect(table.waiting).toBe(0);
});
