import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { ToolError } from '../../../../src/base/errors.ts';
import { defaultLimits } from '../../../../src/base/limits.ts';
import { systemPowers } from '../../../../src/base/powers.ts';
import { succeeded } from '../../../../src/pipeline/outcome.ts';
import { rateLimit } from '../../../../src/pipeline/queue/rate-limit.ts';
import type { Call } from '../../../../src/pipeline/stage.ts';
import type { Policy, RateLimit } from '../../../../src/policy/schema.ts';

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

const rule = (more: Partial<RateLimit> = {}): RateLimit => ({
  tool: ['web_fetch'],
  calls: 2,
  perMs: 60_000,
  per: 'session',
  source: 'policies/x.yaml:12',
  ...more,
});

const policyOf = (rateLimits: readonly RateLimit[], ...and: Policy[]) => ({ rateLimits, and }) as unknown as Policy;

interface Asked {
  name?: string;
  sessionId?: string;
  principal?: string;
  policy: Policy;
}

/** The stage with a test clock: `ask` gives true, or the refusal. */
function limiter(rateKeysMax = defaultLimits.rateKeysMax) {
  const clock = { nowMs: 0 };
  const powers = { ...systemPowers(), monotonicMs: () => clock.nowMs };
  const handler = rateLimit(powers, { ...defaultLimits, rateKeysMax })(async () => succeeded('ran'));
  const toolset = new Map([
    ['web_fetch', { tool: { name: 'web_fetch', aliases: [{ name: 'fetch_url' }] } }],
    ['fetch_url', { tool: { name: 'web_fetch', aliases: [{ name: 'fetch_url' }] } }],
    ['web_search', { tool: { name: 'web_search', aliases: [] } }],
  ]);
  const ask = ({ name = 'web_fetch', sessionId = 's', principal = 'p', policy }: Asked): true | ToolError => {
    try {
      void handler({ name, accountId: sessionId, principal, policy, toolset } as unknown as Call);
      return true;
    } catch (error) {
      if (error instanceof ToolError) return error;
      throw error;
    }
  };
  return { clock, ask };
}

const outcomes = (results: readonly (true | ToolError)[]) => results.map((it) => it === true);

test('calls beyond the limit are RATE_LIMITED, with what would help, until the span that the first of them began is over', () => {
  const { clock, ask } = limiter();
  const policy = policyOf([rule()]);
  clock.nowMs = 1000;
  expect(ask({ policy })).toBe(true);
  clock.nowMs = 21_000;
  expect(ask({ policy })).toBe(true);
  const refused = ask({ policy }) as ToolError;
  expect(refused.toWire()).toMatchObject({
    code: 'RATE_LIMITED',
    message: '`web_fetch` is limited to 2 calls in 60 s per session (policies/x.yaml:12)',
    details: { retryAfterMs: 40_000, limit: 2, perMs: 60_000, per: 'session' },
  });
  clock.nowMs = 60_999;
  expect(ask({ policy })).toMatchObject({ extras: { details: { retryAfterMs: 1 } } });
  clock.nowMs = 61_000;
  expect(outcomes([ask({ policy }), ask({ policy }), ask({ policy })])).toEqual([true, true, false]);
});

test('an alias counts as its tool, and so does a name that a pattern covers', () => {
  const { ask } = limiter();
  const policy = policyOf([rule({ tool: ['web_*'], calls: 2 })]);
  const names = ['fetch_url', 'web_search', 'web_fetch', 'file_read'];
  expect(outcomes(names.map((name) => ask({ name, policy })))).toEqual([true, true, false, true]);
  expect(ask({ name: 'fetch_url', policy })).toMatchObject({
    message: expect.stringContaining('`web_fetch`, together with all of `web_*`, is limited to 2 calls') as string,
  });
});

test('names of no tool are counted too where a pattern covers them', () => {
  const { ask } = limiter();
  const policy = policyOf([rule({ tool: ['*'], calls: 2 })]);
  expect(outcomes(['a', 'b', 'c'].map((name) => ask({ name, policy })))).toEqual([true, true, false]);
});

