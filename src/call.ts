/** What a call is, on every face: the shapes of docs/protocol.md. */
import type { WireError } from './errors.ts';

export const TIERS = ['read_only', 'write', 'execute', 'external_api'] as const;
export type Tier = (typeof TIERS)[number];

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
  filesChanged?: FileChange[];
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
