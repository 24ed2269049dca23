/** Retries failures that may be temporary, if a second attempt can't do anything twice. */

import type { Code, ToolError } from '../base/errors.ts';
import type { Limits } from '../base/limits.ts';
import { fraction, type Powers, waitUnlessAborted } from '../base/powers.ts';
import { holdsFor } from '../tools/tool.ts';
import { failed, type Outcome } from './outcome.ts';
import { type ClearedCall, outcomeOf, type Stage } from './stage.ts';

/** The wait before the second attempt, which doubles with each; jitter takes off up to half. */
const BACKOFF_MS = 100;
/** The longest wait that a server may ask for where only the tool's plan says that the call is made again. */
const UNASKED_WAIT_MS = 5_000;
const MAY_PASS: readonly Code[] = ['QUEUE_FULL', 'HOST_CRASHED', 'UPSTREAM_FAILED', 'PROVIDER_UNAVAILABLE'];

/** Waits longer before each attempt, with jitter, so that calls that failed together do not return together. */
export const retry =
  (limits: Limits, powers: Powers): Stage<ClearedCall> =>
  (next) =>
  async (call) => {
    const { retries: wanted = call.checked.tool.retries ?? 0 } = call.options;
    const retries = Math.min(wanted, limits.callRetriesMax);
    const isAsked = call.options.retries !== undefined;
    const waitMaxMs = isAsked ? limits.retryBackoffMsMax : UNASKED_WAIT_MS;
    let hasStarted = false;
    for (let attempt = 0; ; attempt++) {
      call.enter?.('queued');
      const last = await outcomeOf(next, call);
      // For the record the call started if any attempt did.
      hasStarted ||= last.started;
      const outcome: Outcome = { ...last, started: hasStarted, retriesAttempted: attempt };
      const { error } = last;
      // Without its caller's word a call is made again only where a server asks for that.
      const askedMs = error ? (isAsked ? askedBy(error) : undefined) : last.busyMs;
      if (askedMs === undefined || attempt >= retries || !isRepeatable(call, last)) return outcome;
      // A server of others is not asked before the time that it names.
      if (!error && askedMs > waitMaxMs) return outcome;
      try {
        const goesOn = await waits(delayMs(askedMs, { attempt, limits, powers }), { call, powers });
        if (!goesOn) return outcome;
      } catch (reason) {
        return failed(reason, outcome);
      }
    }
  };

/** Milliseconds to wait before the call is worth another attempt, as far as the error says; undefined if it is not. */
function askedBy(error: ToolError): number | undefined {
  if (!error.toWire().recoverable || !MAY_PASS.includes(error.code)) return undefined;
  return Number(error.extras.details?.retryAfterMs ?? 0);
}

/** Whether a second attempt is safe. A started attempt may have done its work before it failed, and its start used up the approval. */
function isRepeatable(call: ClearedCall, { started, error }: Outcome): boolean {
  const { tool, tier, input } = call.checked;
  if (call.controller.signal.aborted) return false;
  if (!started) return true;
  // `hosts.run` already retried this read on a fresh host.
  if (error?.code === 'HOST_CRASHED' && tier === 'read_only') return false;
  const isIdempotent = holdsFor(tool.idempotent, input);
  return !call.approval?.confirm && (tier === 'read_only' || isIdempotent);
}

function delayMs(
  asked: number,
  { attempt, limits, powers }: { attempt: number; limits: Limits; powers: Powers },
): number {
  const grown = BACKOFF_MS * 2 ** attempt;
  const jittered = grown * (0.5 + fraction(powers) / 2);
  return Math.min(Math.max(jittered, asked), limits.retryBackoffMsMax);
}

/** Waits before the next attempt; false at once if the caller's time would be over by then. Rejects with the reason of an abort. */
async function waits(ms: number, { call, powers }: { call: ClearedCall; powers: Powers }): Promise<boolean> {
  const { timeoutMs } = call.options;
  if (timeoutMs !== undefined && ms >= timeoutMs) return false;
  await waitUnlessAborted(ms, { signal: call.controller.signal, powers });
  return true;
}
