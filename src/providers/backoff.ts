/** How long to wait before something that ended is started again. */
import type { Limits } from '../limits.ts';

type Bounds = Pick<Limits, 'providerBackoffMs' | 'providerBackoffMsMax'>;

/** Before the `attempt`-th new start, from 1; a part of up to a half, which `random` from 0 to 1 says, is taken off. */
export function backoffMs(
  attempt: number,
  { providerBackoffMs, providerBackoffMsMax }: Bounds,
  random: number,
): number {
  const whole = Math.min(providerBackoffMs * 2 ** (attempt - 1), providerBackoffMsMax);
  return Math.round(whole * (1 - random / 2));
}
