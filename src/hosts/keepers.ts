/** Who has something kept in hosts between calls, and when that ends: with the session, or when its policy changes. */
import type { Limits } from '../limits.ts';
import type { Host } from './host.ts';

/** Who has something kept in a host. */
export interface Keeper {
  readonly session: string;
  /** Whether it may not be kept any more, because the policy changed. */
  isStale(): boolean;
}

export interface Keeping {
  readonly host?: Host;
  /** Sessions that have had something kept in it, by their ids. */
  readonly keepers: Map<string, Keeper>;
}

/** Ends what is kept for a session that is over. */
export function endSession(places: Iterable<Keeping>, session: string): void {
  for (const { host, keepers } of places) if (keepers.delete(session)) host?.endSession(session);
}

/** Ends what is kept for sessions whose policy is another one now: it began under what no longer holds. */
export function endStale(places: Iterable<Keeping>): void {
  for (const { host, keepers } of places)
    for (const [session, keeper] of keepers)
      if (keeper.isStale()) endSession([{ ...(host && { host }), keepers }], session);
}

/** How many things one host may keep, where all of them together are bounded. */
export function keptMax(places: Iterable<Keeping>, own: Keeping, { terminalsMax }: Limits): number {
  const others = [...places].filter((it) => it !== own);
  return others.reduce((left, { host }) => left - (host?.kept ?? 0), terminalsMax);
}
