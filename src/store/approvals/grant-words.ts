/** A remembered answer in words, for the terminal and the panel. Pure. */
import type { DoorTarget, Grant } from './approval.ts';

type Match = Pick<Grant, 'match' | 'tool' | 'rule'> & { readonly door?: DoorTarget | undefined };
type Holder = Pick<Grant, 'scope' | 'sessionId'> & { readonly project?: string | undefined };

/** An answer about a door has no end unless the person gives one: a hundred years. */
export const UNBOUNDED_MS = 100 * 365 * 86_400_000;

/** The calls that an answer covers. */
export function coveredBy({ match, tool, rule, door }: Match): string {
  const words = {
    exact: `exactly this call of ${tool}`,
    tool: `calls of ${tool}`,
    rule: `all calls that rule ${rule} asks about`,
    door: `${door?.kind ?? 'host'} ${door?.target ?? ''}`,
  };
  return words[match];
}

/** Whose calls these are. */
export function heldIn({ scope, sessionId, project }: Holder): string {
  const places = { session: `in session ${sessionId}`, project: `in ${project ?? ''}`, always: 'in all sessions' };
  return places[scope];
}

/** How long it holds; `toText` writes a time in milliseconds since the epoch. */
export const holdsUntil = (
  { grantedAtMs, expiresAtMs }: Pick<Grant, 'grantedAtMs' | 'expiresAtMs'>,
  toText: (ms: number) => string,
): string => `until ${expiresAtMs - grantedAtMs < UNBOUNDED_MS ? toText(expiresAtMs) : 'it is revoked'}`;
