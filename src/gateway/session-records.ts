/** Audit entries about sessions themselves: refused attempts, their ends, actions of operators. */
import type { RpcError } from '../base/errors.ts';
import type { AuditEntry } from '../store/audit/log.ts';
import type { Session } from './session.ts';

/** Refusals that matter for security; other errors are mistakes of a client. */
const TELLING: ReadonlySet<string> = new Set(['UNAUTHENTICATED', 'FORBIDDEN']);

interface DeniedRequest {
  readonly session: Session | undefined;
  /** Principal of the connection if there is no session yet. */
  readonly principal: string;
  readonly method: string;
}

/** `saw-untrusted`: the first result that strangers wrote, of a principal in a workspace. `cancelled`: another session's call. */
export type SessionEvent =
  | 'attenuated'
  | 'attenuation-ended'
  | 'cache-cleared'
  | 'cancelled'
  | 'level-set'
  | 'panel-opened'
  | 'panel-revoked'
  | 'paused'
  | 'reload-failed'
  | 'resumed'
  | 'resumed-calls'
  | 'saw-untrusted'
  | 'shutdown-asked'
  | 'tokens-rotated'
  | 'untrusted-cleared'
  | 'upgrade-asked';

interface EventDetail {
  readonly callId?: string;
  readonly [name: string]: unknown;
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

  /** Records what became of a session, or what its operator did. */
  note(session: Session, event: SessionEvent, { callId, ...detail }: EventDetail = {}): void {
    const kind = event === 'reload-failed' || event === 'level-set' ? 'policy' : 'session';
    this.#append({ kind, ...whoOf(session), ...(callId !== undefined && { callId }), detail: { event, ...detail } });
  }

  /** Records the end of a session once, for the first of its reasons. */
  recordEnd(session: Session, reason: string): void {
    if (this.#endedSessions.has(session)) return;
    this.#endedSessions.add(session);
    this.#append({ kind: 'session', ...whoOf(session), detail: { event: 'end', reason } });
  }

  shutdown(reason: string): void {
    this.#append({ kind: 'session', sessionId: 'daemon', principal: 'daemon', detail: { event: 'shutdown', reason } });
  }
}

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
