import type { Tier } from '../base/call.ts';
import { layersOf } from '../policy/decide.ts';
import type { Policy } from '../policy/schema.ts';
import type { CostLedger, CostLimits } from '../store/cost-ledger.ts';
import type { NamedTool } from '../tools/tool.ts';
import type { Outcome } from './outcome.ts';
import { type Call, type Handler, outcomeOf, type Stage } from './stage.ts';

/**
 * Counts a call of a delegated session. Reserves the estimated cost of a call, and books the real cost when the call is over; a call
 * that never started costs nothing. Tools without an estimate pass at once. Later stages see the estimate, and whether it passes a soft limit.
 * Throws COST_LIMIT, STORE_FAILED.
 */
export const costCap =
  (ledger: CostLedger): Stage =>
  (next) =>
  (call) => {
    call.budget?.take('calls', 1);
    const named = call.toolset.get(call.name);
    return named?.tool.estimateCostUsd ? payFor(call, named, { ledger, next }) : next(call);
  };

async function payFor(
  call: Call,
  named: NamedTool,
  { ledger, next }: { ledger: CostLedger; next: Handler },
): Promise<Outcome> {
  const estimate = estimateOf(call, named);
  if (estimate === undefined) return next(call);
  const { tier } = named.tool;
  const { principal, accountId: sessionId, id: callId, policy, budget } = call;
  const payer = { tier, principal, sessionId, callId, tool: named.tool.name };
  const reservation = ledger.reserve(estimate, { ...payer, limits: limitsOf(policy, tier) });
  const { usd: taken } = reservation;
  try {
    budget?.take('usd', taken);
  } catch (error) {
    reservation.release();
    throw error;
  }
  const cost = { usd: taken, asks: reservation.ask };
  const outcome = await outcomeOf(next, { ...call, cost });
  const spent = outcome.started ? reservation.settle(outcome.usage?.costUsd) : 0;
  budget?.settle('usd', { taken, spent });
  if (outcome.started) return { ...outcome, costUsd: spent };
  reservation.release();
  return outcome;
}

/** Undefined for invalid input: this stage runs before `validate`, and a call that `validate` refuses costs nothing. */
function estimateOf({ rawInput }: Call, named: NamedTool): number | undefined {
  let input: unknown;
  try {
    input = named.parse(rawInput ?? {});
  } catch {
    // ZodError: `validate` parses the input again and reports what is wrong.
    return undefined;
  }
  return named.tool.estimateCostUsd?.(input as never);
}

/** The strictest cost limits of all policy layers; infinite where there is none. */
export function limitsOf(policy: Policy, tier: Tier): CostLimits {
  const rules = layersOf(policy).map((it) => it.tiers[tier]);
  const strictest = (of: (rule: (typeof rules)[number]) => number | undefined) =>
    Math.min(...rules.map((rule) => of(rule) ?? Infinity));
  return {
    max: {
      day: strictest((it) => it.costUsdPerDay),
      principal: strictest((it) => it.costUsdPerPrincipalDay),
      session: strictest((it) => it.costUsdPerSession),
    },
    dayAskAbove: strictest((it) => it.costUsdAskAbove),
  };
}
