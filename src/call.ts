/** The shapes of calls and results for all clients, as in docs/protocol.md. */
import * as z from 'zod';
import { LAYERS, type WireError } from './errors.ts';
import type { CommandPreview } from './preview.ts';

export const TIERS = ['read_only', 'write', 'execute', 'external_api'] as const;
export type Tier = (typeof TIERS)[number];
/** The kinds of hosts. Isolates belong to no tier of a policy, since they have no authority of their own. */
export type HostTier = Tier | 'isolate';

export type Decision = 'allow' | 'ask' | 'deny';

export interface Effect {
  readonly kind: 'read' | 'write' | 'delete' | 'exec' | 'connect' | 'query';
  /** A path relative to the workspace, a command line, host:port, or the name of a database connection. */
  readonly target: string;
}

/** A call whose program made another call. */
export interface CallParent {
  readonly callId: string;
  readonly tool: string;
}

export interface FileChange {
  /** The path as the caller named it; a directory that changed with all its content ends with `/`. */
  path: string;
  kind: 'create' | 'modify' | 'delete' | 'rename';
  /** The former path, for a rename. */
  from?: string;
}

/** What ended a call, named by the limit that did. */
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

/** An access that was denied to a call, as reported by the layer that denied it (kernel, proxy, mount), never by the program. */
export const denial = z.strictObject({
  kind: z.enum(['read', 'write', 'connect', 'syscall']),
  /** A path relative to the workspace, `host:port`, a system call, or a part of the machine. */
  target: z.string().max(4096),
  /** The rule or key of the policy that denied it, if one did. */
  rule: z.string().max(256).optional(),
  layer: z.enum(LAYERS),
  reason: z.string().max(1024).optional(),
  /** What to ask the person for. */
  suggestion: z.string().max(1024).optional(),
  /** How often, if known. */
  count: z.int().min(1).optional(),
});
export type Denial = z.output<typeof denial>;

/** Paths, relative to the workspace, that the sandbox kept from a command: the first 20 of each kind. */
export const withheldPaths = z.strictObject({
  hidden: z.array(z.strictObject({ path: z.string().max(4096), rule: z.string().max(256).optional() })).max(20),
  /** Number of hidden paths, listed or not. */
  count: z.int().min(0),
  readOnly: z.array(z.string().max(4096)).max(20),
});
export type WithheldPaths = z.output<typeof withheldPaths>;

/** What the sandbox kept from a command, whether or not the command tried to use it. */
export interface Withheld extends WithheldPaths {
  /** Hosts that the command could connect to; `none` if it had no network. */
  network: 'none' | string[];
  /** Whether the command could make and use Unix sockets. */
  unixSockets: 'own' | 'none';
}

/** Describes it in one line, for people and models. */
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
  /** Whether a person approved the call; absent if nobody was asked. */
  approvalGranted?: boolean;
  /** Time of the call's arrival, ISO 8601. */
  timestamp: string;
  tier?: Tier;
  /** Pid of the tier host that ran it, as the daemon sees it. */
  hostPid?: number;
  truncated?: { bytesTotal: number; ref?: string };
  /** Files of the workspace that changed while a command ran; absent if unknown. */
  filesChanged?: readonly FileChange[];
  /** Number of changed files, if not all are listed. */
  filesChangedTotal?: number;
  /** Accesses that were denied to the call, at most 64; the call may succeed all the same. */
  denied?: Denial[];
  /** What the sandbox kept from its command, if that failed. */
  withheld?: Withheld;
  undo: 'full' | 'partial' | 'none';
  /** Paths of a command's changes that can't be undone, and why: the first of them. */
  undoMissing?: readonly { path: string; why: string }[];
  /** Number of those paths, if not all are listed. */
  undoMissingTotal?: number;
  resources: Resources;
  costUsd?: number;
  /** Warnings for the caller of a successful call. */
  warnings?: string[];
}

interface ResultBase {
  callId: string;
  /** The tool's own name, even if it was called by an alias. */
  tool: string;
  metadata: ResultMetadata;
}
export type ToolResult<Data = unknown> =
  | (ResultBase & { success: true; data: Data; preview?: CommandPreview })
  | (ResultBase & { success: false; error: WireError });

export interface CallOptions {
  /** Makes the call idempotent within the session: the same id and input never run twice. */
  callId?: string;
  /** Narrows the time limit; never raises it. */
  timeoutMs?: number;
  /** Whether a cached result is acceptable. */
  cache?: boolean;
  /** Whether the caller wants `call.update` and `call.output`. */
  progress?: boolean;
  /** Computes what the call would do, and does nothing. */
  preview?: boolean;
  /** Lets the call go on when the connection ends; the same principal finds it by its id. */
  detached?: boolean;
  /** How often the call is retried after failures that may be temporary, if nothing can happen twice. */
  retries?: number;
  /** Call id of the program that makes the call; set only by the daemon. */
  parentCallId?: string;
  /** The parent span of the call; set only by the daemon. */
  span?: SpanContext;
}

