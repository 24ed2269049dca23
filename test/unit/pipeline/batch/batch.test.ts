import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { BatchCall, ToolResult } from '../../../../src/base/call.ts';
import { ToolError } from '../../../../src/base/errors.ts';
import { defaultLimits } from '../../../../src/base/limits.ts';
import { silentLog, systemPowers } from '../../../../src/base/powers.ts';
import { type BatchParts, runBatch } from '../../../../src/pipeline/batch/batch.ts';
import { estimateBatch, UsualDurations } from '../../../../src/pipeline/batch/estimate.ts';
import { planBatch } from '../../../../src/pipeline/batch/plan.ts';
import { BatchTimeline } from '../../../../src/pipeline/batch/timeline.ts';

const plain = { followsOf: () => [], canonical: (tool: string) => tool };
const codeOf = (calls: BatchCall[]) => {
  try {
    planBatch(calls, plain);
  } catch (error) {
    return `${(error as ToolError).code}: ${(error as ToolError).message}`;
  }
  return undefined;
};
const call = (id: string, dependsOn: string[] = [], input: unknown = {}): BatchCall => ({
  id,
  tool: 'file_read',
  input,
  dependsOn,
});

describe('a plan', () => {
  test('a plan has the levels of the longest way', () => {
    const { levels } = planBatch(
      [call('d', ['b', 'c']), call('c', ['a']), call('b', ['a']), call('a'), call('e')],
      plain,
    );
    expect(levels).toEqual([['a', 'e'], ['c', 'b'], ['d']]);
  });

  test.each([
    ['an id used twice', [call('a'), call('a')], 'INPUT_INVALID: two calls have the id `a`'],
    ['itself', [call('a', ['a'])], 'INPUT_INVALID: call `a` depends on itself'],
    ['a reference to itself', [call('a', [], '${a.data.x}')], 'INPUT_INVALID: call `a` refers to itself'],
    ['an unknown id', [call('a', ['z'])], 'INPUT_INVALID: call `a` depends on `z`, which is no call of this batch'],
  ])('refuses %s', (_, calls, message) => {
    expect(codeOf(calls)).toBe(message);
  });

  test('names the calls of a cycle in its order', () => {
    const calls = [call('x', ['a']), call('a', ['c']), call('b', [], { path: '${a.data.x}' }), call('c', ['b'])];
    expect(codeOf(calls)).toBe('DEPENDENCY_CYCLE: these calls wait for each other: a → c → b → a');
  });

  test('takes a chain of a thousand calls without recursion', () => {
    const calls = Array.from({ length: 1000 }, (_, at) => call(`c${at}`, at === 999 ? [] : [`c${at + 1}`]));
    expect(planBatch(calls, plain).levels.length).toBe(1000);
  });

  test('orders a call after those that its tool usually follows, never into a cycle', () => {
    const edit = (id: string, dependsOn: string[] = []) => ({ ...call(id, dependsOn), tool: 'file_edit' });
    const parts = { ...plain, followsOf: (tool: string) => (tool === 'file_edit' ? ['file_read'] : []) };
    const { follows } = planBatch([call('r', ['e']), call('s'), edit('e'), edit('f')], parts);
    expect(follows).toEqual(
      new Map([
        ['e', new Set(['s'])],
        ['f', new Set(['s'])],
      ]),
    );
  });

  test('estimates the way that takes longest', () => {
    const calls = [call('a'), { ...call('b', ['a']), tool: 'slow' }, call('c', ['a']), call('d', ['b', 'c'])];
    const past = (tool: string) => (tool === 'slow' ? 100 : 10);
    expect(estimateBatch(calls, planBatch(calls, plain), past)).toMatchObject({
      criticalPath: ['a', 'b', 'd'],
      estimatedMs: 120,
      sequentialMs: 130,
      maxParallelism: 2,
      calls: [{ slackMs: 0 }, { slackMs: 0 }, { slackMs: 90 }, { slackMs: 0 }],
    });
  });
});

