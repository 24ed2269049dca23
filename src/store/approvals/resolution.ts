/** What a person's answer must be to count, and what it makes. Changes no question and no grant. */
import { RpcError } from '../../base/errors.ts';
import type { Powers } from '../../base/powers.ts';
import { SYSTEM } from './answers.ts';
import {
  type ApprovalEvent,
  type Grant,
  type GrantFacts,
  opensForSession,
  type RememberScope,
  type Resolution,
  rememberFor,
} from './approval.ts';
import { type ApprovalRow, toApproval, toFacts } from './approval-table.ts';
import { UNBOUNDED_MS } from './grant-words.ts';

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
  { decision, remember: asked, feedback, by }: Resolution,
  powers: Pick<Powers, 'now' | 'secret'>,
): Grant | undefined {
  const isOpened = decision === 'approve' && opensForSession(row.draft);
  const remember = asked ?? (isOpened ? rememberFor(toApproval(row)) : undefined);
  if (!remember) return undefined;
  const { rememberMaxMs } = row.draft;
  const { scope, match, expiresMs = rememberMaxMs } = remember;
  const { door, project } = row.draft;
  if ((match === 'door') !== (door !== undefined) || scope === (door ? 'always' : 'project'))
    throw new RpcError(
      'INVALID_PARAMS',
      'an answer about a door is remembered for it alone, for the session or the project',
    );
  if (scope === 'project' && (!door || project === undefined))
    throw new RpcError('INVALID_PARAMS', 'this workspace is a home or a whole disk, so nothing is remembered for it');
  const grantOf = (lastsMs: number) => toGrantOf(row, { decision, scope, match, feedback, by }, { lastsMs, powers });
  if (door) return grantOf(remember.expiresMs ?? UNBOUNDED_MS);
  if (decision === 'approve' && row.draft.hasInlineCode)
    throw new RpcError('INVALID_PARAMS', 'code in a command line can only be approved once');
  if (decision === 'approve' && row.draft.sessionOnly && (scope === 'always' || match === 'rule'))
    throw new RpcError(
      'INVALID_PARAMS',
      'a yes to publish counts for this session at most, for the same verb and remote',
    );
  if (rememberMaxMs === 0)
    throw new RpcError('INVALID_PARAMS', 'an answer to this question may not be remembered; answer once');
  if (expiresMs < 1 || expiresMs > rememberMaxMs)
    throw new RpcError('INVALID_PARAMS', `an answer is remembered for 1 to ${rememberMaxMs} ms, not ${expiresMs}`);
  return grantOf(expiresMs);
}

function toGrantOf(
  row: ApprovalRow,
  { decision, scope, match, feedback, by }: Pick<Resolution, 'decision' | 'feedback' | 'by'> & RememberScope,
  { lastsMs, powers }: { lastsMs: number; powers: Pick<Powers, 'now' | 'secret'> },
): Grant {
  const now = powers.now();
  return {
    ...toFacts(row),
    grantId: `g_${powers.secret().slice(0, 12)}`,
    decision,
    scope,
    match,
    by,
    approvalId: row.approvalId,
    feedback,
    grantedAtMs: now,
    expiresAtMs: now + lastsMs,
  };
}

/** The answer that closes the doors of a session for hosts, which no person gave. */
export function toClosing(facts: GrantFacts, lastsMs: number, powers: Pick<Powers, 'now' | 'secret'>): Grant {
  const now = powers.now();
  return {
    ...facts,
    grantId: `g_${powers.secret().slice(0, 12)}`,
    decision: 'deny',
    scope: 'session',
    match: 'door',
    by: SYSTEM,
    approvalId: '',
    grantedAtMs: now,
    expiresAtMs: now + lastsMs,
  };
}

/** Records an answer durably. Throws RpcError INTERNAL if that fails: the answer does not count, and the person may answer again. */
export function recordAnswer(
  event: ApprovalEvent,
  { record, powers }: { record?(event: ApprovalEvent): void; readonly powers: Pick<Powers, 'log'> },
): void {
  try {
    record?.(event);
  } catch (error) {
    powers.log.error({ error, kind: event.kind }, 'an answer could not be written to the audit log');
    throw new RpcError(
      'INTERNAL',
      'the answer was not accepted, because the audit log can not be written; answer again later',
    );
  }
}
