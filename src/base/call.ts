/** The shapes of calls and results for all clients, as in docs/protocol-reference.md. */
import type * as z from 'zod';
import type * as shapes from './result-shapes.ts';

export type Tier = (typeof shapes.TIERS)[number];
/** The kinds of hosts. Isolates belong to no tier of a policy, since they have no authority of their own. */
export type HostTier = Tier | 'isolate';

export type Decision = 'allow' | 'ask' | 'deny';

export type Effect = shapes.Read<z.output<typeof shapes.effect>>;

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

export type FileChange = z.output<typeof shapes.fileChange>;

export type Resources = z.output<typeof shapes.resources>;
/** What ended a call, named by the limit that did. */
export type Verdict = Resources['verdict'];

export type Denial = z.output<typeof shapes.denial>;

export type WithheldPaths = z.output<typeof shapes.withheldPaths>;

/** A path that can't be undone, and why. */
export type NotKept = shapes.Read<z.output<typeof shapes.notKept>>;

/** What the sandbox kept from a command, whether or not the command tried to use it. */
export type Withheld = NonNullable<ResultMetadata['withheld']>;

export type ResultMetadata = z.output<typeof shapes.resultMetadata>;

export type ToolResult<Data = unknown> =
  | (Omit<Extract<z.output<typeof shapes.toolResult>, { success: true }>, 'data'> & { data: Data })
  | Extract<z.output<typeof shapes.toolResult>, { success: false }>;

export interface CallOptions {
  /** Makes the call idempotent within the session: the same id and input never run twice. */
  callId?: string | undefined;
  /** Narrows the time limit; never raises it. */
  timeoutMs?: number | undefined;
  /** Whether a cached result is acceptable. */
  cache?: boolean;
  /** Whether the caller wants `call.update` and `call.output`. */
  progress?: boolean | undefined;
  /** Computes what the call would do, and does nothing. */
  preview?: boolean | undefined;
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

export type CallState = z.output<typeof shapes.callState>;
export type CallStatus = CallState['status'];

export type StageName = (typeof shapes.STAGES)[number];

export type CallRecord = z.output<typeof shapes.callRecord>;

/** The answer to `calls.commit`. */
export type CommitResult = shapes.Read<z.output<typeof shapes.commitResult>>;

/** The answer to `calls.undo`. */
export type UndoResult = shapes.Read<z.output<typeof shapes.undoResult>>;

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

export type BatchResult = Omit<z.output<typeof shapes.batchResult>, 'metadata'> & {
  metadata: shapes.Read<z.output<typeof shapes.batchMetadata>>;
};

/** An estimate of a batch before it runs. */
export type BatchEstimate = shapes.Read<z.output<typeof shapes.batchEstimate>>;

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
