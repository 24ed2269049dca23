import { ToolError } from '../errors.ts';
import { decide } from '../policy/decide.ts';
import { checkedOf, type Stage } from './stage.ts';

/** The policy's answer for the call's tier and effects. `ask` is a denial until there are approvals, and says so. */
export const permission: Stage = (next) => (call) => {
  const { tool, tier, effects } = checkedOf(call);
  const { decision, rule } = decide(call.policy, { tier, effects });
  call.decision = decision;
  call.rule = rule.id;
  if (decision === 'allow') return next(call);

  const name = call.policy.name;
  const asks = decision === 'ask';
  const message = asks
    ? `\`${tool.name}\` is in tier ${tier}, which policy \`${name}\` asks a person about; approvals aren't there yet, so it is denied`
    : `\`${tool.name}\` is in tier ${tier}, which policy \`${name}\` denies (${rule.reason})`;
  throw new ToolError('POLICY_DENIED', message, {
    rule: rule.id,
    suggestion: `The person who runs the daemon can allow it: \`ringfence serve --policy FILE\` with \`tiers: {${tier}: {decision: allow}}\`.`,
    details: { decision, source: rule.source },
  });
};
