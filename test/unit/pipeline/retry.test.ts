import { expect, test } from 'vitest';
import { type Code, ToolError } from '../../../src/base/errors.ts';
import { defaultLimits } from '../../../src/base/limits.ts';
import { silentLog, systemPowers } from '../../../src/base/powers.ts';
import { failed, type RunFacts, succeeded } from '../../../src/pipeline/outcome.ts';
import { retry } from '../../../src/pipeline/retry.ts';
import type { ClearedCall } from '../../../src/pipeline/stage.ts';
import { builtinTools } from '../../../src/tools/builtin.ts';
import type { Tool } from '../../../src/tools/tool.ts';

interface Situation {
  tier?: string;
  idempotent?: boolean;
  retries?: number;
  started?: boolean;
  confirm?: boolean;
  timeoutMs?: number;
  code?: Code;
  failures?: number;
  tool?: Tool;
  input?: object;
  /** What each failed attempt leaves in its outcome. */
  brought?: Partial<RunFacts>;
}

/** The attempts made, the waits between them, and the end. */
async function attempt(it: Situation) {
  const { tier = 'write', retries = 3, started = false, code = 'QUEUE_FULL', failures = 2 } = it;
  const waits: number[] = [];
  const powers = {
    ...systemPowers(silentLog),
    after: (ms: number, go: () => void) => {
      waits.push(ms);
      queueMicrotask(go);
      return { cancel() {} };
    },
  };
  const call = {
    checked: { tool: it.tool ?? { idempotent: it.idempotent }, input: it.input, tier },
    options: { retries, ...(it.timeoutMs && { timeoutMs: it.timeoutMs }) },
    controller: new AbortController(),
    ...(it.confirm && { approval: { confirm: async () => {} } }),
  } as unknown as ClearedCall;
  let attempts = 0;
  const run = retry(
    defaultLimits,
    powers,
  )(async () => {
    attempts += 1;
    if (attempts > failures) return succeeded('done', { started });
    const error = new ToolError(code, 'not now', { details: { retryAfterMs: 10 } });
    if (!started && !it.brought) throw error;
    return failed(error, { started, ...it.brought });
  });
  const outcome = await run(call);
  return { attempts, waits, end: outcome.error ? outcome.error.code : outcome.data, outcome };
}

test('a call that could not start is tried again until it can', async () => {
  const { attempts, end, outcome } = await attempt({});
  expect({ attempts, end, retries: outcome.retriesAttempted }).toEqual({ attempts: 3, end: 'done', retries: 2 });
});

test.each([
  ['nobody asked for it', { retries: 0 }],
  ['it is not recoverable', { code: 'NOT_FOUND' as const }],
  ['its code is not one that may pass', { code: 'TIMEOUT' as const }],
  ['it began, and may have changed something', { started: true, code: 'HOST_CRASHED' as const }],
  ['a yes to it is used up', { started: true, confirm: true, tier: 'read_only' }],
  ['its host died under it twice', { started: true, code: 'HOST_CRASHED' as const, tier: 'read_only' }],
  ['its time would be over', { timeoutMs: 10 }],
])('a call is not tried again where %s', async (_, situation) => {
  expect((await attempt(situation)).attempts).toBe(1);
});

test('a call that began is retried if it cannot have an effect twice', async () => {
  expect((await attempt({ started: true, idempotent: true })).end).toBe('done');
});

test('attempts end at the bound, whatever is asked for', async () => {
  const { attempts, end } = await attempt({ retries: 100, failures: 1000 });
  expect({ attempts, end }).toEqual({ attempts: 1 + defaultLimits.callRetriesMax, end: 'QUEUE_FULL' });
});

test('waits grow, by a random part less, and are at least what the refusal says', async () => {
  const { waits } = await attempt({ failures: 4, retries: 4 });
  for (const [at, ms] of waits.entries()) {
    expect(ms).toBeGreaterThanOrEqual(50 * 2 ** at);
    expect(ms).toBeLessThanOrEqual(100 * 2 ** at);
  }
});

test('counts as begun in the record when an earlier attempt began', async () => {
  const { outcome } = await attempt({ brought: { started: true }, idempotent: true, failures: 1 });
  expect(outcome).toMatchObject({ data: 'done', started: true });
});

test.each([
  ['GET', 3],
  ['HEAD', 3],
  ['PUT', 3],
  ['DELETE', 3],
  ['POST', 1],
  ['PATCH', 1],
])('http_request by %s that met no answer is made %d times', async (method, times) => {
  const tool = builtinTools.http_request as unknown as Tool;
  const asked = { tool, input: { method }, tier: 'external_api', started: true, code: 'UPSTREAM_FAILED' } as const;
  expect((await attempt(asked)).attempts).toBe(times);
});

test('the outcome of a successful attempt holds nothing of the failed one before', async () => {
  const denied = [{ kind: 'read', target: 'secret', layer: 'policy', count: 1 }] as const;
  const brought = { denied: [...denied], connected: [], warnings: ['of the first'], hostPid: 7 } as Partial<RunFacts>;
  const { outcome } = await attempt({ brought });
  expect(outcome).toEqual(succeeded('done', { retriesAttempted: 2 }));
});

test('an answer of a busy server is asked for again, after the time that the server names, and is the result at the end', async () => {
  const waits: number[] = [];
  const powers = {
    ...systemPowers(silentLog),
    after: (ms: number, go: () => void) => {
      waits.push(ms);
      queueMicrotask(go);
      return { cancel() {} };
    },
  };
  const call = (idempotent: boolean) =>
    ({
      checked: { tool: { idempotent }, tier: 'external_api' },
      options: { retries: 2 },
      controller: new AbortController(),
    }) as unknown as ClearedCall;
  let attempts = 0;
  let busyMs = 300;
  const run = retry(defaultLimits, powers)(async () => succeeded(`answer ${++attempts}`, { started: true, busyMs }));
  expect(await run(call(true))).toMatchObject({ data: 'answer 3', retriesAttempted: 2 });
  expect(waits).toEqual([300, 300]);
  expect(await run(call(false))).toMatchObject({ data: 'answer 4', retriesAttempted: 0 });
  busyMs = defaultLimits.retryBackoffMsMax + 1;
  expect(await run(call(true))).toMatchObject({ data: 'answer 5', retriesAttempted: 0 });
});
