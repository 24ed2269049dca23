/** `session.sawUntrusted`: what a session knows and adds, and what a person takes away. */

import type { Powers } from '../../base/powers.ts';
import type { Place, SessionMark, UntrustedMarks } from '../../store/approvals/untrusted-marks.ts';
import type { Params } from '../../wire/protocol/messages.ts';
import type { ClientLink } from '../client-link.ts';
import type { Session } from '../session.ts';
import type { SessionRecords } from '../session-records.ts';

export interface UntrustedParts {
  readonly untrusted: UntrustedMarks;
  readonly records: SessionRecords;
  readonly powers: Pick<Powers, 'now'>;
}

export function markOf(session: () => Session, { untrusted, records, powers }: UntrustedParts): SessionMark {
  const place = (): Place => {
    const { principal, root: workspace } = session().options;
    return { principal, workspace };
  };
  return {
    has: () => untrusted.has(place()),
    add: (callId, tool) => {
      const isNew = untrusted.add({ ...place(), at: new Date(powers.now()).toISOString(), callId, tool });
      if (isNew) records.note(session(), 'saw-untrusted', { callId, tool });
    },
    carry: () => untrusted.carry(place()),
  };
}

/** Answers `approvals.untrusted`. */
export function untrustedMarks(
  { session }: ClientLink,
  { clear, ...of }: Params<'approvals.untrusted'>,
  { untrusted, records }: Omit<UntrustedParts, 'powers'>,
): object {
  const marks = untrusted.list(of);
  if (clear && marks.length > 0) {
    records.note(session, 'untrusted-cleared', { marks });
    untrusted.clear(marks);
  }
  return { marks };
}
