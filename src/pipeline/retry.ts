/** Failures that may pass are tried again, where a second attempt can't do anything twice. */
import { type Code, ToolError } from '../errors.ts';
import type { Limits } from '../limits.ts';
import type { Powers } from '../powers.ts';
import type { Retry } from '../tools/tool.ts';
import { newOutcome } from './outcome.ts';
import { type Call, checkedOf, type Stage } from './stage.ts';

/** For who asks for retries of a tool that says nothing about them. */
const DEFAULT_RETRY: Retry = {
  maxAttempts: 1,
  backoffMs: 100,
  multiplier: 2,
  codes: ['QUEUE_FULL', 'HOST_CRASHED', 'UPSTREAM_FAILED', 'PROVIDER_UNAVAILABLE'],
};

/** Waits grow from attempt to attempt, with jitter, so that those who failed together don't come back together. */
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
      // For the record it counts whether any attempt did.
      call.outcome.started ||= hasStarted;
    }
  };

function mayPass(error: unknown, codes: readonly Code[]): error is ToolError {
  return error instanceof ToolError && error.toWire().recoverable && codes.includes(error.code);
}

/** What began may have done its work before it failed. A yes to this very call is used up by its start. */
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

/** Rejects with the error at once where its caller's time would be over by then, and with the reason of an abort. */
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

/** 0 to 1. */
const fraction = (powers: Powers): number => Number.parseInt(powers.secret().slice(0, 8), 16) / 0xffff_ffff;
