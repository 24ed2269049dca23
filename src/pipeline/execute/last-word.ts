/** Whether a call may still start: the policy and the answer of a person may have changed while it waited. */
import { ToolError } from '../../base/errors.ts';
import type { Policy } from '../../policy/schema.ts';
import { decideAgain } from '../permission.ts';
import type { ClearedCall } from '../stage.ts';
import type { ExecuteParts } from './parts.ts';

/** The last checks before a call starts that needs no tier host. */
export async function lastWord(call: ClearedCall, parts: ExecuteParts): Promise<void> {
  policyOfStart(call, parts);
  call.onStart?.();
  await call.approval?.confirm?.();
  parts.writes.begin(call);
}

/** The policy in force now, if it lets the call run as it is. Throws POLICY_DENIED, APPROVAL_STALE. */
export function policyOfStart(call: ClearedCall, { permission }: ExecuteParts): Policy {
  const policy = call.policyNow();
  // An approval of this call is bound to the policy, and `confirm` refuses it itself.
  if (policy.version === call.policy.version) return policy;
  if (decideAgain(call, policy, permission) !== 'ask' || call.approval?.confirm) return policy;
  const { tool } = call.checked;
  throw new ToolError('APPROVAL_STALE', `the policy changed and now asks a person about \`${tool.name}\``, {
    suggestion: 'Call again to ask the person.',
    details: { changed: ['the policy'] },
  });
}
