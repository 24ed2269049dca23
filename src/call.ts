/** What a call is, on every face: the shapes of docs/protocol.md. */
import * as z from 'zod';
import { LAYERS, type WireError } from './errors.ts';

export const TIERS = ['read_only', 'write', 'execute', 'external_api'] as const;
export type Tier = (typeof TIERS)[number];

export type Decision = 'allow' | 'ask' | 'deny';

export interface Effect {
  readonly kind: 'read' | 'write' | 'delete' | 'exec' | 'connect';
  /** A path relative to the workspace, a command line, or host:port. */
  readonly target: string;
}

export interface FileChange {
  path: string;
  kind: 'create' | 'modify' | 'delete' | 'rename';
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
  /** What it was kept from, at most 64 things; a call may succeed all the same. */
  denied?: Denial[];
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
