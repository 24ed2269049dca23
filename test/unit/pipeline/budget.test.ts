/** Budgets: whatever children reserve, spend and give back at once, no more is spent than the outermost one has. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { BUDGET_KINDS, Budget, type BudgetKind } from '../../../src/pipeline/budget.ts';

const code = (work: () => unknown): string | undefined => {
  try {
    work();
    return undefined;
  } catch (error) {
    return (error as { code: string }).code;
  }
};

test('an amount that was taken is not left for others until it is given back', () => {
  const budget = new Budget({ usd: 0.3, calls: 2 });
  for (const amount of [0.1, 0.2]) budget.take('usd', amount);
  expect(code(() => budget.take('usd', 0.000_001))).toBe('COST_LIMIT');
  budget.giveBack('usd', 0.2);
  expect([budget.left('usd'), budget.left('calls'), budget.left('tokens')]).toEqual([0.2, 2, Infinity]);
});

test('a child that asks for more than its parent has gets nothing, and takes nothing', () => {
  const parent = new Budget({ usd: 1, tokens: 10 });
  expect(code(() => new Budget({ usd: 0.5, tokens: 11 }, parent))).toBe('COST_LIMIT');
  expect([parent.left('usd'), parent.left('tokens')]).toEqual([1, 10]);
});

test('a kind that a child has no number for is spent from its parent', () => {
  const parent = new Budget({ calls: 1 });
  const child = new Budget({ usd: 1 }, parent);
  child.take('calls', 1);
  expect([code(() => child.take('calls', 1)), parent.left('calls')]).toEqual(['COST_LIMIT', 0]);
});

test('a closed child returns what it has left, takes no more, and what comes back late goes to its parent', () => {
  const parent = new Budget({ calls: 10 });
  const child = new Budget({ calls: 5 }, parent);
  child.take('calls', 3);
  child.close();
  child.close();
  expect([parent.left('calls'), code(() => child.take('calls', 1))]).toEqual([7, 'CANCELLED']);
  child.settle('calls', { taken: 3, spent: 1 });
  expect(parent.left('calls')).toBe(9);
});

const kind = fc.constantFrom<BudgetKind>(...BUDGET_KINDS);
const amount = fc.integer({ min: 0, max: 40 });
const step = fc.oneof(
  fc.record({ do: fc.constant('open' as const), of: fc.nat(), kind, amount }),
  fc.record({ do: fc.constant('take' as const), of: fc.nat(), kind, amount }),
  fc.record({ do: fc.constant('settle' as const), of: fc.nat(), part: fc.double({ min: 0, max: 1, noNaN: true }) }),
  fc.record({ do: fc.constant('close' as const), of: fc.nat() }),
);

test('the sum never passes the first budget, in any order of reserving, spending, settling and closing', () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 80 }), (steps) => {
      const root = new Budget({ usd: 100, tokens: 100, calls: 100 });
      const budgets = [root];
      const open: { budget: Budget; kind: BudgetKind; amount: number }[] = [];
      const spent = { usd: 0, tokens: 0, calls: 0 };
      for (const it of steps) {
        const budget = budgets[it.do === 'settle' ? 0 : it.of % budgets.length] as Budget;
        if (it.do === 'open') {
          if (code(() => budgets.push(new Budget({ [it.kind]: it.amount }, budget))) === undefined) continue;
        } else if (it.do === 'take') {
          if (code(() => budget.take(it.kind, it.amount)) === undefined)
            open.push({ budget, kind: it.kind, amount: it.amount });
        } else if (it.do === 'settle') {
          const [taken] = open.splice(it.of % Math.max(1, open.length), 1);
          if (!taken) continue;
          const really = Math.floor(taken.amount * it.part);
          taken.budget.settle(taken.kind, { taken: taken.amount, spent: really });
          spent[taken.kind] += really;
        } else if (budget !== root) budget.close();
        for (const one of BUDGET_KINDS) {
          const held = open.filter((other) => other.kind === one).reduce((sum, other) => sum + other.amount, 0);
          expect(spent[one] + held).toBeLessThanOrEqual(100);
        }
      }
      for (const taken of open) taken.budget.settle(taken.kind, { taken: taken.amount, spent: taken.amount });
      for (const { kind: one, amount: more } of open) spent[one] += more;
      for (const it of budgets.toReversed()) if (it !== root) it.close();
      expect(BUDGET_KINDS.map((one) => root.left(one))).toEqual(BUDGET_KINDS.map((one) => 100 - spent[one]));
    }),
    { numRuns: 500 },
  );
});
