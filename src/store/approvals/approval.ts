/** Types of approvals: what a person is asked and answers, as in docs/protocol.md, and what is stored with it. */
import type { CallParent, Effect } from '../../base/call.ts';

export const IMPACTS = ['low', 'medium', 'high'] as const;
export type ImpactLevel = (typeof IMPACTS)[number];

/** How much harm a call may do, for a person who has to decide in seconds. */
export interface Impact {
  readonly level: ImpactLevel;
  /** One sentence. */
  readonly description: string;
  /** Points to check, one line each; bounded in number and length. */
  readonly warnings: readonly string[];
}

/** An effect as shown to people. */
export interface ShownEffect extends Effect {
  /** Set if a file is there that would be replaced. */
  readonly replaces?: true;
}

/** What a question of a door is about: something outside of the sandbox that a running call reaches for. */
export interface DoorTarget {
  /**
   * `upload`: more is to be sent to a host that is open. `secret`: a file that the policy hides. `path`: a folder outside of
   * the workspace, which commands may read.
   */
  readonly kind: 'host' | 'upload' | 'secret' | 'path';
  /** `host:port`, the host `*` is all hosts; a path from the workspace's root, or an absolute one. */
  readonly target: string;
  /** Path of the executable that waits, as the kernel knows it. */
  readonly program?: string;
}

/** The parts of a question that may be long. */
export interface WholeQuestion {
  readonly input: unknown;
  readonly effects: readonly ShownEffect[];
  readonly diff?: string;
}

/** A call that waits for a person, as shown to people. Secrets are redacted everywhere. */
export interface Approval {
  /** `a_` and twelve hex digits. */
  readonly approvalId: string;
  readonly callId: string;
  readonly sessionId: string;
  readonly principal: string;
  /** Name and version that the agent's client gave. */
  readonly client: string;
  /** The calls and tokens by which this one came about, the outermost first. */
  readonly parents: readonly CallParent[];
  readonly workspace: string;
  /** The folder that the call works in, relative to the workspace. */
  readonly cwd: string;
  readonly tool: string;
  /** Long texts are cut and marked as cut. */
  readonly input: unknown;
  /** Effects that destroy most come first. */
  readonly effects: readonly ShownEffect[];
  readonly impact: Impact;
  readonly costUsd?: number;
  /** How long calls of the tool took on average in the last day, in milliseconds; absent without a past. */
  readonly estimatedMs?: number;
  /** Unified diff, if one can be made. */
  readonly diff?: string;
  /** Set if parts of the input, the effects or the diff were cut; `approvals.get` has them whole. */
  readonly truncated?: true;
  /** Whether the call can be undone; absent if it changes nothing. */
  readonly undo?: 'full' | 'partial' | 'none';
  /** Longest time for which an answer may be remembered, in milliseconds; 0 forbids it. */
  readonly rememberMaxMs: number;
  /** In words, what remembering an approval would cover, for each offered way; neither is offered for code in a command line. */
  readonly remember: { readonly exact?: string; readonly tool?: string; readonly door?: string };
  /** Set if a running call waits at a door. */
  readonly door?: DoorTarget;
  /** Set if the answer may be remembered for the project: the workspace's real path. */
  readonly project?: string;
  /** Id of the rule that asked. */
  readonly rule: string;
  readonly reason: string;
  /** ISO 8601. */
  readonly requestedAt: string;
  /** ISO 8601; if nobody answers before then, the call ends with APPROVAL_TIMEOUT. */
  readonly expiresAt: string;
  /** Changes with anything that is shown; an answer that names it counts only for what the person saw. */
  readonly digest: string;
}

/**
 * Only pending → approved → used leads to a run. `expired` means that nobody answered; `withdrawn` means that the call ended, or would do
 * something else by now.
 */
export type ApprovalState = 'pending' | 'approved' | 'denied' | 'expired' | 'withdrawn' | 'used';

/** Kinds of command effects, from least to greatest reach. */
export const REACHES = ['reads', 'modifies', 'runs', 'remote'] as const;
export type Reach = (typeof REACHES)[number];

/** The facts that remembered answers are matched against. */
export interface GrantFacts {
  readonly sessionId: string;
  /** Sessions with the same name share what is remembered for the session, even one after another. */
  readonly sessionName?: string;
  readonly principal: string;
  /** Set for a call of a delegated session; a yes to its parent's calls covers none of its own. */
  readonly delegated?: true;
  readonly workspace: string;
  readonly tool: string;
  /** Hash of tool and canonical input. */
  readonly subjectHash: string;
  /** Id of the rule that asked; one of `askingRules`. */
  readonly rule: string;
  /** Ids of all rules that ask about the call. */
  readonly askingRules: readonly string[];
  readonly level: ImpactLevel;
  /** The furthest reach of its commands; absent for calls without commands. */
  readonly reach?: Reach;
  /** Programs that the call runs, by real path or as written; sorted. */
  readonly programs?: readonly string[];
  /** Whether its command line contains code (`node -e`, `sh -c`), for which no approval is remembered. */
  readonly hasInlineCode?: boolean;
  /** Whether parts of the call can't be known in advance. */
  readonly unknown: boolean;
  readonly policyVersion: string;
  /** Set for a question of a door, which only answers of doors cover. */
  readonly door?: DoorTarget;
  /** The workspace's real path, if an answer may be remembered for it, and the identity of the folder there. */
  readonly project?: string;
  readonly projectIs?: string;
}

export interface ApprovalDraft
  extends Omit<Approval, 'approvalId' | 'requestedAt' | 'expiresAt' | 'digest'>,
    Omit<GrantFacts, 'level'> {
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
  readonly proposedRule?: string;
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
}

/** Whether a yes at the door opens something for commands that begin after it: it counts for the session at least. */
export const opensForSession = ({ door }: Pick<Approval, 'door'>): boolean =>
  door?.kind === 'secret' || door?.kind === 'path';

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

/** The result of an answer. */
export interface AnswerResult {
  readonly approval: Approval;
  readonly grant?: Grant;
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
  readonly feedback?: string;
}

/** A remembered answer that applies to further calls. */
export interface Grant extends GrantFacts {
  /** `g_` and twelve hex digits. */
  readonly grantId: string;
  readonly decision: 'approve' | 'deny';
  readonly scope: RememberScope['scope'];
  readonly match: RememberScope['match'];
  readonly feedback?: string;
  /** The approval that it was given for. */
  readonly approvalId: string;
  readonly by: string;
  /** Milliseconds since the epoch. */
  readonly grantedAtMs: number;
  readonly expiresAtMs: number;
}

export type ApprovalEvent =
  /** `attached`: a new call asks a question that is already stored. */
  | { readonly kind: 'requested' | 'attached'; readonly approval: Approval }
  | { readonly kind: 'resolved'; readonly approval: Approval; readonly settled: ApprovalEnd }
  | { readonly kind: 'used'; readonly approval: Approval }
  | { readonly kind: 'granted'; readonly grant: Grant }
  | { readonly kind: 'revoked'; readonly grant: Grant; readonly by: string }
  | { readonly kind: 'grant-used'; readonly grant: Grant; readonly callId: string; readonly facts: GrantFacts };
