import type { Tier } from '../call.ts';
import { placesOf } from '../hosts/shape.ts';
import type { Limits } from '../limits.ts';
import type { Powers } from '../powers.ts';
import { hostTierOf, type Tool } from '../tools/tool.ts';
import type { FairQueue, Place } from './fair-queue.ts';
import { type Call, checkedOf, type Stage } from './stage.ts';

/** Waits for a place at the tier host of the call's workspace. QUEUE_FULL when too many wait. */
export const schedule =
  (queue: FairQueue, limits: Limits, powers: Powers): Stage =>
  (next) =>
  async (call) => {
    const { tool, tier: ofCall } = checkedOf(call);
    const tier = hostTierOf(tool, ofCall);
    const arrivedAt = powers.monotonicMs();
    const { signal } = call.controller;
    signal.throwIfAborted();
    const leave = await queue.enter({
      ...placeOf(tool, tier, { call, limits }),
      session: call.sessionId,
      signal,
      congested: () => call.congested(),
    });
    try {
      call.outcome.queuedMs = powers.monotonicMs() - arrivedAt;
      return await next(call);
    } finally {
      leave();
    }
  };

/** Programs have places of their own: they wait for calls, which must find theirs. */
function placeOf(
  { isolated, upstream, connects }: Tool,
  tier: Tier,
  { call, limits }: { call: Call; limits: Limits },
): Pick<Place, 'line' | 'places' | 'placesOfSession'> {
  if (isolated) return { line: 'isolate', places: limits.isolatesMax, placesOfSession: limits.sessionIsolatesMax };
  // One that is slow is waited for by its own callers only.
  if (upstream) {
    const { provider, places } = upstream;
    return { line: `provider\0${provider}`, places, placesOfSession: places };
  }
  // No host makes it, but the one egress process.
  if (connects) return { line: 'http', places: limits.httpRequestsMax, placesOfSession: limits.sessionHttpRequestsMax };
  const places = placesOf(tier, limits);
  const placesOfSession = tier === 'execute' ? limits.sessionCommandsMax : places;
  return { line: `${tier}\0${call.workspace}`, places, placesOfSession };
}
