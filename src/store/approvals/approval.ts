/** Types of approvals: what a person is asked and answers, as in docs/protocol-reference.md, and what is stored with it. */
import type * as z from 'zod';
import type { Read } from '../../base/result-shapes.ts';
import type * as shapes from './shapes.ts';

export type Impact = Read<z.output<typeof shapes.impact>>;
export type ImpactLevel = Impact['level'];
/** An effect as shown to people. */
export type ShownEffect = Read<z.output<typeof shapes.shownEffect>>;
export type WholeQuestion = Read<z.output<typeof shapes.wholeQuestion>>;
export type Approval = Read<z.output<typeof shapes.approval>>;
export type DoorTarget = NonNullable<Approval['door']>;
export type Reach = (typeof shapes.REACHES)[number];

export type GrantFacts = Read<z.output<typeof shapes.grantFacts>> & {
  /** Sessions with the same name share what is remembered for the session, even one after another. */
  readonly sessionName?: string | undefined;
  /** Whether its command line contains code (`node -e`, `sh -c`), for which no approval is remembered. */
  readonly hasInlineCode?: boolean | undefined;
};
export type Grant = GrantFacts & Read<z.output<typeof shapes.grant>>;

/**
 * Only pending → approved → used leads to a run. `expired` means that nobody answered; `withdrawn` means that the call ended, or would do
 * something else by now.
 */
export type ApprovalState = 'pending' | 'approved' | 'denied' | 'expired' | 'withdrawn' | 'used';

export interface ApprovalDraft
  extends Omit<Approval, 'approvalId' | 'requestedAt' | 'expiresAt' | 'digest'>,
    Omit<GrantFacts, 'level' | 'door'> {
  /** Hash of everything that must be unchanged when the call runs; see pipeline/binding.ts. */
  readonly bindingHash: string;
  readonly timeoutMs: number;
  /** Whether the call publishes: a yes is remembered for the session at most, for this verb and remote. */
  readonly sessionOnly?: true;
  /** A policy rule that would make the answer permanent, for the person's policy file. */
  readonly proposedRule?: string;
  /** The question before parts of it were cut, if any were; kept only while it waits. */
  readonly whole?: WholeQuestion;
}

/** The answer to `approvals.get`. */
export interface WholeApproval {
  readonly approval: Approval;
  readonly whole: WholeQuestion;
  readonly proposedRule?: string | undefined;
}

export interface RememberScope {
  readonly scope: 'session' | 'project' | 'always';
  /** `exact`: same tool and input; `tool`: same tool; `rule`: asked by the same rule; `door`: the same door. */
  readonly match: 'exact' | 'tool' | 'rule' | 'door';
  readonly expiresMs?: number | undefined;
}

/** What a person's answers at doors let a session see. */
export interface Openings {
  /** Paths from the workspace's root that the policy hides. */
  readonly secrets: readonly string[];
  /** Folders outside of the workspace, absolute. */
  readonly folders: readonly string[];
  /** Services of this machine, each by port, program and owner. */
  readonly services: readonly string[];
}

/** Whether a yes at the door opens something for commands that begin after it: it counts for the session at least. */
export const opensForSession = ({ door }: Pick<Approval, 'door'>): boolean =>
  door?.kind === 'secret' || door?.kind === 'path' || door?.kind === 'service';

/** What an answer "for the session" covers; only the identical call if it is dangerous or runs programs. */
export function rememberFor({ door, effects, impact, input, remember }: Approval): RememberScope {
  if (door) return { scope: 'session', match: 'door' };
  const runs =
    effects.some((it) => it.kind === 'exec') || (typeof input === 'object' && input !== null && 'command' in input);
  return { scope: 'session', match: impact.level === 'high' || remember.tool === undefined || runs ? 'exact' : 'tool' };
}

/** In words, what a yes "for the session" covers; undefined if it is not offered. */
export const coverageOf = (approval: Approval): string | undefined => {
  const { match } = rememberFor(approval);
  return approval.remember[match === 'rule' ? 'exact' : match];
};

/** What an answer for the project covers; undefined if it is not offered. */
export const rememberProjectFor = ({ door, project }: Approval): RememberScope | undefined =>
  door && project !== undefined ? { scope: 'project', match: 'door' } : undefined;

/** What an answer for the whole tool covers, offered only for low impact; undefined if it is not offered. */
export function rememberToolFor(approval: Approval): RememberScope | undefined {
  const isOffered = approval.impact.level === 'low' && approval.remember.tool !== undefined;
  return isOffered && rememberFor(approval).match === 'exact' ? { scope: 'session', match: 'tool' } : undefined;
}

export interface Resolution {
  readonly decision: 'approve' | 'deny';
  readonly feedback?: string | undefined;
  readonly remember?: RememberScope | undefined;
  /** The digest of the question that the person saw; if it is another one now, the answer is refused. */
  readonly digest?: string | undefined;
  /** The person or program that answered, for the record. */
  readonly by: string;
}

export interface AnswerResult {
  readonly approval: Approval;
  readonly grant?: Grant | undefined;
  /** A policy rule that makes the answer permanent; the person may add it to their policy file. */
  readonly proposedRule?: string;
  /** Other approvals that the remembered answer settled. */
  readonly alsoSettled: readonly string[];
}

/** How an approval ended. */
export interface ApprovalEnd {
  readonly decision: 'approve' | 'deny' | 'expired' | 'withdrawn';
  /** A person, `grant <id>` or `ringfence`. */
  readonly by: string;
  /** ISO 8601. */
  readonly at: string;
  readonly feedback?: string;
}

/** A person's answer about a call. */
export interface PersonAnswer {
  readonly approvalId: string;
  readonly decision: 'approve' | 'deny';
  readonly by: string;
  readonly feedback?: string | undefined;
}

export type ApprovalEvent =
  /** `attached`: a new call asks a question that is already stored. */
  | { readonly kind: 'requested' | 'attached'; readonly approval: Approval }
  | { readonly kind: 'resolved'; readonly approval: Approval; readonly settled: ApprovalEnd }
  | { readonly kind: 'used'; readonly approval: Approval }
  | { readonly kind: 'granted'; readonly grant: Grant }
  | { readonly kind: 'revoked'; readonly grant: Grant; readonly by: string }
  | { readonly kind: 'grant-used'; readonly grant: Grant; readonly callId: string; readonly facts: GrantFacts };
