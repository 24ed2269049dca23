/** Retries failures that may be temporary, if a second attempt can't do anything twice. */
import type { Code, ToolError } from '../errors.ts';
import type { Limits } from '../limits.ts';
import type { Powers } from '../powers.ts';
import type { Retry } from '../tools/tool.ts';
import { failed, type Outcome, outcomeOf } from './outcome.ts';
import type { ClearedCall, Stage } from './stage.ts';

/** Used when the caller asks for retries of a tool without a retry plan. */
const DEFAULT_RETRY: Retry = {
  maxAttempts: 1,
  backoffMs: 100,
  multiplier: 2,
  codes: ['QUEUE_FULL', 'HOST_CRASHED', 'UPSTREAM_FAILED', 'PROVIDER_UNAVAILABLE'],
};

/** Waits longer before each attempt, with jitter, so that calls that failed together do not return together. */
export const retry =
  (limits: Limits, powers: Powers): Stage<ClearedCall> =>
  (next) =>
  async (call) => {
    const plan = call.checked.tool.retry ?? DEFAULT_RETRY;
    const retries = Math.min(call.options.retries ?? plan.maxAttempts - 1, limits.callRetriesMax);
    let hasStarted = false;
    for (let attempt = 0; ; attempt++) {
      const last = await outcomeOf(next, call);
      // For the record the call started if any attempt did.
      hasStarted ||= last.started;
      const outcome: Outcome = { ...last, started: hasStarted, retriesAttempted: attempt };
      const { error } = last;
      if (!error || attempt >= retries || !mayPass(error, plan.codes) || !isRepeatable(call, last, error.code))
        return outcome;
      try {
        await wait(delayMs(error, { plan, attempt, limits, powers }), { call, powers, error });
      } catch (reason) {
        return failed(reason, outcome);
      }
    }
  };

const mayPass = (error: ToolError, codes: readonly Code[]): boolean =>
  error.toWire().recoverable && codes.includes(error.code);

/** Whether a second attempt is safe. A started attempt may have done its work before it failed, and its start used up the approval. */
function isRepeatable(call: ClearedCall, { started }: Outcome, code: Code): boolean {
  const { tool, tier } = call.checked;
  if (call.controller.signal.aborted) return false;
  if (!started) return true;
  // `hosts.run` already retried this read on a fresh host.
  if (code === 'HOST_CRASHED' && tier === 'read_only') return false;
  return !call.approval?.confirm && (tier === 'read_only' || tool.idempotent === true);
}

function delayMs(
  error: ToolError,
  { plan, attempt, limits, powers }: { plan: Retry; attempt: number; limits: Limits; powers: Powers },
): number {
  const asked = Number(error.extras.details?.retryAfterMs ?? 0);
  const grown = plan.backoffMs * plan.multiplier ** attempt;
  const jittered = grown * (0.5 + fraction(powers) / 2);
  return Math.min(Math.max(jittered, asked), limits.retryBackoffMsMax);
}

/**
 * Waits before the next attempt. Rejects with `error` at once if the caller's time would be over by then, and with
 * the reason of an abort.
 */
async function wait(
  ms: number,
  { call, powers, error }: { call: ClearedCall; powers: Powers; error: ToolError },
): Promise<void> {
  const { timeoutMs } = call.options;
  if (timeoutMs !== undefined && ms >= timeoutMs) throw error;
  const { signal } = call.controller;
  await new Promise<void>((resolve, reject) => {
    const leave = () => {
      timer.cancel();
      reject(signal.reason as Error);
    };
    const timer = powers.after(ms, () => {
      signal.removeEventListener('abort', leave);
      resolve();
    });
    signal.addEventListener('abort', leave, { once: true });
  });
}

/** A random number from 0 to 1. */
const fraction = (powers: Powers): number => Number.parseInt(powers.secret().slice(0, 8), 16) / 0xffff_ffff;