test.each([
  ['session', [true, true, true]],
  ['principal', [true, false, true]],
  ['daemon', [true, false, false]],
] as const)('a limit per %s counts together what that means', (per, expected) => {
  const { ask } = limiter();
  const policy = policyOf([rule({ per, calls: 1 })]);
  const asked = [
    { sessionId: 's1', principal: 'p1' },
    { sessionId: 's2', principal: 'p1' },
    { sessionId: 's3', principal: 'p2' },
  ];
  expect(outcomes(asked.map((it) => ask({ ...it, policy })))).toEqual(expected);
});

test('a call needs room in all of several limits, whichever layer they are of, and gets the longest wait', () => {
  const { ask, clock } = limiter();
  const inner = policyOf([rule({ calls: 5, perMs: 600_000, source: 'project.yaml:3' })]);
  const policy = policyOf([rule({ calls: 2, perMs: 1000 })], policyOf([], inner));
  const results = [0, 1, 2, 1000, 1001].map((atMs) => {
    clock.nowMs = atMs;
    return ask({ policy });
  });
  expect(outcomes(results)).toEqual([true, true, false, true, true]);
  clock.nowMs = 2000;
  expect(ask({ policy })).toBe(true);
  expect(ask({ policy })).toMatchObject({
    message: expect.stringContaining('project.yaml:3') as string,
    extras: { details: { retryAfterMs: 598_000 } },
  });
});

test('two layers that limit the same calls look at one count, and a policy that was read again goes on with it', () => {
  const { ask } = limiter();
  const policy = policyOf([rule({ calls: 4 })], policyOf([rule({ calls: 3 })]));
  const again = policyOf([rule({ calls: 4 })]);
  const results = [ask({ policy }), ask({ policy }), ask({ policy }), ask({ policy })];
  expect(outcomes([...results, ask({ policy: again }), ask({ policy: again })])).toEqual([
    true,
    true,
    true,
    false,
    true,
    false,
  ]);
});

test('a span of a month is one', () => {
  const { ask, clock } = limiter();
  const perMs = 31 * 86_400_000;
  const policy = policyOf([rule({ calls: 1, perMs })]);
  expect(ask({ policy })).toBe(true);
  clock.nowMs = perMs - 1;
  expect(ask({ policy })).toMatchObject({ code: 'RATE_LIMITED' });
});

test('sessions beyond the bound share one count for each rule, and take nothing from those before them', () => {
  const { ask, clock } = limiter(3);
  const policy = policyOf([rule({ calls: 2 })]);
  const of = (...sessions: string[]) => outcomes(sessions.map((sessionId) => ask({ sessionId, policy })));
  expect(of('a', 'a', 'b', 'c')).toEqual([true, true, true, true]);
  expect(of('x1', 'x2', 'x3', 'x4')).toEqual([true, true, false, false]);
  expect(of('a', 'b', 'b')).toEqual([false, true, false]);
  clock.nowMs = 60_000;
  expect(of('x1', 'x1', 'x1', 'x2', 'x2')).toEqual([true, true, false, true, true]);
});

test('a hundred thousand sessions take no more memory than the bound allows', async () => {
  const { ask } = limiter();
  const policy = policyOf([rule()]);
  const sessions = async (from: number, to: number) => {
    for (let n = from; n < to; n++) {
      ask({ sessionId: `00000000-0000-7000-8000-${n}`, policy });
      // The calls so far end.
      if (n % 1000 === 0 || n === to - 1) await new Promise(setImmediate);
    }
    collectGarbage();
    return process.memoryUsage().heapUsed;
  };
  const empty = await sessions(0, 1);
  const full = await sessions(1, 10_000);
  const flooded = await sessions(10_000, 100_000);
  expect(full - empty).toBeLessThan(10_000 * 300);
  expect(flooded - full).toBeLessThan(100_000);
});

const names = ['web_fetch', 'web_search', 'fetch_url'];
const rules = fc.array(
  fc.record({
    tool: fc.constantFrom(['web_fetch'], ['web_*'], ['*search', 'x'], ['*']),
    calls: fc.integer({ min: 1, max: 3 }),
    perMs: fc.constantFrom(5, 7, 20),
    per: fc.constantFrom('session' as const, 'principal' as const, 'daemon' as const),
  }),
  { minLength: 1, maxLength: 4 },
);
const calls = fc.array(
  fc.record({
    afterMs: fc.integer({ min: 0, max: 6 }),
    name: fc.constantFrom(...names),
    sessionId: fc.constantFrom('s1', 's2'),
    principal: fc.constantFrom('p1', 'p2'),
  }),
  { maxLength: 40 },
);

