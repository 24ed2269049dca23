/**
 * Calls that outlive their connection or the daemon, and resumable sessions: which ids were used for what, and the results. A row is
 * written before its call may change anything, so that no id has two effects.
 */
import { hash, timingSafeEqual } from 'node:crypto';
import type { DatabaseSync } from 'node:sqlite';
import { deserialize, serialize } from 'node:v8';
import type { CallStatus, ToolResult } from '../base/call.ts';
import { ToolError } from '../base/errors.ts';
import type { Limits } from '../base/limits.ts';
import type { Powers, Timer } from '../base/powers.ts';
import { openDatabase } from './database.ts';

export interface NewCall {
  readonly principal: string;
  readonly sessionId: string;
  readonly callId: string;
  readonly tool: string;
  /** Digest of name and input; another digest under the same id is a conflicting call. */
  readonly digest: string;
  readonly detached: boolean;
  /** Whether the call may change something from now on. */
  readonly intended: boolean;
}

export interface StoredCall extends NewCall {
  readonly createdMs: number;
  /** Undefined while the call runs. */
  readonly endedMs?: number;
  /** Absent while the call runs. */
  readonly status?: CallStatus;
  /** Whether its daemon ended before the call did. */
  readonly isCut: boolean;
  /** Absent while the call runs, if it was cut off, or if the result was dropped. */
  readonly result?: ToolResult;
}

/** The facts needed to resume a session. */
export interface StoredSession {
  readonly id: string;
  readonly principal: string;
  readonly uid: number | undefined;
  readonly role: 'agent' | 'operator';
  readonly client: string;
  readonly workspace: string;
  readonly asked: string | undefined;
  readonly mode?: string | undefined;
  readonly resumeMs: number;
}

const SCHEMA = `
  CREATE TABLE IF NOT EXISTS calls (session_id TEXT NOT NULL, call_id TEXT NOT NULL, principal TEXT NOT NULL,
    tool TEXT NOT NULL, digest TEXT NOT NULL, detached INTEGER NOT NULL, intended INTEGER NOT NULL,
    created_ms INTEGER NOT NULL, ended_ms INTEGER, status TEXT, cut INTEGER NOT NULL DEFAULT 0, result BLOB,
    bytes INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (session_id, call_id)) STRICT;
  CREATE INDEX IF NOT EXISTS calls_detached ON calls (call_id) WHERE detached = 1;
  CREATE INDEX IF NOT EXISTS calls_ended ON calls (ended_ms);
  CREATE TABLE IF NOT EXISTS sessions (id TEXT PRIMARY KEY, secret_hash TEXT NOT NULL, facts TEXT NOT NULL,
    resume_ms INTEGER NOT NULL, expires_ms INTEGER) STRICT;`;

const SWEEP_EVERY_MS = 60_000;
/** Milliseconds after which a write that failed is tried again, while somebody asks; a locked file blocks the event loop for a second. */
const RETRY_MS = 5_000;
/** Share of a full table that is freed at once, since finding the largest user needs a full scan. */
const ROOM_SHARE = 1 / 16;

type StoredRow = Record<string, string | number | Uint8Array | null>;

const hashOf = (secret: string): string => hash('sha256', secret, 'hex');

export class CallStore implements Disposable {
  readonly #database: DatabaseSync;
  readonly #limits: Limits;
  readonly #powers: Powers;
  #rows: number;
  #bytes: number;
  #sweep: Timer | undefined;
  /** When the last write failed; undefined if it succeeded. */
  #failedAtMs: number | undefined;

