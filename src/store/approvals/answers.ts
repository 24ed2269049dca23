/** Errors and answers made from stored approvals. Architecture invariant: pure. */
import { RpcError, ToolError } from '../../base/errors.ts';
import type { Approval, PersonAnswer } from './approval.ts';
import type { ApprovalRow } from './approval-table.ts';

/** The author of decisions that no person made. */
export const SYSTEM = 'ringfence';

/** The error of answering an approval that no longer waits, or that never existed. */
export function notAnswerable(approvalId: string, row: ApprovalRow | undefined): RpcError {
  const id = approvalId.slice(0, 64);
  if (!row) return new RpcError('INVALID_PARAMS', `there is no approval ${id}; approvals.list lists those that wait`);
  const { state, settled } = row;
  const when = settled ? ` at ${settled.at} by ${settled.by}` : '';
  return new RpcError(
    'INVALID_PARAMS',
    `approval ${id} no longer waits: it was ${state === 'used' ? 'approved and used' : state}${when}`,
    {
      state,
    },
  );
}

/** The answer stored in a row; deny if there is none. */
export function toAnswer({ approvalId, settled }: ApprovalRow): PersonAnswer {
  const { decision = 'deny', by = SYSTEM, feedback } = settled ?? {};
  return {
    approvalId,
    by,
    decision: decision === 'approve' ? 'approve' : 'deny',
    feedback,
  };
}

/** The error of a call that nobody answered in time. */
export function unanswered({ approvalId, draft }: ApprovalRow): ToolError {
  return new ToolError(
    'APPROVAL_TIMEOUT',
    `nobody answered within ${draft.timeoutMs} ms whether \`${draft.tool}\` may run, ${whyAsked(draft)}`,
    {
      rule: draft.rule,
      suggestion: 'Ask the person to watch `ringfence approvals watch`, then call again.',
      details: { approvalId, limit: draft.timeoutMs },
    },
  );
}

const whyAsked = ({ rule, reason }: Pick<Approval, 'rule' | 'reason'>): string =>
  `about which rule \`${rule}\` asks: ${reason}`;

/**
 * The error of a call that ends before anybody answered. The question stays: the same call made again takes the answer or waits further.
 */
export function parked(waiting: PendingApproval, limitMs?: number): ToolError {
  const { approvalId, tool, rule } = waiting;
  const after = limitMs === undefined ? '' : `, and its caller's ${limitMs} ms are over`;
  const message = `\`${tool}\` waits for a person's yes (approval ${approvalId})${after}, ${whyAsked(waiting)}`;
  return new ToolError('APPROVAL_TIMEOUT', message, {
    rule,
    suggestion: `Ask the person to run ${howToAnswer(approvalId)}`,
    details: { approvalId, pending: true, limit: limitMs },
  });
}

/** The error of a call whose caller does not wait for a person; the question stays as with `parked`. */
export function required(waiting: PendingApproval): ToolError {
  const { approvalId, tool, rule } = waiting;
  const message = `\`${tool}\` needs a person's yes, and nobody is there to give it (approval ${approvalId}), ${whyAsked(waiting)}`;
  return new ToolError('APPROVAL_REQUIRED', message, {
    rule,
    suggestion: `Run ${howToAnswer(approvalId)}`,
    details: { approvalId, pending: true },
  });
}

type PendingApproval = Pick<Approval, 'approvalId' | 'tool' | 'rule' | 'reason'>;

const howToAnswer = (approvalId: string): string =>
  `\`ringfence approvals approve ${approvalId}\` (or deny), then make the very same call again: it takes the answer.`;

/** Whether a call that ends for this reason leaves its question open. */
export const leavesQuestion = ({ code, extras }: ToolError): boolean =>
  code === 'SHUTTING_DOWN' || (code.startsWith('APPROVAL_') && extras.details?.pending === true);
