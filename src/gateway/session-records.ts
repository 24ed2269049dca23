/** Audit entries about sessions themselves: refused attempts, their ends, actions of operators. */
import type { RpcError } from '../base/errors.ts';
import type { AuditEntry } from '../store/audit/log.ts';
import type { Session } from './session.ts';

/** Most policy problems recorded for one failed reload. */
const PROBLEMS_MAX = 16;
/** Refusals that matter for security; other errors are mistakes of a client. */
const TELLING: ReadonlySet<string> = new Set(['UNAUTHENTICATED', 'FORBIDDEN']);

interface DeniedRequest {
  readonly session: Session | undefined;
  /** Principal of the connection if there is no session yet. */
  readonly principal: string;
  readonly method: string;
}

export class SessionRecords {
  readonly #append: (entry: AuditEntry) => void;
  readonly #endedSessions = new WeakSet<Session>();

  constructor(append: (entry: AuditEntry) => void) {
    this.#append = append;
  }

  refused({ code, message }: RpcError, { session, principal, method }: DeniedRequest): void {
    if (!TELLING.has(code)) return;
    const who = session ? whoOf(session) : { sessionId: '', principal };
    this.#append({ kind: 'refusal', ...who, code, detail: { method, message } });
  }

  resumed(session: Session): void {
    this.#append({ kind: 'session', ...whoOf(session), detail: { event: 'resumed' } });
  }

  /** Records the end of a session once, for the first of its reasons. */
  recordEnd(session: Session, reason: string): void {
    if (this.#endedSessions.has(session)) return;
    this.#endedSessions.add(session);
    this.#append({ kind: 'session', ...whoOf(session), detail: { event: 'end', reason } });
  }

  reloadFailed(session: Session, problems: readonly string[]): void {
    const detail = { event: 'reload-failed', problems: problems.slice(0, PROBLEMS_MAX) };
    this.#append({ kind: 'policy', ...whoOf(session), detail });
  }

  levelSet(session: Session, detail: { readonly tool: string; readonly level: string; readonly file: string }): void {
    this.#append({ kind: 'policy', ...whoOf(session), detail: { event: 'level-set', ...detail } });
  }

  tokensRotated(session: Session, names: readonly string[], sessionsEnded: number): void {
    this.#append({ kind: 'session', ...whoOf(session), detail: { event: 'tokens-rotated', names, sessionsEnded } });
  }

  /** `paused` is the session that was paused; without it, all are. */
  paused(session: Session, what: { readonly cancelled?: number; readonly paused?: string | undefined }): void {
    this.#append({ kind: 'session', ...whoOf(session), detail: { event: 'paused', ...what } });
  }

  resumedCalls(session: Session, resumed: string | undefined): void {
    const detail = { event: 'resumed-calls', resumed };
    this.#append({ kind: 'session', ...whoOf(session), detail });
  }

  /** Records a token with less authority, and what it is for. */
  attenuated(session: Session, detail: object): void {
    this.#append({ kind: 'session', ...whoOf(session), detail: { event: 'attenuated', ...detail } });
  }

  attenuationEnded(session: Session, detail: { readonly id: string; readonly reason: string }): void {
    this.#append({ kind: 'session', ...whoOf(session), detail: { event: 'attenuation-ended', ...detail } });
  }

  panelOpened(session: Session): void {
    this.#append({ kind: 'session', ...whoOf(session), detail: { event: 'panel-opened' } });
  }

  panelRevoked(session: Session, page: string): void {
    this.#append({ kind: 'session', ...whoOf(session), detail: { event: 'panel-revoked', page } });
  }

  cacheCleared(session: Session, cleared: { entries: number; bytes: number }): void {
    this.#append({ kind: 'session', ...whoOf(session), detail: { event: 'cache-cleared', ...cleared } });
  }

  shutdownAsked(session: Session, graceMs: number): void {
    this.#append({ kind: 'session', ...whoOf(session), detail: { event: 'shutdown-asked', graceMs } });
  }

  upgradeAsked(session: Session, drainMs: number): void {
    this.#append({ kind: 'session', ...whoOf(session), detail: { event: 'upgrade-asked', drainMs } });
  }

  /** Records the first result that strangers wrote, of a principal in a workspace. */
  sawUntrusted(session: Session, callId: string, tool: string): void {
    this.#append({ kind: 'session', ...whoOf(session), callId, detail: { event: 'saw-untrusted', tool } });
  }

  /** Records that a person no longer counts these as having seen what strangers wrote. */
  untrustedCleared(session: Session, marks: readonly object[]): void {
    this.#append({ kind: 'session', ...whoOf(session), detail: { event: 'untrusted-cleared', marks } });
  }

  /** Records that an operator cancelled another session's call. */
  cancelled(session: Session, callId: string): void {
    this.#append({ kind: 'session', ...whoOf(session), callId, detail: { event: 'cancelled' } });
  }

  shutdown(reason: string): void {
    this.#append({ kind: 'session', sessionId: 'daemon', principal: 'daemon', detail: { event: 'shutdown', reason } });
  }
}

/** The audit entry for an opened session. */
export function sessionEntry({ options, policy }: Session): AuditEntry {
  const { id, principal, role, client, workspace, root, mode, delegation } = options;
  const { name, version: policyVersion } = policy();
  return {
    kind: 'session',
    sessionId: id,
    principal,
    detail: {
      role,
      client,
      workspace,
      ...(root !== workspace && { root }),
      policy: name,
      policyVersion,
      mode,
      parent: delegation?.parent.options.id,
      chain: delegation?.chain,
    },
  };
}

const whoOf = ({ options: { id: sessionId, principal } }: Session) => ({ sessionId, principal });
