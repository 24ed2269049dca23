/** What a person's answer must be to count, and what it makes. Architecture invariant: changes nothing. */
import { RpcError } from '../../errors.ts';
import type { Powers } from '../../powers.ts';
import type { Grant, Resolution } from './approval.ts';
import { type ApprovalRow, toApproval, toFacts } from './approval-table.ts';

/** Throws RpcError INVALID_PARAMS if the question is not the one that the person saw: another call may ask it by now. */
export function assertShown(row: ApprovalRow, { digest }: Pick<Resolution, 'digest'>): void {
  if (digest === undefined || digest === toApproval(row).digest) return;
  throw new RpcError(
    'INVALID_PARAMS',
    `approval ${row.approvalId} is not what was shown any more, so that nothing was answered; look at it again`,
    { reason: 'APPROVAL_STALE' },
  );
}

/** The remembered answer that a person asks for. Throws RpcError INVALID_PARAMS if it may not be remembered. */
export function toGrant(
  row: ApprovalRow,
  { decision, remember, feedback, by }: Resolution,
  powers: Pick<Powers, 'now' | 'secret'>,
): Grant | undefined {
  if (!remember) return undefined;
  const { rememberMaxMs } = row.draft;
  const { scope, match, expiresMs = rememberMaxMs } = remember;
  if (decision === 'approve' && row.draft.hasInlineCode)
    throw new RpcError('INVALID_PARAMS', 'code in a command line can only be approved once');
  if (rememberMaxMs === 0) throw new RpcError('INVALID_PARAMS', 'the policy forbids remembering; answer once');
  if (expiresMs < 1 || expiresMs > rememberMaxMs)
    throw new RpcError('INVALID_PARAMS', `an answer is remembered for 1 to ${rememberMaxMs} ms, not ${expiresMs}`);
  const now = powers.now();
  return {
    ...toFacts(row),
    grantId: `g_${powers.secret().slice(0, 12)}`,
    decision,
    scope,
    match,
    by,
    approvalId: row.approvalId,
    ...(feedback !== undefined && { feedback }),
    grantedAtMs: now,
    expiresAtMs: now + expiresMs,
  };
}
