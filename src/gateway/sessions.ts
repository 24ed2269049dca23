/** All sessions: those with a connected client, and those that wait for their client to come back. */
import { RpcError, ToolError } from '../base/errors.ts';
import type { Limits } from '../base/limits.ts';
import { afterMicrotasks, type Powers } from '../base/powers.ts';
import type { CallStore, StoredSession } from '../store/call-store.ts';
import type { Params } from '../wire/protocol/messages.ts';
import { sameSecret } from '../wire/transport/same-secret.ts';
import type { Identity } from './authenticate.ts';
import type { ClientLink, Connection } from './client-link.ts';
import type { Session } from './session.ts';
import type { SessionRecords } from './session-records.ts';

export interface SessionsParts {
  readonly limits: Limits;
  readonly powers: Powers;
  readonly records: SessionRecords;
  readonly callStore: CallStore;
  sessionEnded(session: Session): void;
}

export interface ResumeRequest {
  readonly resume: NonNullable<Params<'hello'>['resume']>;
  readonly identity: Identity;
  readonly uid: number | undefined;
}

/** A session to resume: open in this daemon, or stored by an earlier one. */
export type ResumableSession = { readonly link: ClientLink } | { readonly stored: StoredSession };

export class Sessions {
  readonly #parts: SessionsParts;
  /** Sessions by id; waiting ones are in the order in which their clients left. */
  readonly #links = new Map<string, ClientLink>();
  #closing = false;

  constructor(parts: SessionsParts) {
    this.#parts = parts;
  }

  get all(): ClientLink[] {
    return [...this.#links.values()];
  }

  linkOf(id: string): ClientLink | undefined {
    return this.#links.get(id);
  }

  byId(id: string): Session | undefined {
    return this.#links.get(id)?.session;
  }

  /** Adds a new session for this connection. Throws STORE_FAILED. */
  add(link: ClientLink, connection: Connection): void {
    const { id, secret, principal, role, client, workspace, mode } = link.session.options;
    if (link.resumeMs > 0) {
      const { uid, askedPolicy, resumeMs } = link;
      this.#parts.callStore.addSession(
        { id, principal, role, client, workspace, uid, asked: askedPolicy, mode, resumeMs },
        secret,
      );
    }
    this.#links.set(id, link);
    this.attach(link, connection);
  }

  /** The session of a claim. Throws FORBIDDEN, always with the same message, if there is none for this caller. */
  find({ resume: { sessionId, secret }, identity, uid }: ResumeRequest): ResumableSession {
    const link = this.#links.get(sessionId);
    const stored = link ? undefined : this.#parts.callStore.sessionOf(sessionId, secret);
    const of = link ? { ...link.session.options, uid: link.uid } : stored;
    const isRight = link ? link.resumeMs > 0 && sameSecret(link.session.options.secret, secret) : stored !== undefined;
    const isSame = of?.principal === identity.principal && of.uid === uid;
    if (isRight && isSame && (of.role === 'agent' || identity.role === 'operator'))
      return link ? { link } : { stored: stored as StoredSession };
    throw new RpcError(
      'FORBIDDEN',
      'there is no such session to resume: it has ended, was opened without hello.resumeMs, or belongs to somebody else; send hello without resume',
    );
  }

  /** Connects a session. An earlier connection gets `session.closing` and is closed. */
  attach(link: ClientLink, connection: Connection): ReturnType<ClientLink['outbox']['attach']> {
    const before = link.connection;
    if (before) {
      delete before.link;
      before.peer.notify('session.closing', { reason: 'another connection has resumed this session' });
      this.#hangUp(before);
    }
    link.resumeTimer?.cancel();
    link.resumeTimer = undefined;
    link.connection = connection;
    connection.link = link;
    link.session.comeBack();
    // Runs after hello is answered.
    afterMicrotasks(() => link.outbox.release());
    return link.outbox.attach(connection.peer);
  }

