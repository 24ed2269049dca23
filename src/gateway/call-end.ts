/** How a call of a session ends: the state that its result means, and the errors of calls that are cut short or do not begin. */
import type { CallState, ToolResult } from '../base/call.ts';
import { ToolError } from '../base/errors.ts';
import { askingRuleOf } from '../pipeline/approve/approve.ts';
import { type Call, isJudged } from '../pipeline/stage.ts';
import { parked } from '../store/approvals/answers.ts';
import type { KeptCall } from './kept-calls.ts';

/** The last state of a call with this result. */
export function endOf(result: ToolResult): CallState {
  if (result.success) return { status: 'done' };
  const { code, details } = result.error;
  if (code === 'CANCELLED') return { status: 'cancelled' };
  return { status: code === 'APPROVAL_DENIED' && !details?.headless ? 'rejected-by-user' : 'error' };
}

/**
 * The error for an aborted call. If it was waiting for a person, its question stays open and can be answered for the same call made again.
 */
export function whileAsked({ record, reached }: KeptCall, reason: ToolError): ToolError {
  if (reason.code !== 'TIMEOUT' || record.state.status !== 'blocked-on-user') return reason;
  if (!reached || !isJudged(reached)) return reason;
  const { approvalId } = record.state;
  return parked({ approvalId, tool: reached.name, ...askingRuleOf(reached) }, Number(reason.extras.details?.limit));
}

/** The error of a call whose caller gave it too little time. */
export function late(call: Call, limit: number): ToolError {
  return new ToolError('TIMEOUT', `\`${call.name}\` did not finish within the ${limit} ms that its caller set`, {
    details: { limit, used: limit, enforcedBy: 'timer' },
  });
}

/** The error of a detached call of a delegated session. */
export const notDetached = (): ToolError =>
  new ToolError('UNSUPPORTED', 'a delegated session makes no detached calls: its calls end with it');
