/** The delay before a provider that ended is restarted. */
import type { Limits } from '../../base/limits.ts';

type BackoffLimits = Pick<Limits, 'providerBackoffMs' | 'providerBackoffMsMax'>;

/** Delay before the `attempt`-th restart, counted from 1, in milliseconds. `random` from 0 to 1 shortens it by up to a half. */
export function backoffMs(
  attempt: number,
  { providerBackoffMs, providerBackoffMsMax }: BackoffLimits,
  random: number,
): number {
  const fullMs = Math.min(providerBackoffMs * 2 ** (attempt - 1), providerBackoffMsMax);
  return Math.round(fullMs * (1 - random / 2));
}
