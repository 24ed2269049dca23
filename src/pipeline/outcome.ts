/**
 * What one attempt to run a call brought beside its data or its error. Each attempt begins a new one, so that nothing of a failed attempt
 * is told of the next. It lies on the call, and is not returned by the stages: an attempt that throws has one, too.
 */
import type { Denial, Withheld } from '../call.ts';
import type { EgressReport } from '../egress/messages.ts';
import type { JobUsage } from '../hosts/job.ts';

export interface Outcome {
  /** Whether its job was handed to a host: from then on it may have cost something. */
  started: boolean;
  /** Milliseconds that it waited for a host. */
  queuedMs: number;
  /** Whether the result was taken from the cache, and nothing ran. */
  cached: boolean;
  hostPid?: number;
  usage?: JobUsage;
  /** Accesses that policy or egress proxy refused while it ran. */
  denied?: readonly Denial[];
  /** What the sandbox of a failed command kept from it. */
  withheld?: Withheld;
  /** Hosts that its command connected to. */
  connected?: EgressReport['connected'];
  /** What the caller should know although the call succeeded. */
  readonly warnings: string[];
  /** How many secrets were hidden in its result or error. */
  redactions: number;
  /** About how many bytes of memory the result takes. */
  heldBytes: number;
}

export const newOutcome = (): Outcome => ({
  ...{ started: false, queuedMs: 0, cached: false },
  ...{ warnings: [], redactions: 0, heldBytes: 0 },
});
