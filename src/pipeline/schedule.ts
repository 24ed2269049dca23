import { placesOf } from '../hosts/hosts.ts';
import type { Limits } from '../limits.ts';
import type { Powers } from '../powers.ts';
import { hostTierOf } from '../tools/tool.ts';
import type { FairQueue } from './fair-queue.ts';
import { checkedOf, type Stage } from './stage.ts';

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
    const places = placesOf(tier, limits);
    const leave = await queue.enter({
      line: `${tier}\0${call.workspace}`,
      places,
      placesOfSession: tier === 'execute' ? limits.sessionCommandsMax : places,
      session: call.sessionId,
      signal,
      congested: () => call.congested(),
    });
    try {
      call.queuedMs = powers.monotonicMs() - arrivedAt;
      return await next(call);
    } finally {
      leave();
    }
  };
