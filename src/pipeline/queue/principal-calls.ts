/** Bounds the calls of one principal that are under way, over all of its sessions. */
import { ToolError } from '../../errors.ts';
import type { Limits } from '../../limits.ts';
import type { Stage } from '../stage.ts';

const RETRY_AFTER_MS = 100;

/** Stands before the rate limit, so that a refused call counts in none. Throws QUEUE_FULL. */
export const principalCalls = ({ principalCallsMax: max }: Pick<Limits, 'principalCallsMax'>): Stage => {
  const underWay = new Map<string, number>();
  return (next) => async (call) => {
    const { principal } = call;
    const before = underWay.get(principal) ?? 0;
    if (before >= max)
      throw new ToolError(
        'QUEUE_FULL',
        `${before} calls of ${principal} are under way in all of its sessions, which is the maximum; wait for some to end`,
        { details: { retryAfterMs: RETRY_AFTER_MS, limit: max, used: before, per: 'principal' } },
      );
    underWay.set(principal, before + 1);
    try {
      return await next(call);
    } finally {
      const left = (underWay.get(principal) ?? 1) - 1;
      if (left > 0) underWay.set(principal, left);
      else underWay.delete(principal);
    }
  };
};
