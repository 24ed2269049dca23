/** What a call is, on every face: the shapes of docs/protocol.md. */
import * as z from 'zod';
import { LAYERS, type WireError } from './errors.ts';

export const TIERS = ['read_only', 'write', 'execute', 'external_api'] as const;
export type Tier = (typeof TIERS)[number];
/** What a host is confined for; isolates are of no tier of a policy, since they have no authority of their own. */
export type HostTier = Tier | 'isolate';

export type Decision = 'allow' | 'ask' | 'deny';

export interface Effect {
  readonly kind: 'read' | 'write' | 'delete' | 'exec' | 'connect';
  /** A path relative to the workspace, a command line, or host:port. */
  readonly target: string;
}

export interface FileChange {
  /** As the caller named it; a directory, changed with all that is in it, ends with `/`. */
  path: string;
  kind: 'create' | 'modify' | 'delete' | 'rename';
  /** What it was called before, of a rename. */
  from?: string;
}

/** What ended a call, in the words of the limit that did. */
export type Verdict =
  | 'ok'
  | 'timeout'
  | 'cpu'
  | 'memory'
  | 'processes'
  | 'output'
  | 'file'
  | 'cancelled'
  | 'denied'
  | 'crashed';

export interface Resources {
  /** CPU time of the worker thread, or of the command's whole process tree. */
  cpuMs: number;
  peakBytes?: number;
  /** Bytes that the tool produced, whether or not they reached the caller. */
  outputBytes: number;
  processes?: number;
  verdict: Verdict;
  /** The mechanism that enforced, or would have enforced, the limits of this call. */
  enforcedBy: string;
}

/** Something that a call met a wall with, by the word of the wall itself: kernel, proxy, mount; never of the program. */
export const denial = z.strictObject({
  kind: z.enum(['read', 'write', 'connect', 'syscall']),
  /** A path relative to the workspace, `host:port`, a system call, or what of the machine it was. */
  target: z.string().max(4096),
  /** The rule or key of the policy that refused it, where one did. */
  rule: z.string().max(256).optional(),
  layer: z.enum(LAYERS),
  reason: z.string().max(1024).optional(),
  /** What to ask for. */
  suggestion: z.string().max(1024).optional(),
  /** How often, where that is known. */
  count: z.int().min(1).optional(),
});
export type Denial = z.output<typeof denial>;

/** Paths relative to the workspace that a command's sandbox kept from it: the first 20 of each kind. */
export const withheldPaths = z.strictObject({
  hidden: z.array(z.strictObject({ path: z.string().max(4096), rule: z.string().max(256).optional() })).max(20),
  /** How many paths are hidden, listed or not. */
  count: z.int().min(0),
  readOnly: z.array(z.string().max(4096)).max(20),
});
export type WithheldPaths = z.output<typeof withheldPaths>;

/** What a command's sandbox kept from it, whether or not the command tried it. */
export interface Withheld extends WithheldPaths {
  /** Hosts that it could connect to; `none` where it had no network. */
  network: 'none' | string[];
  /** Whether it could make and use Unix sockets. */
  unixSockets: 'own' | 'none';
}

/** One line of it, for people and models. */
export function describeWithheld({ hidden, count, readOnly, network, unixSockets }: Withheld): string {
  const more = count > hidden.length ? ` and ${count - hidden.length} more` : '';
  const parts = [
    ...(count > 0 ? [`hidden: ${hidden.map(({ path }) => path).join(', ')}${more}`] : []),
    ...(readOnly.length > 0 ? [`read-only: ${readOnly.join(', ')}`] : []),
    `network: ${network === 'none' ? 'none' : network.join(', ')}`,
    ...(unixSockets === 'none' ? ['Unix sockets: none (tiers.execute.unixSockets of the policy)'] : []),
  ];
  return parts.join('; ');
}

export interface ResultMetadata {
  durationMs: number;
  queuedMs: number;
  cached: boolean;
  retriesAttempted: number;
  /** Whether a person said yes to it; absent where nobody was asked. */
  approvalGranted?: boolean;
  /** ISO 8601, when the call arrived. */
  timestamp: string;
  tier?: Tier;
  /** Pid of the tier host that ran it, as the daemon sees it. */
  hostPid?: number;
  truncated?: { bytesTotal: number; ref?: string };
  /** Of a command, what changed in the workspace while it ran; absent where that isn't known. */
  filesChanged?: readonly FileChange[];
  /** How many changed, where not all of them are listed. */
  filesChangedTotal?: number;
  /** What it was kept from, at most 64 things; a call may succeed all the same. */
  denied?: Denial[];
  /** What the sandbox kept from its command, where that failed. */
  withheld?: Withheld;
  undo: 'full' | 'partial' | 'none';
  resources: Resources;
  costUsd?: number;
  /** What the caller should know although the call succeeded. */
  warnings?: string[];
}

