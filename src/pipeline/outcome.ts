/**
 * What came of a call: its data or error, and what its last attempt used and met. A stage gives the outcome of the stage behind it,
 * or one with more in it; a call that a stage refuses by throwing has the outcome that `outcomeOf` makes.
 */
import type { Denial, ResultMetadata, Withheld } from '../base/call.ts';
import { type ToolError, toToolError } from '../base/errors.ts';
import type { CommandPreview } from '../base/preview.ts';
import type { JobUsage } from '../hosts/job.ts';
import type { EgressReport } from '../sandbox/egress/proxy-messages.ts';

/** What an attempt brought beside its data or error. The comments name the stage that knows it. */
export interface RunFacts {
  /** Execute: whether a job was handed to a host. From then on the call may have cost something. Retry: in any attempt. */
  readonly started: boolean;
  /** Execute. */
  readonly hostPid?: number | undefined;
  readonly usage?: JobUsage | undefined;
  /** Execute, and permission for separable effects: accesses that the policy or the egress proxy refused. */
  readonly denied?: readonly Denial[];
  /** Execute: what the sandbox of a failed command kept from it. */
  readonly withheld?: Withheld | undefined;
  /** Execute: what a command left at protected names, which was moved away. */
  readonly quarantined?: ResultMetadata['quarantined'] | undefined;
  /** Execute: what a previewed command did. */
  readonly preview?: CommandPreview | undefined;
  /** Execute: hosts that the command connected to. */
  readonly connected?: EgressReport['connected'] | undefined;
  /** Execute: bytes that went to each host. */
  readonly sent?: ResultMetadata['sent'];
  /** Execute: whether strangers may have written of the result, though not those of every call of its tool. */
  readonly untrusted?: boolean;
  /** Execute: how long to wait where the answer says that its server could not serve the request now; retry heeds it. */
  readonly busyMs?: number | undefined;
  /** Execute: the roll-back that goes on after the answer; the call's locks are held until it settles. Never rejects. */
  readonly settling?: Promise<unknown>;
  /** Sanitize: how many secrets were hidden in the result or error. */
  readonly redactions: number;
  /** Sanitize: approximate bytes of memory that the result takes. */
  readonly heldBytes: number;
  /** Schedule: milliseconds that the attempt waited for a host. */
  readonly queuedMs: number;
  /** Retry: attempts after the first. */
  readonly retriesAttempted: number;
  /** Approve: whether a person approved the call, and the yes was not stale. */
  readonly approvalGranted: boolean;
  /** Intent: whether the audit log holds the input. */
  readonly intended: boolean;
  /** Cache: whether the result came from there, so that nothing ran. */
  readonly cached: boolean;
  /** Cost cap: what the call cost. */
  readonly costUsd?: number | undefined;
  /** Execute, validate and audit: warnings for the caller. */
  readonly warnings: readonly string[];
}

/** What a call connected to and sent. */
export function trafficOf(report: EgressReport | 'lost' | undefined): Pick<RunFacts, 'connected' | 'sent'> {
  if (!report || report === 'lost') return {};
  const { connected, sent } = report;
  return {
    connected,
    ...(sent.length > 0 && { sent: sent.map(({ target: host, bytes }) => ({ host, bytes })) }),
  };
}

/** The facts of an attempt that hold however it ends; set while it runs. */
export type Attempt = { -readonly [Key in 'started' | 'settling']?: RunFacts[Key] };

/** The pipeline's part in a run. */
export interface RunHooks {
  readonly attempt: Attempt;
  /** Can still refuse the call before anything is sent. */
  readonly beforeStart: () => Promise<void>;
  /** Carries out the call by its tool's `run` in the tier's host, which gets this as `ctx.planned`; for a runner that prepares it. */
  readonly inHost: (planned: unknown) => Promise<Outcome>;
}

export type Outcome = RunFacts &
  ({ readonly data: unknown; readonly error?: never } | { readonly error: ToolError; readonly data?: never });

const NOTHING: RunFacts = {
  started: false,
  approvalGranted: false,
  intended: false,
  queuedMs: 0,
  cached: false,
  retriesAttempted: 0,
  warnings: [],
  redactions: 0,
  heldBytes: 0,
};

export const succeeded = (data: unknown, brought: Partial<RunFacts> = {}): Outcome => ({
  ...NOTHING,
  ...brought,
  data,
});

/** The outcome of a call that failed after `brought`, which may be the outcome of a call that had succeeded. */
export function failed(thrown: unknown, brought: Partial<RunFacts> = {}): Outcome {
  const { data: _, ...rest } = brought as Partial<Outcome>;
  return { ...NOTHING, ...rest, error: toToolError(thrown) };
}
