/**
 * What one attempt to run a call brought, beside its data or error. Each attempt begins a new one, so that nothing of
 * a failed attempt is reported for the next. Kept on the call and not returned by the stages, since an attempt that
 * throws has an outcome, too.
 */
import type { Denial, Withheld } from '../call.ts';
import type { EgressReport } from '../egress/messages.ts';
import type { JobUsage } from '../hosts/job.ts';

export interface Outcome {
  /** Whether the job was handed to a host: from then on it may have cost something. */
  started: boolean;
  /** Milliseconds that the attempt waited for a host. */
  queuedMs: number;
  /** Whether the result came from the cache, so that nothing ran. */
  cached: boolean;
  hostPid?: number;
  /** The roll-back that goes on after the answer; the call's locks are held until it settles. Never rejects. */
  settling?: Promise<unknown>;
  usage?: JobUsage;
  /** Accesses that the policy or the egress proxy refused during the run. */
  denied?: readonly Denial[];
  /** What the sandbox of a failed command kept from it. */
  withheld?: Withheld;
  /** Hosts that the command connected to. */
  connected?: EgressReport['connected'];
  /** Warnings for the caller of a call that succeeded. */
  readonly warnings: string[];
  /** How many secrets were hidden in the result or error. */
  redactions: number;
  /** Approximate bytes of memory that the result takes. */
  heldBytes: number;
}

export const newOutcome = (): Outcome => ({
  ...{ started: false, queuedMs: 0, cached: false },
  ...{ warnings: [], redactions: 0, heldBytes: 0 },
});
