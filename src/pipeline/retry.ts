/** Retries failures that may be temporary, if a second attempt can't do anything twice. */
import { type Code, ToolError } from '../errors.ts';
import type { Limits } from '../limits.ts';
import type { Powers } from '../powers.ts';
import type { Retry } from '../tools/tool.ts';
import { newOutcome } from './outcome.ts';
import { type Call, checkedOf, type Stage } from './stage.ts';

/** Used when the caller asks for retries of a tool without a retry plan. */
const DEFAULT_RETRY: Retry = {
  maxAttempts: 1,
  backoffMs: 100,
  multiplier: 2,
  codes: ['QUEUE_FULL', 'HOST_CRASHED', 'UPSTREAM_FAILED', 'PROVIDER_UNAVAILABLE'],
};

/** Waits longer before each attempt, with jitter, so that calls that failed together do not return together. */
export const retry =
  (limits: Limits, powers: Powers): Stage =>
  (next) =>
  async (call) => {
    const plan = checkedOf(call).tool.retry ?? DEFAULT_RETRY;
    const retries = Math.min(call.options.retries ?? plan.maxAttempts - 1, limits.callRetriesMax);
    let hasStarted = false;
    try {
      for (let attempt = 0; ; attempt++) {
        call.retriesAttempted = attempt;
        call.outcome = newOutcome();
        try {
          return await next(call);
        } catch (error) {
          hasStarted ||= call.outcome.started;
          if (attempt >= retries || !mayPass(error, plan.codes) || !isRepeatable(call, error)) throw error;
          await wait(delayMs(error, { plan, attempt, limits, powers }), { call, powers, error });
        }
      }
    } finally {
      // For the record the call started if any attempt did.
      call.outcome.started ||= hasStarted;
    }
  };

function mayPass(error: unknown, codes: readonly Code[]): error is ToolError {
  return error instanceof ToolError && error.toWire().recoverable && codes.includes(error.code);
}

/** Whether a second attempt is safe. A started attempt may have done its work before it failed, and its start used up the approval. */
function isRepeatable(call: Call, { code }: ToolError): boolean {
  const { tool, tier } = checkedOf(call);
  if (call.controller.signal.aborted) return false;
  if (!call.outcome.started) return true;
  // `hosts.run` already retried this read on a fresh host.
  if (code === 'HOST_CRASHED' && tier === 'read_only') return false;
  return !call.confirm && (tier === 'read_only' || tool.idempotent === true);
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
  { call, powers, error }: { call: Call; powers: Powers; error: ToolError },
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
