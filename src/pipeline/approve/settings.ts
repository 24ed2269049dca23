/** The settings of a policy about questions. */
import type { ApprovalSettings, Policy } from '../../policy/schema.ts';

/** The strictest approval settings of all policy layers. */
export function settingsOf(policy: Policy): ApprovalSettings {
  return policy.and.map(settingsOf).reduce(
    (a, b) => ({
      timeoutMs: Math.min(a.timeoutMs, b.timeoutMs),
      headless: a.headless === 'deny' || b.headless === 'deny' ? 'deny' : 'wait',
      rememberMaxMs: Math.min(a.rememberMaxMs, b.rememberMaxMs),
    }),
    policy.approvals,
  );
}

/** Whether calls that ask are refused where nobody could answer. */
export const isHeadless = (policy: Policy): boolean => settingsOf(policy).headless === 'deny';
