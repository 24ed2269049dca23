/** The methods of the web panel: serving it, and the pages that are signed in. */

import type { PanelSessions } from '../../store/panel-sessions.ts';
import type { Params } from '../../wire/protocol/messages.ts';
import type { ClientLink } from '../client-link.ts';
import { panelPrincipal } from '../credentials.ts';
import type { Session } from '../session.ts';
import type { SessionRecords } from '../session-records.ts';
import type { Sessions } from '../sessions.ts';

export interface PanelControl {
  /** Serves the panel, if it is not served yet. Throws RpcError. */
  open(asked: Params<'panel.open'>): Promise<{ url: string; expiresAt: string }>;
  readonly sessions: Pick<PanelSessions, 'list' | 'revoke'>;
}

interface PanelParts {
  readonly panel: PanelControl;
  readonly sessions: Sessions;
  readonly records: SessionRecords;
}

export const panelMethods = (parts: PanelParts) => ({
  'panel.open': ({ session }: ClientLink, asked: Params<'panel.open'>) => {
    parts.records.note(session, 'panel-opened');
    return parts.panel.open(asked);
  },
  'panel.sessions': () => ({ sessions: pagesOf(parts) }),
  'panel.revoke': ({ session }: ClientLink, { id }: Params<'panel.revoke'>) => ({
    revoked: revokePage(session, id, parts),
  }),
});

/** The signed-in pages, with the number of their connections now. */
function pagesOf({ panel, sessions }: PanelParts): object[] {
  return panel.sessions.list().map((page) => {
    const principal = panelPrincipal(page.id);
    const connections = sessions.all.filter(({ session }) => session.options.principal === principal).length;
    return { ...page, connections };
  });
}

/** Signs a page out and ends its connections, except the one of `session`; false if there is no such page. */
function revokePage(session: Session, id: string, { panel, sessions, records }: PanelParts): boolean {
  const revoked = panel.sessions.revoke(id);
  sessions.endOf(panelPrincipal(id), 'its page was signed out', session);
  if (revoked) records.note(session, 'panel-revoked', { page: id });
  return revoked;
}

export function revokeAllPages(session: Session, parts: PanelParts): void {
  for (const { id } of parts.panel.sessions.list()) revokePage(session, id, parts);
}
