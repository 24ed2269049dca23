/** The shapes of calls and results for all clients, as in docs/protocol.md. */
import * as z from 'zod';
import { LAYERS, type WireError } from './errors.ts';
import type { CommandPreview } from './preview.ts';
import type {
  batchEstimate,
  batchMetadata,
  commitResult,
  effect,
  fileChange,
  notKept,
  Read,
  resources,
  undoResult,
} from './result-shapes.ts';

export const TIERS = ['read_only', 'write', 'execute', 'external_api'] as const;
export type Tier = (typeof TIERS)[number];
/** The kinds of hosts. Isolates belong to no tier of a policy, since they have no authority of their own. */
export type HostTier = Tier | 'isolate';

export type Decision = 'allow' | 'ask' | 'deny';

export type Effect = Read<z.output<typeof effect>>;

/** `tool` of the step by which a session passed its authority on with a token. */
export const PASSED_ON = 'sessions.attenuate';

/** A call whose program made another call. */
export interface CallParent {
  readonly callId: string;
  readonly tool: string;
}

/** A call as clients name it. They choose ids themselves, so that two sessions may have the same one. */
export interface NamedCall {
  readonly callId: string;
  /** The session that made it, if the client names one. */
  readonly of?: string | undefined;
}

export type FileChange = z.output<typeof fileChange>;

export type Resources = z.output<typeof resources>;
/** What ended a call, named by the limit that did. */
export type Verdict = Resources['verdict'];

/** An access that was denied to a call, as reported by the layer that denied it (kernel, proxy, mount), never by the program. */
export const denial = z.strictObject({
  kind: z.enum(['read', 'write', 'connect', 'syscall']),
  /** A path relative to the workspace, `host:port`, a system call, or a part of the machine. */
  target: z.string().max(4096),
  /** The rule or key of the policy that denied it, if one did. */
  rule: z.string().max(256).optional(),
  layer: z.enum(LAYERS),
  reason: z.string().max(1024).optional(),
  /** The entry of the policy, or the command, that opens it. */
  open: z.string().max(512).optional(),
  /** What to ask the person for. */
  suggestion: z.string().max(1024).optional(),
  /** How often, if known. */
  count: z.int().min(1).optional(),
});
export type Denial = z.output<typeof denial>;

const hiddenPath = z.strictObject({
  path: z.string().max(4096),
  rule: z.string().max(256).optional(),
  /** The call that asks a person to show it; set if the command named it. */
  open: z.string().max(8192).optional(),
});

/**
 * Paths, relative to the workspace, that the sandbox kept from a command: the first 20 of each kind, those that it named first.
 * `absent`: paths outside of the workspace that it named and did not find.
 */
export const withheldPaths = z.strictObject({
  hidden: z.array(hiddenPath).max(20),
  absent: z.array(z.string().max(4096)).max(5).optional(),
  /** Number of hidden paths, listed or not. */
  count: z.int().min(0),
  readOnly: z.array(z.string().max(4096)).max(20),
});
export type WithheldPaths = z.output<typeof withheldPaths>;

/** What the sandbox kept from a command, whether or not the command tried to use it. */
export interface Withheld extends Omit<WithheldPaths, 'absent'> {
  /** Folders outside of the workspace that are there, and the calls that ask a person to show them. */
  absent?: { path: string; open: string }[];
  /** Hosts that the command could connect to; `none` if it had no network. */
  network: 'none' | string[];
  /** Whether the command could make and use Unix sockets. */
  unixSockets: 'own' | 'none';
}

/** A path that can't be undone, and why. */
export type NotKept = Read<z.output<typeof notKept>>;

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
  /** Bytes that its programs or requests sent to each host. */
  sent?: readonly { host: string; bytes: number }[];
  /** Time that it waited for a person at a door, in milliseconds; no limit counts it. */
  waitedMs?: number;
  /** What the sandbox kept from its command, if that failed. */
  withheld?: Withheld;
  /** What its command left at names that programs of the person run, which was moved out of the workspace. */
  quarantined?: readonly { path: string; approvalId?: string }[];
  undo: 'full' | 'partial' | 'none';
  /** Paths of a command's changes that can't be undone, and why: the first of them. */
  undoMissing?: readonly NotKept[];
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
  callId?: string | undefined;
  /** Narrows the time limit; never raises it. */
  timeoutMs?: number | undefined;
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
  span?: SpanContext | undefined;
}

/** A span of a distributed trace that may get children. Ids are hexadecimal. */
export interface SpanContext {
  readonly traceId: string;
  readonly spanId: string;
  /** Whether the trace is recorded. */
  readonly sampled: boolean;
  /** The `tracestate` of the caller, passed on as it came. */
  readonly state?: string | undefined;
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
export type CommitResult = Read<z.output<typeof commitResult>>;

/** The answer to `calls.undo`. */
export type UndoResult = Read<z.output<typeof undoResult>>;

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
  metadata: Read<z.output<typeof batchMetadata>>;
  /** Why nothing ran; also the error of each call. */
  error?: WireError;
}

/** An estimate of a batch before it runs. */
export type BatchEstimate = Read<z.output<typeof batchEstimate>>;

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
