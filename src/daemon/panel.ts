/** The web panel of a daemon: served on demand, with codes by which pages sign in. */
import type { Limits } from '../base/limits.ts';
import type { Powers } from '../base/powers.ts';
import { SignIn } from '../faces/panel/sign-in.ts';
import { panelIdOf, panelPrincipal } from '../gateway/credentials.ts';
import type { PanelControl } from '../gateway/operator/panel-methods.ts';
import type { Session } from '../gateway/session.ts';
import type { Listeners } from './listeners.ts';
import type { Records } from './records.ts';

interface PanelParts {
  readonly records: Pick<Records, 'auditLog' | 'panelSessions'>;
  readonly limits: Limits;
  readonly powers: Powers;
}

/** Signs pages in, and records each. */
export const createSignIn = ({ records: { auditLog, panelSessions }, limits, powers }: PanelParts): SignIn =>
  new SignIn({
    sessions: panelSessions,
    limits,
    powers,
    onSignIn(id) {
      const detail = { event: 'panel-signed-in' };
      auditLog.append({ kind: 'session', sessionId: 'daemon', principal: panelPrincipal(id), detail });
    },
  });

/** Serves the panel when somebody asks for it, at an address that only this machine reaches. */
export function panelControl(
  listeners: Pick<Listeners, 'openPanel'>,
  signIn: Pick<SignIn, 'newCode'>,
  { panelSessions: sessions }: Pick<Records, 'panelSessions'>,
): PanelControl {
  const open = async ({ port, host }: { port?: number | undefined; host?: string | undefined }) => {
    const address = await listeners.openPanel(port, host);
    const { code, expiresAt } = signIn.newCode();
    // Browsers keep a fragment to themselves: it is in no request, no log and no Referer.
    return { url: `${address}#code=${code}`, expiresAt };
  };
  return { open, sessions };
}

/** Notes that the page of a session is in use; does nothing for the sessions of other clients. */
export function usePage({ options }: Session, { panelSessions }: Pick<Records, 'panelSessions'>): void {
  const id = panelIdOf(options.principal);
  if (id !== undefined) panelSessions.use(id);
}
