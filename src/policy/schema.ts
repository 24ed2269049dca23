/** The types of a policy with its parents merged in. schema/policy-file.ts has the schema of the files that policies are read from. */
import type { Decision, Tier } from '../base/call.ts';
import type { NetworkLayer } from './network.ts';
import type { ArgumentParts } from './schema/arguments.ts';
import type { MatchSpec } from './schema/match.ts';
import { type Forward, LOCKS, type Locks, type UnixSockets } from './schema/tiers.ts';

/** Source and reason of a decision, as explanations and audit entries show them. */
export interface RuleFacts {
  /** The rule's own id, or `tiers.<tier>.decision`, `tiers.<tier>.approve`, `tools.disable`, `tools.<name>.decision`. */
  readonly id: string;
  readonly decision: Decision;
  readonly reason: string;
  /** `file:line`. */
  readonly source: string;
}

/** A rule of a policy; `match` is plain data, so that it can be sent to hosts. */
export interface Rule extends RuleFacts {
  readonly match: MatchSpec;
  /** Error code of a refusal by this rule; POLICY_DENIED when absent. */
  readonly code?: 'TOOL_DISABLED' | 'SENSITIVE_FILE' | undefined;
  /** For a rule that asks: a command runs as a preview first, and the person is asked about what it did. */
  readonly preview?: 'required' | undefined;
  readonly examples?: {
    readonly match?: readonly string[] | undefined;
    readonly no_match?: readonly string[] | undefined;
  };
}

/** Bounds of a tier, which a child may lower. Only execute has `processes` and `fileMb`; external_api has no `cpuMs` and `memoryMb`. */
export const TIER_BOUNDS = [
  'timeoutMs',
  'outputBytes',
  'costUsdPerDay',
  'costUsdPerSession',
  'costUsdPerPrincipalDay',
  'costUsdAskAbove',
  'cpuMs',
  'memoryMb',
  'processes',
  'fileMb',
] as const;
export type TierBound = (typeof TIER_BOUNDS)[number];

export interface TierRule extends RuleFacts, Partial<Readonly<Record<TierBound, number>>> {
  /**
   * What commands or requests may connect to: nothing when absent; `any` leaves it to the other layers. Only for execute and external_api.
   */
  readonly network?: NetworkLayer | 'any';
  /** Whether a person is asked about a host that `network` does not list. */
  readonly networkAsks?: true;
  /** The rule that asks about destructive calls of an allowed tier, if the policy has one. */
  readonly approveDestructive?: RuleFacts;
  /** Only for the execute tier. */
  readonly locks?: Locks;
  readonly unixSockets?: UnixSockets;
  readonly forward?: Forward;
  readonly previewNetwork?: boolean;
  readonly preview?: 'required';
}

export interface RateLimit {
  readonly tool: readonly string[];
  readonly calls: number;
  readonly perMs: number;
  readonly per: 'session' | 'principal' | 'daemon';
  readonly source: string;
}

export interface ArgumentRule {
  readonly tool: readonly string[];
  readonly parts: ArgumentParts;
  readonly source: string;
}

export interface ApprovalSettings {
  readonly timeoutMs: number;
  readonly headless: 'deny' | 'wait';
  readonly rememberMaxMs: number;
}

/** Bounds of one tool, in milliseconds and in bytes of a result. */
export type ToolBounds = Partial<Readonly<Record<'timeoutMs' | 'outputBytes', number>>>;

/** A policy with its parents merged in. */
export interface Policy {
  /** Built-in name or file path. */
  readonly name: string;
  /** Hash of everything that decides, parents included; a policy with another version may decide differently. `sha256:<hex>`. */
  readonly version: string;
  readonly tiers: Readonly<Record<Tier, TierRule>>;
  readonly rules: readonly Rule[];
  readonly rateLimits: readonly RateLimit[];
  readonly approvals: ApprovalSettings;
  /** How arguments of calls are rewritten; those of the parent come last, so that they hold. */
  readonly arguments?: readonly ArgumentRule[];
  /** Bounds of single tools, by the name or alias that the policy uses; lower than those of their tier. */
  readonly toolBounds?: Readonly<Record<string, ToolBounds>>;
  /** Variables that callers may set for commands; undefined means all. */
  readonly environment?: readonly string[];
  readonly open: readonly string[];
  /** Folders outside of the workspace that a person opened for the commands of a session, absolute. */
  readonly folders?: readonly string[];
  /** Services of this machine that a person opened for them: port, program and owner. */
  readonly services?: readonly string[];
  /** Further policies that must agree, such as a session's or a project's. The strictest one decides. */
  readonly and: readonly Policy[];
}

/** Whether commands may use Unix sockets of their own: `none` if any layer says so. */
export const unixSocketsOf = (policy: Policy): UnixSockets =>
  [policy, ...policy.and].some(({ tiers }) => tiers.execute.unixSockets === 'none') ? 'none' : 'own';

/** Whether a person may open a port of a command in the background: not if any layer denies it. */
export const mayForward = (policy: Policy): boolean =>
  [policy, ...policy.and].every(({ tiers }) => tiers.execute.forward !== 'deny');

/** The strictest locks that any layer sets; `workspace` if none does. */
export function locksOf(policy: Policy): Locks {
  const said = [policy, ...policy.and].flatMap(({ tiers }) => tiers.execute.locks ?? []);
  return (
    said.reduce<Locks | undefined>(
      (most, it) => (most === undefined || LOCKS.indexOf(it) > LOCKS.indexOf(most) ? it : most),
      undefined,
    ) ?? 'workspace'
  );
}