test('a refused call changes no later answer, and is let in when it comes again after retryAfterMs', () => {
  fc.assert(
    fc.property(rules, calls, (limits, steps) => {
      const policy = policyOf(limits.map((it) => rule(it)));
      const all = limiter();
      const admittedOnly = limiter();
      for (const { afterMs, ...call } of steps) {
        all.clock.nowMs += afterMs;
        admittedOnly.clock.nowMs = all.clock.nowMs;
        const result = all.ask({ ...call, policy });
        if (result !== true) {
          all.clock.nowMs += (result.toWire().details as { retryAfterMs: number }).retryAfterMs;
          admittedOnly.clock.nowMs = all.clock.nowMs;
          expect(all.ask({ ...call, policy })).toBe(true);
        }
        expect(admittedOnly.ask({ ...call, policy })).toBe(true);
      }
    }),
    { numRuns: 200 },
  );
});

test('no span that a limit begins lets more calls through than the limit says', () => {
  fc.assert(
    fc.property(rules, calls, (limits, steps) => {
      const policy = policyOf(limits.map((it) => rule(it)));
      const { ask, clock } = limiter();
      const admitted: { atMs: number; key: string; tool: string }[][] = limits.map(() => []);
      for (const { afterMs, ...call } of steps) {
        clock.nowMs += afterMs;
        if (ask({ ...call, policy }) !== true) continue;
        const tool = call.name === 'fetch_url' ? 'web_fetch' : call.name;
        limits.forEach(({ per }, n) => {
          const key = { session: call.sessionId, principal: call.principal, daemon: '' }[per];
          admitted[n]?.push({ atMs: clock.nowMs, key, tool });
        });
      }
      limits.forEach((limit, n) => {
        const covered = (tool: string) =>
          limit.tool.some(
            (it) =>
              it === '*' ||
              it === tool ||
              (it === 'web_*' && tool.startsWith('web_')) ||
              (it === '*search' && tool.endsWith('search')),
          );
        for (const key of ['s1', 's2', 'p1', 'p2', '']) {
          const times = (admitted[n] ?? []).filter((it) => it.key === key && covered(it.tool)).map((it) => it.atMs);
          while (times.length > 0) {
            const [start = 0] = times;
            const inSpan = times.filter((it) => it < start + limit.perMs);
            expect(inSpan.length).toBeLessThanOrEqual(limit.calls);
            times.splice(0, inSpan.length);
          }
        }
      });
    }),
    { numRuns: 200 },
  );
});

test.each([
  ['a*a', 'a', false],
  ['a*a', 'aa', true],
  ['mcp:*', 'mcp:x/y', true],
  ['*_*_*', 'file_re_ad', true],
  ['*_*_*', 'file_read', false],
  ['web.fetch', 'web_fetch', false],
  ['', 'x', false],
  ['**', 'x', true],
])('the pattern %j covers %j: %j', (pattern, name, covered) => {
  const { ask } = limiter();
  const policy = policyOf([rule({ tool: [pattern], calls: 1 })]);
  ask({ name, policy });
  expect(ask({ name, policy }) !== true).toBe(covered);
});

test('a pattern made to be slow is answered at once', () => {
  const { ask } = limiter();
  const policy = policyOf([rule({ tool: [`${'a*'.repeat(255)}b`] })]);
  const startedAt = performance.now();
  for (let n = 0; n < 1000; n++) ask({ name: 'a'.repeat(128), policy });
  expect(performance.now() - startedAt).toBeLessThan(1000);
});

test('a limit that names a tool by an alias counts its calls by either name', () => {
  const { ask } = limiter();
  const policy = policyOf([rule({ tool: ['fetch_url'] })]);
  const results = ['web_fetch', 'fetch_url', 'web_fetch', 'fetch_url', 'web_search'].map((name) =>
    ask({ name, policy }),
  );
  expect(outcomes(results)).toEqual([true, true, false, false, true]);
});
