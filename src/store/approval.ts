/** What a person is asked about a call and what they answer: the shapes of docs/protocol.md, and what is kept beside them. */
import type { Effect } from '../call.ts';

export const IMPACTS = ['low', 'medium', 'high'] as const;
export type ImpactLevel = (typeof IMPACTS)[number];

/** How much a call may do, for a person who has to decide in seconds. */
export interface Impact {
  readonly level: ImpactLevel;
  /** One sentence. */
  readonly description: string;
  /** What to look at, one line each; bounded in number and length. */
  readonly warnings: readonly string[];
}

/** What is shown of a call that waits for a person. Secrets are hidden in all of it. */
export interface Approval {
  /** `a_` and twelve hex digits. */
  readonly approvalId: string;
  readonly callId: string;
  readonly sessionId: string;
  readonly principal: string;
  readonly workspace: string;
  readonly tool: string;
  /** Long texts are cut, and say so. */
  readonly input: unknown;
  readonly effects: readonly Effect[];
  readonly impact: Impact;
  readonly costUsd?: number;
  /** Unified diff, where one can be made. */
  readonly diff?: string;
  /** What a yes that is remembered would cover, in words, for each way that is offered; neither for code in a command line. */
  readonly remember: { readonly exact?: string; readonly tool?: string };
  /** Id of the rule that asks. */
  readonly rule: string;
  readonly reason: string;
  /** ISO 8601. */
  readonly requestedAt: string;
  /** ISO 8601; when nobody has answered by then, the call ends with APPROVAL_TIMEOUT. */
  readonly expiresAt: string;
}

/**
 * pending → approved → used, and nothing else leads to a run. `expired` is for those that nobody answered, `withdrawn`
 * for those whose call ended, or would do something else by now.
 */
export type ApprovalState = 'pending' | 'approved' | 'denied' | 'expired' | 'withdrawn' | 'used';

/** Kinds of what commands do, from the one that reaches least. */
export const REACHES = ['reads', 'modifies', 'runs', 'remote'] as const;
export type Reach = (typeof REACHES)[number];

/** What remembered answers are compared by. */
export interface Facts {
  readonly sessionId: string;
  /** Sessions of one name share what is remembered for the session, also one after the other. */
  readonly sessionName?: string;
  readonly principal: string;
  readonly workspace: string;
  readonly tool: string;
  /** Hash of tool and canonical input. */
  readonly subjectHash: string;
  /** Id of the rule that asks; one of `askingRules`. */
  readonly rule: string;
  /** Ids of all rules that ask about the call. */
  readonly askingRules: readonly string[];
  readonly level: ImpactLevel;
  /** What its commands do, of the kind that reaches furthest; absent for calls without commands. */
  readonly reach?: Reach;
  /** Programs that it runs, by real path or as written; sorted. */
  readonly programs?: readonly string[];
  /** Whether code stands in its command line (`node -e`, `sh -c`): no yes is remembered for that. */
  readonly hasInlineCode?: boolean;
  /** Whether parts of the call can't be known beforehand. */
  readonly unknown: boolean;
  readonly policyVersion: string;
}

export interface Draft extends Omit<Approval, 'approvalId' | 'requestedAt' | 'expiresAt'>, Omit<Facts, 'level'> {
  /** Hash of all that must be the same when the call runs; see pipeline/binding.ts. */
  readonly bindingHash: string;
  readonly timeoutMs: number;
  /** Longest time for which an answer may be remembered; 0: not at all. */
  readonly rememberMaxMs: number;
  /** Text of a rule that would make the answer permanent, for the person's policy file. */
  readonly proposedRule?: string;
}

export interface Remember {
  readonly scope: 'session' | 'always';
  /** `exact`: same tool and input; `tool`: same tool; `rule`: asked about by the same rule. */
  readonly match: 'exact' | 'tool' | 'rule';
  readonly expiresMs?: number | undefined;
}

/** What an answer for the session stands for: of what is dangerous, and of what runs programs, no more than the very same call. */
export function rememberFor({ effects, impact, input, remember }: Approval): Remember {
  const runs =
    effects.some((it) => it.kind === 'exec') || (typeof input === 'object' && input !== null && 'command' in input);
  return { scope: 'session', match: impact.level === 'high' || remember.tool === undefined || runs ? 'exact' : 'tool' };
}

/** The same for the whole tool, which a person may choose where little can go wrong; undefined where it is not offered. */
export function rememberToolFor(approval: Approval): Remember | undefined {
  const isOffered = approval.impact.level === 'low' && approval.remember.tool !== undefined;
  return isOffered && rememberFor(approval).match === 'exact' ? { scope: 'session', match: 'tool' } : undefined;
}

export interface Resolution {
  readonly decision: 'approve' | 'deny';
  readonly feedback?: string | undefined;
  readonly remember?: Remember | undefined;
  /** Who answered, for the record. */
  readonly by: string;
}

/** How an approval stopped waiting. */
export interface Settled {
  readonly decision: 'approve' | 'deny' | 'expired' | 'withdrawn';
  /** A person, `grant <id>`, or `ringfence`. */
  readonly by: string;
  /** ISO 8601. */
  readonly at: string;
  readonly feedback?: string;
}

/** What a person said about a call. */
export interface Answer {
  readonly approvalId: string;
  readonly decision: 'approve' | 'deny';
  readonly by: string;
  readonly feedback?: string;
}

/** An answer that stands for further calls. */
export interface Grant extends Facts {
  /** `g_` and twelve hex digits. */
  readonly grantId: string;
  readonly decision: 'approve' | 'deny';
  readonly scope: Remember['scope'];
  readonly match: Remember['match'];
  readonly feedback?: string;
  /** The approval that it was given with. */
  readonly approvalId: string;
  readonly by: string;
  /** Milliseconds since the epoch. */
  readonly grantedAtMs: number;
  readonly expiresAtMs: number;
}

export type ApprovalEvent =
  /** `attached`: a new call asks what is stored already. */
  | { readonly kind: 'requested' | 'attached'; readonly approval: Approval }
  | { readonly kind: 'resolved'; readonly approval: Approval; readonly settled: Settled }
  | { readonly kind: 'used'; readonly approval: Approval }
  | { readonly kind: 'granted'; readonly grant: Grant }
  | { readonly kind: 'revoked'; readonly grant: Grant; readonly by: string }
  | { readonly kind: 'grant-used'; readonly grant: Grant; readonly callId: string; readonly facts: Facts };