/** Runs calls that end when the test says so. */
function harness(fails: ReadonlySet<string> = new Set()) {
  const order: string[] = [];
  const running = new Map<string, (result: ToolResult) => void>();
  const states = new Map<string, (status: string) => void>();
  const metadata = { cached: false } as ToolResult['metadata'];
  const parts: BatchParts = {
    ...plain,
    // A busy machine must not end a turn of these tests, which decide themselves what comes next.
    limits: { ...defaultLimits, batchTurnMs: 60_000 },
    powers: systemPowers(silentLog),
    timeline: new BatchTimeline(systemPowers(silentLog)),
    run: ({ id }, input, { onState, signal }) => {
      order.push(id);
      states.set(id, (status) => onState({ status } as never));
      onState({ status: 'in-progress' } as never);
      return new Promise((resolve) => {
        const base = { callId: id, tool: 't', metadata };
        const fail = (error: ToolError) => resolve({ ...base, success: false, error: error.toWire() });
        running.set(id, () =>
          fails.has(id)
            ? fail(new ToolError('NOT_FOUND', 'no'))
            : resolve({ ...base, success: true, data: { id, input } }),
        );
        signal.addEventListener('abort', () => fail(signal.reason as ToolError));
      });
    },
    refuse: ({ id }, error) => ({ callId: id, tool: 't', metadata, success: false, error: error.toWire() }),
    onResult: (id) => running.delete(id),
  };
  const turn = () => new Promise<void>((resolve) => setImmediate(resolve));
  const finish = async (id: string) => {
    running.get(id)?.({} as ToolResult);
    await turn();
  };
  return { parts, order, running, states, finish, turn };
}
const endless = () => new AbortController().signal;
const codes = (results: ToolResult[]) => results.map((it) => (it.success ? 'ok' : it.error.code));