  /** Handles the end of a session's connection: the session waits, or ends as well. */
  leave(link: ClientLink): void {
    const { powers, limits } = this.#parts;
    link.connection = undefined;
    link.outbox.detach();
    if (link.resumeMs === 0) return void this.end(link, 'its connection ended');
    link.session.leave();
    if (this.#closing) return; // The session waits for the next daemon.
    link.resumeTimer = powers.after(link.resumeMs, () => void this.end(link, 'its client did not come back'));
    const { id, principal } = link.session.options;
    this.#links.delete(id);
    this.#links.set(id, link);
    const waiting = () => this.all.filter((it) => it.resumeTimer);
    const own = waiting().filter((it) => it.session.options.principal === principal);
    if (own.length > limits.resumesPerPrincipalMax) void this.end(own[0] as ClientLink, 'others of its principal wait');
    else if (waiting().length > limits.resumesMax) void this.end(longestOf(waiting()), 'too many sessions wait');
  }

  /** Ends a session and its calls, except detached ones. */
  async end(link: ClientLink, reason: string): Promise<void> {
    const { records, callStore } = this.#parts;
    const { session } = link;
    if (!this.#links.delete(session.options.id)) return;
    this.#disconnect(link);
    await session.end(new ToolError('CANCELLED', 'the connection of this call ended'));
    if (link.resumeMs > 0) callStore.endSession(session.options.id);
    records.recordEnd(session, reason);
    this.#parts.sessionEnded(session);
  }

  /** Ends all sessions of a principal except one and tells their clients why. Returns how many ended. */
  endOf(principal: string, reason: string, except: Session): number {
    return this.endWhere((it) => it !== except && it.options.principal === principal, reason);
  }

  /** Ends some sessions and tells their clients why. Returns how many ended. */
  endWhere(which: (session: Session) => boolean, reason: string): number {
    const theirs = this.all.filter(({ session }) => which(session));
    for (const link of theirs) {
      const { connection } = link;
      link.outbox.notify('session.closing', { reason });
      void this.end(link, reason);
      if (connection) this.#hangUp(connection);
    }
    return theirs.length;
  }

  /** Tells clients to go to a new daemon, for which their sessions stay in the store. */
  moveOn(reason: string): void {
    this.#closing = true;
    for (const { outbox } of this.all) outbox.notify('session.closing', { reason });
  }

  /** Refuses all further calls and tells clients why. Sessions stay in the store for the next daemon. */
  refuse(error: ToolError, reason: string): void {
    this.#closing = true;
    for (const { session, outbox } of this.all) {
      session.refuse(error);
      outbox.notify('session.closing', { reason });
    }
  }

  /** Ends all calls of all sessions, except detached ones, and all connections. */
  async close(error: ToolError, reason: string): Promise<void> {
    await Promise.all(this.all.map(({ session }) => session.end(error)));
    for (const link of this.all) {
      this.#parts.records.recordEnd(link.session, reason);
      const { connection } = link;
      this.#disconnect(link);
      connection?.peer.close();
    }
    this.#links.clear();
  }

  /** Closes a connection after everything sent has arrived; destroys one that does not read in time. */
  #hangUp(connection: Connection): void {
    connection.peer.close();
    this.#parts.powers.after(this.#parts.limits.helloTimeoutMs, () => connection.destroy());
  }

  #disconnect(link: ClientLink): void {
    link.resumeTimer?.cancel();
    link.resumeTimer = undefined;
    link.outbox.close();
    for (const it of link.subscriptions.splice(0)) it[Symbol.dispose]();
    if (link.connection) delete link.connection.link;
    link.connection = undefined;
  }
}

/** The longest waiting session of the principal that has the most. */
function longestOf(waiting: readonly ClientLink[]): ClientLink {
  const byPrincipal = Map.groupBy(waiting, (it) => it.session.options.principal);
  const most = [...byPrincipal.values()].reduce((a, b) => (b.length > a.length ? b : a));
  return most[0] as ClientLink;
}

/** The properties that a session was opened with. */
export function openedWith(
  found: ResumableSession,
): Pick<ClientLink['session']['options'], 'role' | 'workspace' | 'mode'> & Pick<ClientLink, 'askedPolicy'> {
  if ('stored' in found) return { ...found.stored, askedPolicy: found.stored.asked };
  const { askedPolicy, session } = found.link;
  const { role, workspace, mode } = session.options;
  return { askedPolicy, role, workspace, mode };
}
