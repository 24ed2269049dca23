import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, expect, test } from 'vitest';
import * as z from 'zod';
import { ToolError } from '../../../src/base/errors.ts';
import { defaultLimits } from '../../../src/base/limits.ts';
import { systemPowers } from '../../../src/base/powers.ts';
import { costCap } from '../../../src/pipeline/cost-cap.ts';
import { failed, succeeded } from '../../../src/pipeline/outcome.ts';
import type { Call } from '../../../src/pipeline/stage.ts';
import type { Policy, TierRule } from '../../../src/policy/schema.ts';
import { CostLedger } from '../../../src/store/cost-ledger.ts';

const folder = mkdtempSync(join(tmpdir(), 'ringfence-cost-cap-'));
let ledger: CostLedger;
beforeAll(() => {
  ledger = new CostLedger(join(folder, 'costs.db'), defaultLimits, systemPowers());
});
afterAll(() => {
  ledger[Symbol.dispose]();
  rmSync(folder, { recursive: true });
});

const input = z.strictObject({ usd: z.number() });
const toolset = new Map([
  [
    'paid',
    {
      tool: { name: 'paid', tier: 'external_api', estimateCostUsd: ({ usd }: { usd: number }) => usd },
      parse: (it: unknown) => input.parse(it),
    },
  ],
  [
    'free',
    { tool: { name: 'free', tier: 'external_api' }, parse: () => expect.unreachable('a free tool is not parsed') },
  ],
]);

const policyOf = (rule: Partial<TierRule>, ...and: Policy[]) =>
  ({ tiers: { external_api: rule }, and }) as unknown as Policy;

let sessions = 0;
/** A call in a session of its own, so that the session's cost is the call's. */
const callOf = (rawInput: unknown, { policy = policyOf({}), name = 'paid', sessionId = `s${sessions++}` } = {}): Call =>
  ({ name, rawInput, toolset, policy, principal: 'p', sessionId, accountId: sessionId, id: 'c' }) as unknown as Call;
const spent = ({ sessionId }: Call) => ledger.spentUsd({ tier: 'external_api', principal: 'p', sessionId }).session;

test('a call that ran is booked as what it says it cost, and its result can tell', async () => {
  const call = callOf({ usd: 0.5 });
  const handler = costCap(ledger)(async (it) => {
    expect([it.cost?.usd, spent(it)]).toEqual([0.5, 0.5]);
    const usage = { cpuMs: 1, outputBytes: 1, verdict: 'ok', enforcedBy: 'x', costUsd: 0.2 } as const;
    return succeeded('data', { started: true, usage });
  });
  const { data, costUsd } = await handler(call);
  expect(data).toBe('data');
  expect([costUsd, spent(call)]).toEqual([0.2, 0.2]);
});

test('a call that ran and failed without saying what it cost is booked as its estimate', async () => {
  const call = callOf({ usd: 0.5 });
  const crash = new ToolError('HOST_CRASHED', 'gone');
  const handler = costCap(ledger)(async () => failed(crash, { started: true }));
  const { error, costUsd } = await handler(call);
  expect(error).toBe(crash);
  expect([costUsd, spent(call)]).toEqual([0.5, 0.5]);
});

test.each([
  ['rejects', () => Promise.reject(new ToolError('POLICY_DENIED', 'no'))],
  [
    'throws',
    () => {
      throw new ToolError('POLICY_DENIED', 'no');
    },
  ],
])('a call that a later stage refuses costs nothing, also where that one %s', async (_, next) => {
  const call = callOf({ usd: 0.5 });
  const { error, costUsd } = await costCap(ledger)(next)(call);
  expect(error).toMatchObject({ code: 'POLICY_DENIED', message: 'no' });
  expect([costUsd, spent(call)]).toEqual([undefined, 0]);
});

test('a tool without an estimate and input that will be refused pass at once, with nothing reserved', async () => {
  const seen: unknown[] = [];
  const handler = costCap(ledger)(async (it) => {
    seen.push([it.name, it.cost, spent(it)]);
    return succeeded('data');
  });
  const calls = [callOf({}, { name: 'free' }), callOf({ usd: 'x' }), callOf(undefined), callOf({}, { name: 'none' })];
  for (const call of calls) await handler(call);
  expect(seen).toEqual(calls.map(({ name }) => [name, undefined, 0]));
});

test.each([NaN, -1, Infinity])('an estimate of %d refuses the call', async (usd) => {
  const call = callOf({});
  const tool = { name: 'odd', tier: 'external_api', estimateCostUsd: () => usd };
  const odd = { ...call, name: 'odd', toolset: new Map([['odd', { tool, parse: (it: unknown) => it }]]) } as never;
  await expect(costCap(ledger)(() => expect.unreachable('it was refused'))(odd)).rejects.toMatchObject({
    code: 'COST_LIMIT',
  });
});

test('the strictest limit of all layers counts, and the soft one makes a question of the call', async () => {
  const inner = policyOf({ costUsdPerSession: 1, costUsdAskAbove: 0 });
  const policy = policyOf({ costUsdPerSession: 5 }, policyOf({}, inner));
  const call = callOf({ usd: 0.9 }, { policy });
  const seen: Call[] = [];
  const run = costCap(ledger)(async (it) => {
    seen.push(it);
    return succeeded('data', { started: true });
  });
  await run(call);
  expect(seen[0]?.cost).toEqual({ usd: 0.9, asks: true });
  await expect(run({ ...call, rawInput: { usd: 0.2 } })).rejects.toMatchObject({
    code: 'COST_LIMIT',
    extras: { details: { spentUsd: 0.9, limitUsd: 1, per: 'session' } },
  });
});

test('calls at the same time never have more under way than the limit, in whatever order they end', async () => {
  const LIMIT = 1;
  const policy = policyOf({ costUsdPerSession: LIMIT });
  const cents = fc.integer({ min: 0, max: 60 });
  const plan = fc.record({ estimate: cents, actual: cents, starts: fc.boolean() });
  await fc.assert(
    fc.asyncProperty(fc.scheduler(), fc.array(plan, { minLength: 1, maxLength: 8 }), async (scheduler, plans) => {
      const sessionId = `s${sessions++}`;
      const booked: number[] = [];
      const runs = plans.map(async ({ estimate, actual, starts }) => {
        const call = callOf({ usd: estimate / 100 }, { policy, sessionId });
        const handler = costCap(ledger)(async (it) => {
          expect(spent(it)).toBeLessThanOrEqual(LIMIT);
          await scheduler.schedule(Promise.resolve());
          const costUsd = Math.min(actual, estimate) / 100;
          const usage = { cpuMs: 1, outputBytes: 1, verdict: 'ok', enforcedBy: 'x', costUsd } as const;
          return succeeded('data', { started: starts, usage });
        });
        await scheduler.schedule(Promise.resolve());
        const refused = await handler(call).then(
          () => false,
          (error: unknown) => (error as ToolError).code === 'COST_LIMIT',
        );
        if (!refused && starts) booked.push(Math.min(actual, estimate));
      });
      await scheduler.waitFor(Promise.all(runs));
      const sum = booked.reduce((a, b) => a + b, 0);
      expect(Math.round(spent(callOf({}, { sessionId })) * 100)).toBe(sum);
      expect(sum).toBeLessThanOrEqual(LIMIT * 100);
    }),
    { numRuns: 40 },
  );
});