describe('a batch', () => {
  test('begins a call as soon as what it needs is there, not with its level', async () => {
    const { parts, finish, order } = harness();
    const calls = [call('slow'), call('a'), call('b', ['a']), call('c', ['b']), call('d', ['slow'])];
    const result = runBatch(calls, { options: {}, signal: endless() }, parts);
    for (const id of ['a', 'b']) await finish(id);
    expect(order).toEqual(['slow', 'a', 'b', 'c']);
    for (const id of ['c', 'slow', 'd']) await finish(id);
    expect(await result).toMatchObject({ success: true, metadata: { successCount: 5, maxParallelism: 2 } });
  });

  test('says how many calls were in progress at once, and not how many could have been', async () => {
    const { parts, finish, states } = harness();
    const calls = [call('a'), call('b'), call('c'), call('d')];
    const bounded = runBatch(calls, { options: { concurrency: 1 }, signal: endless() }, parts);
    for (const { id } of calls) await finish(id);
    expect((await bounded).metadata).toMatchObject({ levels: [['a', 'b', 'c', 'd']], maxParallelism: 1 });
    const waits = runBatch(
      [call('a'), call('b'), call('c')],
      { options: {}, signal: endless() },
      {
        ...parts,
        run: (it, input, control) => {
          const result = parts.run(it, input, control);
          states.get(it.id)?.('queued');
          return result;
        },
      },
    );
    for (const id of ['a', 'b', 'c']) await finish(id);
    expect((await waits).metadata).toMatchObject({ levels: [['a', 'b', 'c']], maxParallelism: 1 });
  });

  test('gives references what the calls before gave', async () => {
    const { parts, finish } = harness();
    const calls = [call('a', [], { n: 7 }), call('b', [], { x: '${a.data.input.n}', y: 'n=${a.input.n}' })];
    const result = runBatch(calls, { options: {}, signal: endless() }, parts);
    for (const id of ['a', 'b']) await finish(id);
    expect((await result).results[1]).toMatchObject({ data: { input: { x: 7, y: 'n=7' } } });
  });

  test('leaves out what needs a failed call, and only that', async () => {
    const { parts, finish } = harness(new Set(['a']));
    const calls = [call('a'), call('b', ['a']), call('c', ['b']), call('d')];
    const result = runBatch(calls, { options: {}, signal: endless() }, parts);
    for (const id of ['a', 'd']) await finish(id);
    const { results, metadata, success } = await result;
    expect(codes(results)).toEqual(['NOT_FOUND', 'DEPENDENCY_FAILED', 'DEPENDENCY_FAILED', 'ok']);
    expect({ success, ...metadata }).toMatchObject({ success: false, failureCount: 3, skippedCount: 2 });
  });

  test('begins nothing more after a failure with failFast, and lets what runs end', async () => {
    const { parts, finish } = harness(new Set(['a']));
    const calls = [call('a'), call('b'), call('c', ['b']), call('d')];
    const result = runBatch(calls, { options: { failFast: true, concurrency: 2 }, signal: endless() }, parts);
    for (const id of ['a', 'b']) await finish(id);
    expect(codes((await result).results)).toEqual(['NOT_FOUND', 'ok', 'CANCELLED', 'CANCELLED']);
  });

  test('counts a call that waits for a person as none', async () => {
    const { parts, finish, order, states } = harness();
    const result = runBatch(
      [call('asks'), call('b'), call('c', ['asks'])],
      { options: { concurrency: 1 }, signal: endless() },
      parts,
    );
    expect(order).toEqual(['asks']);
    states.get('asks')?.('blocked-on-user');
    expect(order).toEqual(['asks', 'b']);
    for (const id of ['b', 'asks', 'c']) await finish(id);
    expect((await result).success).toBe(true);
  });

  test('ends what runs and what waits when it is out of time', async () => {
    const { parts } = harness();
    const result = runBatch([call('a'), call('b', ['a'])], { options: { timeoutMs: 5 }, signal: endless() }, parts);
    expect(codes((await result).results)).toEqual(['TIMEOUT', 'TIMEOUT']);
  });

  test('runs nothing of a batch with a cycle, and says which', async () => {
    const { parts, order } = harness();
    const result = await runBatch(
      [call('a', ['b']), call('b', ['a']), call('c')],
      { options: {}, signal: endless() },
      parts,
    );
    expect(order).toEqual([]);
    expect(codes(result.results)).toEqual(Array(3).fill('DEPENDENCY_CYCLE'));
    expect(result.error).toMatchObject({ code: 'DEPENDENCY_CYCLE', details: { cycle: ['a', 'b', 'a'] } });
  });

  test('tells the chain that decided its duration, and the slack of the other calls', async () => {
    const { parts, finish } = harness();
    let nowMs = 0;
    const timeline = new BatchTimeline({ now: () => 0, monotonicMs: () => nowMs });
    const calls = [call('a'), call('slow', ['a']), call('quick', ['a']), call('last', ['slow', 'quick'])];
    const result = runBatch(calls, { options: {}, signal: endless() }, { ...parts, timeline });
    for (const [id, atMs] of [
      ['a', 10],
      ['quick', 30],
      ['slow', 110],
      ['last', 115],
    ] as const) {
      nowMs = atMs;
      await finish(id);
    }
    const { metadata } = await result;
    expect(metadata).toMatchObject({ criticalPath: ['a', 'slow', 'last'], slackMs: [0, 0, 80, 0], durationMs: 115 });
  });

  test('the estimate of a running batch is the usual time of its calls, or longer if one already took longer', () => {
    let nowMs = 0;
    const timeline = new BatchTimeline({ now: () => 0, monotonicMs: () => nowMs });
    const calls = [call('a'), call('b', ['a']), call('c')];
    const usual = new UsualDurations(calls, () => 100);
    timeline.planned(planBatch(calls, plain));
    for (const id of ['a', 'c']) timeline.began(id, `call-${id}`);
    expect(timeline.analysis(usual)).toMatchObject({ criticalPath: ['a', 'b'], totalMs: 200 });
    nowMs = 50;
    timeline.ended('a', { success: true } as ToolResult);
    expect(timeline.analysis(usual).totalMs).toBe(150);
    nowMs = 400;
    expect(timeline.analysis(usual)).toMatchObject({ criticalPath: ['c'], totalMs: 400 });
    expect(timeline.counts).toEqual({ ended: 1, failed: 0 });
  });

  test('leaves out data that its answer can not hold, and says where it is', async () => {
    const { parts, finish } = harness();
    const limits = { ...defaultLimits, batchResultBytesMax: 2000 };
    const calls = [call('a', [], 'x'.repeat(300)), call('b', [], 'y'.repeat(300)), call('c', [], '${a.data.input}')];
    const result = runBatch(calls, { options: {}, signal: endless() }, { ...parts, limits });
    for (const { id } of calls) await finish(id);
    const { results } = await result;
    expect(results.map((it) => it.success && it.data !== null)).toEqual([true, false, false]);
    expect(results[1]?.metadata.warnings?.[0]).toContain('calls.get b');
  });
});

