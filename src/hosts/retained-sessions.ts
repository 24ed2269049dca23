/** Tracks the sessions for which hosts keep something between calls; it ends with the session, or when the session's policy changes. */
import type { Limits } from '../base/limits.ts';
import type { Host } from './host.ts';

/** A session for which a host keeps something. */
export interface RetainedSession {
  readonly session: string;
  /** Whether it must end because the policy changed. */
  isStale(): boolean;
}

export interface Retaining {
  readonly host?: Pick<Host, 'kept' | 'endSession'> | undefined;
  /** Sessions for which the host has kept something, by id. */
  readonly retained: Map<string, RetainedSession>;
}

/** Ends everything kept for a session that is over. */
export function endSession(slots: Iterable<Retaining>, session: string): void {
  for (const { host, retained } of slots) if (retained.delete(session)) host?.endSession(session);
}

/** Ends everything kept for sessions whose policy changed: it began under rules that no longer hold. */
export function endStale(slots: Iterable<Retaining>): void {
  for (const { host, retained } of slots)
    for (const [session, it] of retained) if (it.isStale()) endSession([{ host, retained }], session);
}

/** How many things one host may keep, so that all hosts together stay within `terminalsMax`. */
export function keptMax(slots: Iterable<Retaining>, own: Retaining, { terminalsMax }: Limits): number {
  const others = [...slots].filter((it) => it !== own);
  return others.reduce((left, { host }) => left - (host?.kept ?? 0), terminalsMax);
}