/** A span of a distributed trace that may get children. Ids are hexadecimal. */
export interface SpanContext {
  readonly traceId: string;
  readonly spanId: string;
  /** Whether the trace is recorded. */
  readonly sampled: boolean;
  /** The `tracestate` of the caller, passed on as it came. */
  readonly state?: string;
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

/** The stages of a call, in order: judged, asked about, waiting for a slot, starting, running, being settled. */
export const STAGES = ['waiting', 'asking', 'queued', 'starting', 'running', 'settling'] as const;
export type StageName = (typeof STAGES)[number];

export interface CallRecord {
  callId: string;
  tool: string;
  sessionId: string;
  createdAt: string;
  state: CallState;
  /** Milliseconds in each stage so far; absent for calls that an earlier daemon recorded. */
  readonly stagesMs?: Partial<Record<StageName, number>>;
  result?: ToolResult;
}

/** The answer to `calls.commit`. */
export interface CommitResult {
  /** Call id of the commit, by which it can be undone. Absent if nothing was tried. */
  readonly callId?: string;
  readonly previewId: string;
  /** Paths that are as the command left them; a folder stands for all in it. */
  readonly committed: readonly string[];
  /** The paths of `committed` that are gone. */
  readonly removed: readonly string[];
  /** The paths of `committed` that keep what others changed since, in other lines. */
  readonly merged: readonly string[];
  /** Paths that changed since the preview; with any of these nothing is committed. */
  readonly conflicts: readonly string[];
  readonly undo: ResultMetadata['undo'];
  /** Why nothing was committed. */
  readonly error?: WireError;
}

/** The answer to `calls.undo`. */
export interface UndoResult {
  /** Call id of the undo, which can be undone, too. Absent if nothing was tried. */
  readonly callId?: string;
  /** Id of the call that was undone. */
  readonly undone?: string;
  readonly restored: readonly string[];
  /** Restored paths that were removed, because the call had made them. */
  readonly removed: readonly string[];
  /** Paths that changed since, or were not kept; with any of these nothing is restored, unless forced. */
  readonly conflicts: readonly string[];
  /** Restored files that kept the changes made since. */
  readonly merged: readonly string[];
  /** Whether the undo itself can be undone. */
  readonly undo: ResultMetadata['undo'];
  /** What else the undone call changed, and why that was not kept; absent if nothing, or no longer known. */
  readonly left?: readonly { readonly path: string; readonly why: string }[];
  /** The command that brings what is left to the state of the restored files, if the undone call was an installation. */
  readonly restoreCommand?: string;
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

/** Options of `tools.batch`. */
export interface BatchOptions {
  /** Whether calls that have not begun are skipped once one fails. */
  readonly failFast?: boolean | undefined;
  /** The most calls in progress at once; one that waits for a person does not count. */
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
    /** The failed calls that never began. */
    skippedCount: number;
    durationMs: number;
    cacheHits: number;
    levels: readonly (readonly string[])[];
    /** The chain of calls that decided how long the batch took, first to last. */
    criticalPath: readonly string[];
    /** In the order of the calls: by how many milliseconds each could have ended later without the batch ending later. */
    slackMs: readonly number[];
    /** The most calls that were in progress at once. */
    maxParallelism: number;
  };
  /** Why nothing ran; also the error of each call. */
  error?: WireError;
}

/** An estimate of a batch before it runs. */
export interface BatchEstimate {
  readonly levels: readonly (readonly string[])[];
  readonly maxParallelism: number;
  /** The chain of dependent calls with the longest total time, first to last; only making one of these faster makes the batch faster. */
  readonly criticalPath: readonly string[];
  /** Milliseconds along the critical path; undefined if no call of the batch has a past. */
  readonly estimatedMs?: number;
  /** Milliseconds if all calls ran one after another. */
  readonly sequentialMs?: number;
  readonly calls: readonly {
    readonly id: string;
    readonly tool: string;
    readonly level: number;
    readonly dependsOn: readonly string[];
    readonly estimatedMs?: number;
    /** Milliseconds by which it could end later without the batch ending later; undefined if no call has a past. */
    readonly slackMs?: number;
  }[];
}

/** One host as those who start it know it. */
export interface HostStatus {
  tier: string;
  workspace: string;
  pid: number;
  threads: number;
  busy: number;
  rssBytes: number;
  cpuMs: number;
  restarts: number;
}

/** One host in the answer to `status`. */
export interface HostReport extends HostStatus {
  /** The processes that it keeps to do its work, the largest first. */
  readonly children: readonly ChildStatus[];
}

/** A language server, a parser, a browser. */
export interface ChildStatus {
  readonly program: string;
  readonly pid: number;
  readonly rssBytes: number;
}
