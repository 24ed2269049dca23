/** Limits how many questions reach a person: somebody who is asked constantly approves everything. */
import { ToolError } from '../../base/errors.ts';
import type { Limits } from '../../base/limits.ts';
import type { ApprovalDraft } from './approval.ts';
import type { ApprovalTable } from './approval-table.ts';

const MINUTE_MS = 60_000;
/** Retry delay in milliseconds when only a person can make room. */
const FULL_RETRY_MS = 5_000;

/** Throws RATE_LIMITED with `retryAfterMs` if too many questions are pending or were asked within a minute. */
export function assertMayAsk(
  table: ApprovalTable,
  { sessionId, principal }: ApprovalDraft,
  limits: Limits,
  now: number,
): void {
  const { approvalsPendingMax, approvalsPendingAllMax, approvalsPerMinute, approvalsPerMinutePrincipal } = limits;
  const pending = table.pending();
  const mine = pending.filter(({ draft }) => draft.sessionId === sessionId).length;
  if (mine >= approvalsPendingMax || pending.length >= approvalsPendingAllMax) {
    const waiting = `${mine} questions of this session and ${pending.length} in all wait for a person`;
    throw tooMany(`${waiting}; at most ${approvalsPendingMax} and ${approvalsPendingAllMax} may`, FULL_RETRY_MS);
  }
  for (const [of, max, whose] of [
    [{ session_id: sessionId }, approvalsPerMinute, 'this session'],
    [{ principal }, approvalsPerMinutePrincipal, 'this principal'],
  ] as const) {
    const asked = table.requestedSince(of, now - MINUTE_MS);
    if (asked.length < max) continue;
    const retryAfterMs = Math.max(1, (asked[asked.length - max] as number) + MINUTE_MS - now);
    const message = `${whose} asked a person ${asked.length} times within a minute; at most ${max} are let through`;
    throw tooMany(message, retryAfterMs);
  }
}

function tooMany(message: string, retryAfterMs: number): ToolError {
  return new ToolError('RATE_LIMITED', message, {
    layer: 'approval',
    suggestion: 'Wait for the answers, or make fewer calls that need approval.',
    details: { retryAfterMs },
  });
}
