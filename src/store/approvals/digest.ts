/** The digest of a question: an answer that names it counts only for what the person saw. Architecture invariant: pure. */
import { createHash } from 'node:crypto';
import { canonical } from '../../base/text/values.ts';
import type { Approval, WholeQuestion } from './approval.ts';

/** The parts of a question that stay the same while it waits. */
export type ShownQuestion = Omit<Approval, 'approvalId' | 'requestedAt' | 'expiresAt' | 'digest'>;

/** Digest of what is shown, of what was cut from it, and of the rule that would make the answer permanent. */
export const digestOf = (shown: ShownQuestion, wholeHash = '', proposedRule = ''): string =>
  hashOf({ ...shown, whole: wholeHash, proposedRule });

export const hashOfWhole = (whole: WholeQuestion): string => hashOf(whole);

/**
 * The digest of a question as somebody received it, computed again: whoever changed anything of it on the way can't have it
 * answered, since no question of the daemon has that digest. `whole` is needed if parts of the question were cut.
 */
export function digestOfReceived(
  { approvalId: _id, requestedAt: _from, expiresAt: _to, digest: _claimed, ...shown }: Approval,
  { whole, proposedRule }: { readonly whole?: WholeQuestion | undefined; readonly proposedRule?: string | undefined },
): string {
  return digestOf(shown, shown.truncated && whole ? hashOfWhole(whole) : '', proposedRule);
}

const hashOf = (value: unknown): string => createHash('sha256').update(canonical(value)).digest('hex');
