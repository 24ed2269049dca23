/** Ends a daemon that a call or an MCP client started by itself, once nobody has used it for a while. */
import type { Powers } from '../base/powers.ts';

const MINUTE_MS = 60_000;
/** Looks within the time after which the daemon ends, so that it ends at most a quarter of that later. */
const LOOKS = 4;

export interface IdleExit {
  /** Minutes without a session or a call; 0 for never. */
  readonly minutes: number;
  isIdle(): boolean;
  /** Called once. */
  end(): void;
}

export function endWhenIdle(
  { minutes, isIdle, end }: IdleExit,
  powers: Pick<Powers, 'every' | 'monotonicMs'>,
): Disposable {
  if (minutes === 0) return { [Symbol.dispose]: () => {} };
  const idleMs = minutes * MINUTE_MS;
  let usedAt = powers.monotonicMs();
  const timer = powers.every(Math.ceil(idleMs / LOOKS), () => {
    if (!isIdle()) usedAt = powers.monotonicMs();
    if (powers.monotonicMs() - usedAt < idleMs) return;
    timer.cancel();
    end();
  });
  return { [Symbol.dispose]: () => timer.cancel() };
}