test('any order of any graph gives every call exactly one result, and none before what it needs', async () => {
  const graph = fc.array(fc.array(fc.nat(30), { maxLength: 4 }), { minLength: 1, maxLength: 30 });
  await fc.assert(
    fc.asyncProperty(
      graph,
      fc.nat(8),
      fc.array(fc.nat(29)),
      fc.infiniteStream(fc.nat()),
      async (edges, max, bad, picks) => {
        const calls = edges.map((its, at) =>
          call(
            `c${at}`,
            [...new Set(its.filter((it) => it < at))].map((it) => `c${it}`),
          ),
        );
        const fails = new Set(bad.map((it) => `c${it}`));
        const { parts, finish, order, running, turn } = harness(fails);
        const result = runBatch(calls, { options: { concurrency: max + 1 }, signal: endless() }, parts);
        while (running.size > 0) {
          expect(running.size).toBeLessThanOrEqual(max + 1);
          const ids = [...running.keys()];
          await finish(ids[(picks.next().value as number) % ids.length] as string);
          await turn();
        }
        const { results } = await result;
        const ok = new Set(calls.filter((_, at) => results[at]?.success).map(({ id }) => id));
        for (const { id, dependsOn = [] } of calls) {
          const begun = order.indexOf(id);
          expect(begun >= 0).toBe(dependsOn.every((it) => ok.has(it)));
          if (begun >= 0) for (const need of dependsOn) expect(order.indexOf(need)).toBeLessThan(begun);
          expect(ok.has(id)).toBe(begun >= 0 && !fails.has(id));
        }
        expect(new Set(order).size).toBe(order.length);
      },
    ),
    { numRuns: 100 },
  );
});

test('calls that take long to begin leave others their turn between them', async () => {
  const powers = systemPowers();
  let begun = 0;
  const atTurns: number[] = [];
  const turn = () => {
    atTurns.push(begun);
    if (begun < 10) setTimeout(turn, 0);
  };
  setTimeout(turn, 0);
  const calls = Array.from({ length: 10 }, (_, at) => call(`c${at}`));
  await runBatch(
    calls,
    { options: {}, signal: new AbortController().signal },
    {
      ...plain,
      limits: defaultLimits,
      powers,
      timeline: new BatchTimeline(powers),
      onResult() {},
      refuse: () => ({}) as ToolResult,
      run() {
        begun += 1;
        for (const until = performance.now() + 20; performance.now() < until; );
        return Promise.resolve({ success: true, metadata: {} } as ToolResult);
      },
    },
  );
  expect(atTurns.filter((it) => it > 0 && it < 10).length).toBeGreaterThan(4);
});