  /**
   * Opens the file at `path`. Calls that an earlier daemon left unfinished are marked as cut off; its sessions wait for their clients from
   * now on.
   */
  constructor(path: string, limits: Limits, powers: Powers) {
    this.#database = openDatabase(path, SCHEMA);
    this.#limits = limits;
    this.#powers = powers;
    const now = powers.now();
    this.#run(`UPDATE calls SET cut = 1, status = 'error', ended_ms = ? WHERE ended_ms IS NULL`, now);
    this.#run('UPDATE sessions SET expires_ms = ? + resume_ms WHERE expires_ms IS NULL', now);
    const { rows, bytes } = this.#get(
      'SELECT count(*) AS rows, coalesce(sum(bytes), 0) AS bytes FROM calls',
    ) as StoredRow;
    this.#rows = rows as number;
    this.#bytes = bytes as number;
    this.#dropOld();
    this.#sweepLater();
  }

  /** Whether the last write succeeded. Tries another one after a while, since nobody else may. */
  get writable(): boolean {
    if (this.#failedAtMs === undefined) return true;
    if (this.#powers.monotonicMs() - this.#failedAtMs < RETRY_MS) return false;
    try {
      this.#orFail(() => this.#run('PRAGMA user_version = 1'));
      return true;
    } catch {
      return false; // STORE_FAILED
    }
  }

  /** Stores a new call. Throws STORE_FAILED. */
  begin(call: NewCall): void {
    const { sessionId, callId, principal, tool, digest, detached, intended } = call;
    this.#orFail(() => {
      this.#run(
        `INSERT INTO calls (session_id, call_id, principal, tool, digest, detached, intended, created_ms)
          VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
        ...[sessionId, callId, principal, tool, digest, Number(detached), Number(intended), this.#powers.now()],
      );
      this.#rows += 1;
      this.#makeRoom();
    });
  }

  /** Marks that the call may change something from now on. Throws STORE_FAILED. */
  intend({ sessionId, callId }: Pick<NewCall, 'sessionId' | 'callId'>): void {
    this.#orFail(() =>
      this.#run('UPDATE calls SET intended = 1 WHERE session_id = ? AND call_id = ?', sessionId, callId),
    );
  }

  /** Stores the end of a call; without a result it was cut off. Errors are logged, since no caller waits for this. */
  end(
    { sessionId, callId }: Pick<NewCall, 'sessionId' | 'callId'>,
    status: CallStatus,
    result: ToolResult | undefined,
  ): void {
    try {
      const bytes = result && serialize(result);
      const { changes } = this.#run(
        'UPDATE calls SET ended_ms = ?, status = ?, cut = ?, result = ?, bytes = ? WHERE session_id = ? AND call_id = ?',
        ...[this.#powers.now(), status, bytes ? 0 : 1, bytes ?? null, bytes?.length ?? 0, sessionId, callId],
      );
      if (changes > 0) this.#bytes += bytes?.length ?? 0;
      this.#makeRoom();
    } catch (error) {
      this.#failedAtMs = this.#powers.monotonicMs();
      this.#powers.log.error({ error }, 'the result of a call could not be stored');
    }
  }

  ofSession(sessionId: string, callId: string): StoredCall | undefined {
    return toCall(this.#get('SELECT * FROM calls WHERE session_id = ? AND call_id = ?', sessionId, callId));
  }

  /** The newest detached call with this id, of the given principal or of any. */
  detached(callId: string, principal?: string): StoredCall | undefined {
    const of = 'SELECT * FROM calls WHERE detached = 1 AND call_id = ?';
    const newest = 'ORDER BY created_ms DESC LIMIT 1';
    return toCall(
      principal === undefined
        ? this.#get(`${of} ${newest}`, callId)
        : this.#get(`${of} AND principal = ? ${newest}`, callId, principal),
    );
  }

  /** Detached calls of a principal and all calls of a session, oldest first, without results; at most as many as a session remembers. */
  list(principal: string, sessionId: string): StoredCall[] {
    const rows = this.#database
      .prepare(
        `SELECT session_id, call_id, principal, tool, digest, detached, intended, created_ms, ended_ms, status, cut
          FROM calls WHERE (detached = 1 AND principal = ?) OR session_id = ?
          ORDER BY created_ms DESC, rowid DESC LIMIT ?`,
      )
      .all(principal, sessionId, this.#limits.sessionCallsKept) as StoredRow[];
    return rows.reverse().flatMap((it) => toCall(it) ?? []);
  }

  /** Calls whose id begins or ends with `part`, newest first, without results. */
  named(part: string, limit: number): StoredCall[] {
    const rows = this.#database
      .prepare(
        `SELECT session_id, call_id, principal, tool, digest, detached, intended, created_ms, ended_ms, status, cut
          FROM calls WHERE substr(call_id, 1, length(:part)) = :part OR substr(call_id, -length(:part)) = :part
          ORDER BY created_ms DESC LIMIT :limit`,
      )
      .all({ part, limit }) as StoredRow[];
    return rows.flatMap((it) => toCall(it) ?? []);
  }

  /** Stores a resumable session. Throws STORE_FAILED. */
  addSession(session: StoredSession, secret: string): void {
    const { id, resumeMs } = session;
    this.#orFail(() =>
      this.#run(
        'INSERT OR REPLACE INTO sessions (id, secret_hash, facts, resume_ms) VALUES (?, ?, ?, ?)',
        ...[id, hashOf(secret), JSON.stringify(session), resumeMs],
      ),
    );
  }

  /** A session of an earlier daemon, if the secret is right and the session has not expired. */
  sessionOf(id: string, secret: string): StoredSession | undefined {
    const row = this.#get('SELECT * FROM sessions WHERE id = ? AND expires_ms > ?', id, this.#powers.now());
    if (!row || !timingSafeEqual(Buffer.from(row.secret_hash as string), Buffer.from(hashOf(secret)))) return undefined;
    return JSON.parse(row.facts as string) as StoredSession;
  }

  /** Ends a session that can't be resumed any more; drops its calls except detached ones. */
  endSession(id: string): void {
    try {
      this.#run('DELETE FROM sessions WHERE id = ?', id);
      this.#drop('session_id = ? AND detached = 0', id);
    } catch (error) {
      this.#powers.log.error({ error }, 'a session could not be ended in the store');
    }
  }

  [Symbol.dispose](): void {
    this.#sweep?.cancel();
    if (this.#database.isOpen) this.#database.close();
  }

  #get(sql: string, ...values: (string | number | null)[]): StoredRow | undefined {
    return this.#database.prepare(sql).get(...values) as StoredRow | undefined;
  }

  #run(sql: string, ...values: (string | number | Uint8Array | null)[]) {
    return this.#database.prepare(sql).run(...values);
  }

  #orFail(work: () => unknown): void {
    try {
      work();
      this.#failedAtMs = undefined;
    } catch (error) {
      this.#failedAtMs = this.#powers.monotonicMs();
      throw new ToolError('STORE_FAILED', 'the store of calls can not be written at the moment', { cause: error });
    }
  }

  #drop(where: string, ...values: (string | number)[]): void {
    const { rows, bytes } = this.#get(
      `SELECT count(*) AS rows, coalesce(sum(bytes), 0) AS bytes FROM calls WHERE ${where}`,
      ...values,
    ) as { rows: number; bytes: number };
    if (rows === 0) return;
    this.#run(`DELETE FROM calls WHERE ${where}`, ...values);
    this.#rows -= rows;
    this.#bytes -= bytes;
  }

  #dropOld(): void {
    const now = this.#powers.now();
    this.#drop('ended_ms <= ?', now - this.#limits.callsKeptMs);
    this.#run('DELETE FROM sessions WHERE expires_ms <= ?', now);
  }

  /** Drops data of the principal that uses the most: the oldest results first, keeping their ids, then the oldest rows. */
  #makeRoom(): void {
    const { callsKept, callBytesKept } = this.#limits;
    if (this.#bytes > callBytesKept) {
      const who = this.#heaviestPrincipal('sum(bytes)');
      const over = this.#bytes - callBytesKept * (1 - ROOM_SHARE);
      let freed = 0;
      const held = this.#database
        .prepare('SELECT rowid AS id, bytes FROM calls WHERE principal = ? AND bytes > 0 ORDER BY ended_ms')
        .all(who) as { id: number; bytes: number }[];
      for (const { id, bytes } of held) {
        if (freed >= over) break;
        this.#run('UPDATE calls SET result = NULL, bytes = 0 WHERE rowid = ?', id);
        freed += bytes;
      }
      this.#bytes -= freed;
    }
    if (this.#rows <= callsKept) return;
    const oldest = `SELECT rowid FROM calls WHERE principal = ? AND ended_ms IS NOT NULL ORDER BY ended_ms LIMIT ?`;
    this.#drop(`rowid IN (${oldest})`, this.#heaviestPrincipal('count(*)'), Math.ceil(callsKept * ROOM_SHARE));
  }

  #heaviestPrincipal(what: string): string {
    return this.#get(`SELECT principal FROM calls GROUP BY principal ORDER BY ${what} DESC LIMIT 1`)
      ?.principal as string;
  }

  #sweepLater(): void {
    this.#sweep = this.#powers.after(Math.min(SWEEP_EVERY_MS, this.#limits.callsKeptMs), () => {
      this.#dropOld();
      this.#sweepLater();
    });
  }
}

function toCall(row: StoredRow | undefined): StoredCall | undefined {
  if (!row) return undefined;
  const text = (key: string) => row[key] as string;
  const { result, status, ended_ms: endedMs } = row;
  return {
    sessionId: text('session_id'),
    callId: text('call_id'),
    principal: text('principal'),
    tool: text('tool'),
    digest: text('digest'),
    detached: row.detached === 1,
    intended: row.intended === 1,
    createdMs: row.created_ms as number,
    isCut: row.cut === 1,
    ...(endedMs !== null && { endedMs: endedMs as number }),
    ...(status !== null && { status: status as CallStatus }),
    ...(result instanceof Uint8Array && { result: deserialize(result) as ToolResult }),
  };
}
