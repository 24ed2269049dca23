/** Decisions. Architecture invariant: pure, the same inputs give the same decision. */
import type { Decision, Effect, Tier } from '../call.ts';
import type { Policy, TierRule } from './schema.ts';

export interface Question {
  readonly tier: Tier;
  readonly effects: readonly Effect[];
}

/** What was decided and by which rule. */
export interface Decided {
  readonly decision: Decision;
  readonly rule: TierRule;
}

const STRICTNESS: Record<Decision, number> = { allow: 0, ask: 1, deny: 2 };

export function decide(policy: Policy, { tier }: Question): Decided {
  const rule = policy.tiers[tier];
  return { decision: rule.decision, rule };
}

/** Both at once: of two rules for a tier the stricter one counts, so that a session's policy can only narrow the daemon's. */
export function narrow(policy: Policy, by: Policy): Policy {
  if (policy === by) return policy;
  const stricter = (tier: Tier): TierRule => {
    const [a, b] = [policy.tiers[tier], by.tiers[tier]];
    return STRICTNESS[b.decision] > STRICTNESS[a.decision] ? b : a;
  };
  const { read_only, write, execute, external_api } = {
    read_only: stricter('read_only'),
    write: stricter('write'),
    execute: stricter('execute'),
    external_api: stricter('external_api'),
  };
  return { name: `${policy.name} + ${by.name}`, tiers: { read_only, write, execute, external_api } };
}
