import type { Tier } from '../../base/call.ts';
import type { Limits } from '../../base/limits.ts';
import type { Powers } from '../../base/powers.ts';
import { shapeOf } from '../../hosts/shape.ts';
import { hostTierOf, type Tool } from '../../tools/tool.ts';
import { type ClearedCall, outcomeOf, type Stage } from '../stage.ts';
import type { FairQueue, QueueSlot } from './fair-queue.ts';

/** Waits for a slot at the tier host of the call's workspace. Throws QUEUE_FULL when too many wait. */
export const schedule =
  (queue: FairQueue, limits: Limits, powers: Powers): Stage<ClearedCall> =>
  (next) =>
  async (call) => {
    const { tool, tier: ofCall } = call.checked;
    const tier = hostTierOf(tool, ofCall);
    const arrivedAt = powers.monotonicMs();
    const { signal } = call.controller;
    signal.throwIfAborted();
    const leave = await queue.enter({
      ...slotOf(tool, tier, { call, limits }),
      principal: call.principal,
      session: call.sessionId,
      signal,
      congested: () => call.congested(),
    });
    try {
      const queuedMs = powers.monotonicMs() - arrivedAt;
      return { ...(await outcomeOf(next, call)), queuedMs };
    } finally {
      leave();
    }
  };

/** The line and slots of a call. Programs have slots of their own: a program waits for its calls, which need slots themselves. */
function slotOf(
  { runs }: Tool,
  tier: Tier,
  { call, limits }: { call: ClearedCall; limits: Limits },
): Pick<QueueSlot, 'line' | 'slots' | 'slotsPerSession'> {
  const by = runs && 'by' in runs ? runs : undefined;
  if (by?.by === 'isolates')
    return { line: 'isolate', slots: limits.isolatesMax, slotsPerSession: limits.sessionIsolatesMax };
  // A sub-agent waits for its own sub-agents: one that waited for a slot might wait for ever. Their number is bounded where they start.
  if (by?.by === 'agents') return { line: 'task', slots: Infinity, slotsPerSession: Infinity };
  // Each provider has a line of its own, so that a slow one holds up only its own callers.
  if (by?.by === 'providers') {
    const { provider, concurrency } = by.provider;
    return { line: `provider\0${provider}`, slots: concurrency, slotsPerSession: concurrency };
  }
  if (by?.by === 'web' && by.visit?.(call.checked.input as never))
    return { line: 'browser', slots: limits.browsersMax, slotsPerSession: limits.sessionBrowsersMax };
  // The one egress process makes the request, no host.
  if (by?.by === 'web' || by?.by === 'connectors')
    return { line: 'http', slots: limits.httpRequestsMax, slotsPerSession: limits.sessionHttpRequestsMax };
  const { jobs: slots } = shapeOf(tier, limits);
  const slotsPerSession = tier === 'execute' ? limits.sessionCommandsMax : slots;
  return { line: `${tier}\0${call.workspace}`, slots, slotsPerSession };
}
