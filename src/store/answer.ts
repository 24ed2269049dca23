/** What a stored approval means to those who wait for it, or answer it. Architecture invariant: pure. */
import { RpcError, ToolError } from '../errors.ts';
import type { Answer, Approval } from './approval.ts';
import type { Row } from './approval-table.ts';

/** Who settles what no person did. */
export const SYSTEM = 'ringfence';

/** The error of an answer to what waits no longer, or never did. */
export function notAnswerable(approvalId: string, row: Row | undefined): RpcError {
  const id = approvalId.slice(0, 64);
  if (!row) return new RpcError('INVALID_PARAMS', `there is no approval ${id}; approvals.list has those that wait`);
  const { state, settled } = row;
  const when = settled ? ` at ${settled.at} by ${settled.by}` : '';
  return new RpcError(
    'INVALID_PARAMS',
    `approval ${id} waits no longer: it was ${state === 'used' ? 'approved and used' : state}${when}`,
    {
      state,
    },
  );
}

/** What was said of it; a no where nothing was. */
export function toAnswer({ approvalId, settled }: Row): Answer {
  const { decision = 'deny', by = SYSTEM, feedback } = settled ?? {};
  return {
    ...{ approvalId, by, decision: decision === 'approve' ? 'approve' : 'deny' },
    ...(feedback !== undefined && { feedback }),
  };
}

/** The error of a call that nobody answered. */
export function unanswered({ approvalId, draft }: Row): ToolError {
  return new ToolError(
    'APPROVAL_TIMEOUT',
    `nobody answered within ${draft.timeoutMs} ms whether \`${draft.tool}\` may run`,
    {
      rule: draft.rule,
      suggestion: 'Ask the person to watch `ringfence approvals watch`, then call again.',
      details: { approvalId, limit: draft.timeoutMs },
    },
  );
}

/** Ends a call that nobody has answered yet, and leaves its question: the same call made again takes the answer, or waits on. */
export function parked({ approvalId, tool }: Pick<Approval, 'approvalId' | 'tool'>): ToolError {
  return new ToolError('APPROVAL_TIMEOUT', `\`${tool}\` waits for a person's yes (approval ${approvalId})`, {
    suggestion: `Ask the person to run \`ringfence approvals approve ${approvalId}\` (or deny), then make the very same call again: it takes the answer.`,
    details: { approvalId, pending: true },
  });
}

/** Whether a call that ends for this reason leaves its question to be answered. */
export const leavesQuestion = ({ code, extras }: ToolError): boolean =>
  code === 'SHUTTING_DOWN' || (code === 'APPROVAL_TIMEOUT' && extras.details?.pending === true);
