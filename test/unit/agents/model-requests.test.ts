/** Requests to models: whatever tasks at once ask for, and their models report, no budget is overspent. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, expect, test } from 'vitest';
import { defaultLimits } from '../../../src/base/limits.ts';
import { systemPowers } from '../../../src/base/powers.ts';
import { Budget } from '../../../src/pipeline/budget.ts';
import type { ChildSession } from '../../../src/pipeline/execute/child-session.ts';
import type { ClearedCall } from '../../../src/pipeline/stage.ts';
import { BUILT_IN } from '../../../src/policy/load.ts';
import type { HttpAnswer } from '../../../src/sandbox/egress/proxy-messages.ts';
import type { Agents } from '../../../src/services/agents/agents.ts';
import { ModelRequests } from '../../../src/services/agents/model-requests.ts';
import type { AgentProfile } from '../../../src/services/agents/settings.ts';
import { CostLedger } from '../../../src/store/cost-ledger.ts';

const folder = mkdtempSync(join(tmpdir(), 'ringfence-requests-'));
afterAll(() => rmSync(folder, { recursive: true }));
const powers = systemPowers();
const ledger = new CostLedger(join(folder, 'costs.db'), defaultLimits, powers);
const policy = BUILT_IN.get('default');
const checked = { tier: 'external_api', tool: { name: 'task_delegate' } };
const call = {
  id: 'c',
  principal: 'p',
  accountId: 's',
  policy,
  policyNow: () => policy,
  checked,
} as unknown as ClearedCall;
const agents = { requestOf: async () => ({ url: '', method: 'POST', headers: {}, body: '' }) } as unknown as Agents;
const parts = { agents, ledger, limits: { ...defaultLimits, modelRetriesMax: 1 }, powers };

function requestsOf(budget: Budget, profile: Partial<AgentProfile> = {}): ModelRequests {
  const child = { budget, tools: () => [] } as unknown as ChildSession;
  const of = { name: 'default', dialect: 'openai', maxOutputTokens: 100, ...profile } as AgentProfile;
  return new ModelRequests({ call, profile: of, child, signal: new AbortController().signal }, parts);
}
const answer = (status: number, headers: Record<string, string> = {}): HttpAnswer => ({
  status,
  headers,
  body: Buffer.from('{}'),
  truncated: false,
});
const conversation = (chars: number) => ({ system: '', messages: ['x'.repeat(chars)] });
const code = async (running: Promise<unknown>) =>
  running.then(
    () => 'ok',
    (error: unknown) => (error as { code?: string }).code,
  );

/** A turn of a task: how long the conversation is, what part of what was taken the model reports, how the server answers. */
const turn = fc.record({
  chars: fc.integer({ min: 0, max: 400 }),
  part: fc.double({ min: 0, max: 1, noNaN: true }),
  status: fc.constantFrom(200, 200, 200, 500),
  reports: fc.boolean(),
});
const terms = fc.record({
  usd: fc.option(fc.integer({ min: 0, max: 20 }), { nil: undefined }),
  tokens: fc.option(fc.integer({ min: 0, max: 3_000 }), { nil: undefined }),
});
const task = fc.record({ terms, turns: fc.array(turn, { maxLength: 6 }) });

test('the sum of what tasks at once spend never passes the budget that they share', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.scheduler(),
      terms,
      fc.array(task, { minLength: 1, maxLength: 5 }),
      async (scheduler, shared, tasks) => {
        const parent = new Budget(shared);
        const all = tasks.map(async (it) => {
          let own: Budget;
          try {
            own = new Budget(it.terms, parent);
          } catch {
            return { tokens: 0, usd: 0 }; // COST_LIMIT: the parent has less.
          }
          const requests = requestsOf(own, { pricesUsdPerMillion: { input: 1_000, output: 10_000 } });
          for (const { chars, part, status, reports } of it.turns) {
            const before = own.left('tokens');
            const asked = requests.ask(conversation(chars), () => scheduler.schedule(Promise.resolve(answer(status))));
            const isDone = (await code(asked)) === 'ok';
            // What a request takes bounds what an honest model reports.
            const taken = Number.isFinite(before) ? Math.min(100, Math.max(0, before - own.left('tokens'))) : 100;
            const share = Math.floor(taken * part);
            if (isDone) requests.settle(reports ? { inputTokens: 0, outputTokens: share } : undefined);
          }
          const { inputTokens, outputTokens, usd = 0 } = requests.usage;
          expect(inputTokens + outputTokens).toBeLessThanOrEqual(it.terms.tokens ?? Infinity);
          own.close();
          return { tokens: inputTokens + outputTokens, usd };
        });
        await scheduler.waitIdle();
        const spent = await scheduler.waitFor(Promise.all(all));
        const sum = (of: 'tokens' | 'usd') => spent.reduce((total, it) => total + it[of], 0);
        expect(sum('tokens')).toBeLessThanOrEqual(shared.tokens ?? Infinity);
        expect(sum('usd')).toBeLessThanOrEqual((shared.usd ?? Infinity) + 1e-9);
        // All that was not spent is there again.
        if (shared.tokens !== undefined) expect(parent.left('tokens')).toBe(shared.tokens - sum('tokens'));
      },
    ),
    { numRuns: 200 },
  );
});

test('a request that the server refused costs nothing, and one without an answer all that it may have cost', async () => {
  const budget = new Budget({ tokens: 1_000 });
  const requests = requestsOf(budget);
  expect(await code(requests.ask(conversation(10), async () => answer(400)))).toBe('UPSTREAM_FAILED');
  expect(budget.left('tokens')).toBe(1_000);
  expect(await code(requests.ask(conversation(10), async () => ({ late: 'nothing came' })))).toBe('UPSTREAM_FAILED');
  requests.settle(undefined);
  expect(budget.left('tokens')).toBeLessThan(900);
});

test('a busy server is asked again as often as the limit says, at once if it says so', async () => {
  let asked = 0;
  const busy = async () => {
    asked += 1;
    return answer(429, { 'retry-after': asked === 1 ? '0' : new Date(0).toUTCString() });
  };
  expect(await code(requestsOf(new Budget({})).ask(conversation(1), busy))).toBe('UPSTREAM_FAILED');
  expect(asked).toBe(2);
});

test('an unknown price is refused where dollars are bounded', () => {
  expect(() => requestsOf(new Budget({ usd: 1 }))).toThrow('has no prices');
  expect(() => requestsOf(new Budget({}))).not.toThrow();
});
