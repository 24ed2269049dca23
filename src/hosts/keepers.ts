/** Tracks the sessions for which hosts keep something between calls; it ends with the session, or when the session's policy changes. */
import type { Limits } from '../limits.ts';
import type { Host } from './host.ts';

/** A session for which a host keeps something. */
export interface Keeper {
  readonly session: string;
  /** Whether it must end because the policy changed. */
  isStale(): boolean;
}

export interface Keeping {
  readonly host?: Host;
  /** Sessions for which the host has kept something, by id. */
  readonly keepers: Map<string, Keeper>;
}

/** Ends everything kept for a session that is over. */
export function endSession(places: Iterable<Keeping>, session: string): void {
  for (const { host, keepers } of places) if (keepers.delete(session)) host?.endSession(session);
}

/** Ends everything kept for sessions whose policy changed: it began under rules that no longer hold. */
export function endStale(places: Iterable<Keeping>): void {
  for (const { host, keepers } of places)
    for (const [session, keeper] of keepers)
      if (keeper.isStale()) endSession([{ ...(host && { host }), keepers }], session);
}

/** How many things one host may keep, so that all hosts together stay within `terminalsMax`. */
export function keptMax(places: Iterable<Keeping>, own: Keeping, { terminalsMax }: Limits): number {
  const others = [...places].filter((it) => it !== own);
  return others.reduce((left, { host }) => left - (host?.kept ?? 0), terminalsMax);
}