interface ResultBase {
  callId: string;
  /** The tool's own name, also when it was called by an alias. */
  tool: string;
  metadata: ResultMetadata;
}
export type ToolResult<Data = unknown> =
  | (ResultBase & { success: true; data: Data })
  | (ResultBase & { success: false; error: WireError });

export interface CallOptions {
  /** Makes the call idempotent within the session: the same id and input never run twice. */
  callId?: string;
  /** Narrows the time limit; never raises it. */
  timeoutMs?: number;
  /** Whether a cached result will do. */
  cache?: boolean;
  /** Whether the caller wants `call.update` and `call.output`. */
  progress?: boolean;
  /** Tells what the call would do, and does nothing. */
  preview?: boolean;
  /** Goes on when the connection ends; whoever is the same principal finds it by its id. */
  detached?: boolean;
  /** How often it is tried again after failures that may pass, where nothing can happen twice. */
  retries?: number;
  /** The program's that makes it; set by the daemon alone. */
  parentCallId?: string;
}

export type CallState =
  | { status: 'queued'; position: number }
  | { status: 'blocked-on-user'; approvalId: string }
  | { status: 'in-progress'; startedAt: string; progress?: unknown }
  | { status: 'done' }
  | { status: 'error' }
  | { status: 'cancelled' }
  | { status: 'rejected-by-user' };
export type CallStatus = CallState['status'];

export interface CallRecord {
  callId: string;
  tool: string;
  sessionId: string;
  createdAt: string;
  state: CallState;
  result?: ToolResult;
}

/** The answer to `calls.undo`. */
export interface UndoResult {
  /** Id of the undo, which can be undone too. Absent where nothing was tried. */
  readonly callId?: string;
  /** The call that was taken back. */
  readonly undone?: string;
  readonly restored: readonly string[];
  /** Restored paths that are gone again, because the call had made them. */
  readonly removed: readonly string[];
  /** Paths that were changed since, or are not kept; nothing is restored then, unless it was forced. */
  readonly conflicts: readonly string[];
  /** Restored files in which changes made since were kept. */
  readonly merged: readonly string[];
  /** How far the undo can be undone. */
  readonly undo: ResultMetadata['undo'];
  /** Why nothing was restored. */
  readonly error?: WireError;
}

/** One call of a batch, as its caller wrote it. */
export interface BatchCall {
  readonly id: string;
  readonly tool: string;
  readonly input?: unknown;
  readonly dependsOn?: readonly string[] | undefined;
  readonly options?: CallOptions | undefined;
}

/** Of `tools.batch`. */
export interface BatchOptions {
  /** Whether calls that have not begun are left out once one fails. */
  readonly failFast?: boolean | undefined;
  /** Calls under way at once; one that waits for a person does not count. */
  readonly concurrency?: number | undefined;
  readonly timeoutMs?: number | undefined;
}

export interface BatchResult {
  success: boolean;
  /** In the order of the calls. */
  results: ToolResult[];
  metadata: {
    totalCalls: number;
    successCount: number;
    failureCount: number;
    /** Of the failed ones, those that never began. */
    skippedCount: number;
    durationMs: number;
    cacheHits: number;
    levels: readonly (readonly string[])[];
    /** Calls of the widest level. */
    maxParallelism: number;
  };
  /** Why nothing ran; the error of each call then. */
  error?: WireError;
}

/** What a batch would be like, before it runs. */
export interface BatchEstimate {
  readonly levels: readonly (readonly string[])[];
  readonly maxParallelism: number;
  /** The calls whose times add up to the most, first to last: to make the batch faster, make one of these faster. */
  readonly criticalPath: readonly string[];
  /** Along the critical path; undefined where no call of the batch has a past. */
  readonly estimatedMs?: number;
  /** One after the other. */
  readonly sequentialMs?: number;
  readonly calls: readonly {
    readonly id: string;
    readonly tool: string;
    readonly level: number;
    readonly dependsOn: readonly string[];
    readonly estimatedMs?: number;
  }[];
}
