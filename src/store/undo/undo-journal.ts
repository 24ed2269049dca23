/**
 * Which calls can be undone, and by whom. Hosts keep the changes themselves, in a file for each call in a spool for each workspace. A host
 * may write anything into its spool, so nothing is read from it here.
 */

import { hash } from 'node:crypto';
import * as fs from 'node:fs';
import { join } from 'node:path';
import type { DatabaseSync } from 'node:sqlite';
import type { NamedCall } from '../../base/call.ts';
import { diskOf, journalRoom } from '../../base/disk.ts';
import type { Limits } from '../../base/limits.ts';
import { inSpool } from '../../base/paths.ts';
import type { Powers } from '../../base/powers.ts';
import { openDatabase, type Prepared, prepared, storing } from '../database.ts';
import type { DiskRoom } from '../disk-room.ts';
import { Checkpoints } from './checkpoints.ts';
import type { JournalledCall, Undoable, Undoer } from './journalled-call.ts';

const attempt = storing('what can be undone');

const SCHEMA = `
  CREATE TABLE IF NOT EXISTS calls (key TEXT PRIMARY KEY, call_id TEXT NOT NULL, session_id TEXT NOT NULL,
    principal TEXT NOT NULL, workspace TEXT NOT NULL, undo TEXT, paths TEXT NOT NULL, bytes INTEGER NOT NULL,
    begun_ms INTEGER NOT NULL, undoes TEXT) STRICT;
  CREATE INDEX IF NOT EXISTS calls_by_id ON calls (call_id);
  CREATE INDEX IF NOT EXISTS calls_by_age ON calls (begun_ms);
  CREATE INDEX IF NOT EXISTS calls_by_undone ON calls (undoes);`;

export type Caller = Pick<JournalledCall, 'callId' | 'sessionId' | 'principal' | 'workspace'>;

/** A host's report about a call, after validation. */
export interface UndoReport {
  readonly undo: Undoable;
  readonly bytes: number;
  readonly paths: readonly string[];
}

export interface UndoJournalOptions {
  /** The daemon's state directory. */
  readonly stateDir: string;
  readonly limits: Limits;
  readonly powers: Powers;
  /** Room on the disk; without it only the limits apply. */
  readonly room?: DiskRoom;
}

export class UndoJournal implements Disposable {
  readonly #options: UndoJournalOptions;
  readonly #database: DatabaseSync;
  readonly #statements: Prepared<typeof STATEMENTS>;
  /** Named points between the calls. */
  readonly checkpoints: Checkpoints;
  readonly #folders = new Map<string, string | undefined>();
  /** Unfinished calls of an earlier daemon or of a host that died, by workspace. */
  readonly #cutOff = new Map<string, Set<string>>();
  readonly #working = new Map<string, Promise<string[]>>();
  #calls = 0;
  #bytes = 0;
  /** Number of calls and bytes that each principal keeps here. */
  readonly #shares = new Map<string, JournalShare>();

  /** Opens the journal and drops what is too old. No host may be running. */
  constructor(options: UndoJournalOptions) {
    this.#options = options;
    this.#database = openDatabase(join(options.stateDir, 'undo.db'), SCHEMA);
    this.checkpoints = new Checkpoints(this.#database, options.limits);
    this.#statements = prepared(this.#database, STATEMENTS);
    const rows = this.#database.prepare('SELECT key, workspace, principal, bytes, undo FROM calls').all();
    for (const { key, workspace, principal, bytes, undo } of rows as { [name: string]: string }[]) {
      this.#count(principal as string, { calls: 1, bytes: Number(bytes) });
      if (undo === null) this.cut(workspace as string, key as string);
    }
    this.#removeUnknown(new Set(rows.map((it) => it.key as string)));
    this.#forgetLost(rows.filter((it) => it.undo !== null).map((it) => it.key as string));
    this.#prune();
    options.room?.register('undo', () => this.#dropOldest('bytes'));
  }

  get status(): { calls: number; bytes: number } {
    return { calls: this.#calls, bytes: this.#bytes };
  }

  /**
   * The spool of a workspace, created if missing; undefined if no host could reach it: with a root daemon hosts run as the workspace's
   * owner, who can't enter the state directory.
   */
  spoolOf(workspace: string): string | undefined {
    if (!this.#folders.has(workspace)) this.#folders.set(workspace, this.#makeSpool(workspace));
    return this.#folders.get(workspace);
  }

  /** The name of a call's file. */
  keyOf({ sessionId, callId }: Pick<Caller, 'sessionId' | 'callId'>): string {
    return hash('sha256', `${sessionId}\0${callId}`);
  }

  /** Records that a call is about to change files. Throws STORE_FAILED. */
  begin(caller: Caller): void {
    const { sessionId, callId, principal, workspace } = caller;
    const row = [this.keyOf(caller), callId, sessionId, principal, workspace, this.#options.powers.now()];
    const { changes } = attempt(() => this.#statements.begin.run(...row));
    if (changes > 0) this.#count(principal, { calls: 1, bytes: 0 });
    else attempt(() => this.#statements.reopen.run(this.keyOf(caller)));
  }

  /** Records the end of a call; without a report nothing is kept. Returns how far the call can be undone. Throws STORE_FAILED. */
  end(key: string, report: UndoReport | undefined): Undoable {
    const row = this.#row(key);
    if (!row) return 'none';
    if (!report || report.undo === 'none') {
      this.drop(key);
      return 'none';
    }
    const paths = JSON.stringify([...new Set([...row.paths, ...report.paths])]);
    attempt(() => this.#statements.end.run(report.undo, paths, report.bytes, key));
    this.#count(row.principal, { calls: 0, bytes: report.bytes - row.bytes });
    this.#prune();
    const { room } = this.#options;
    // Making room may drop this call as well, after all others.
    if (room && !room.has(0) && room.makeRoom() && !this.#row(key)) return 'none';
    return report.undo;
  }

  /** Marks a call as interrupted; its changes must be undone before anything else changes in the workspace. */
  cut(workspace: string, key: string): void {
    this.#cutOff.set(workspace, (this.#cutOff.get(workspace) ?? new Set()).add(key));
  }

  /** Interrupted calls of a workspace. */
  cutOff(workspace: string): string[] {
    return [...(this.#cutOff.get(workspace) ?? [])];
  }

  /** Workspaces with interrupted calls. */
  get cutOffWorkspaces(): string[] {
    return [...this.#cutOff].flatMap(([workspace, keys]) => (keys.size > 0 ? [workspace] : []));
  }

  /** Runs `work` for a workspace; concurrent callers share the running work and its result. */
  runExclusively(workspace: string, work: () => Promise<string[]>): Promise<string[]> {
    const known = this.#working.get(workspace);
    if (known) return known;
    const working = work().finally(() => this.#working.delete(workspace));
    this.#working.set(workspace, working);
    return working;
  }

  /** Waits until no work is under way in any workspace. */
  async settled(): Promise<void> {
    while (this.#working.size > 0) await Promise.allSettled(this.#working.values());
  }

  /** Drops a call, which can't be undone any more. Throws STORE_FAILED. */
  drop(key: string): void {
    const row = this.#row(key);
    if (!row) return;
    const spool = this.spoolOf(row.workspace);
    // Before the row, for which a full disk has no room yet. A row without a file is forgotten at the next start.
    if (spool !== undefined) for (const name of Object.values(inSpool(key))) this.#remove(join(spool, name));
    attempt(() => this.#statements.drop.run(key));
    this.checkpoints.drop(key);
    this.#cutOff.get(row.workspace)?.delete(key);
    this.#count(row.principal, { calls: -1, bytes: -row.bytes });
  }

  /**
   * The call with this id that the caller may undo: its own session's, otherwise the latest of its workspace, preferring its own
   * principal's; only operators may undo calls of other principals. Undefined also for a call that is not over.
   */
  find({ callId, of }: NamedCall, { id, principal, role, workspace }: Undoer): JournalledCall | undefined {
    const isOperator = role === 'operator';
    const own = this.#row(this.keyOf({ sessionId: of ?? id, callId }));
    const isTheirs = own && (own.sessionId === id || isOperator || own.principal === principal);
    if (own?.isOver && isTheirs) return own;
    if (of !== undefined) return undefined;
    const named = { callId, principal, workspace, anybody: isOperator ? 1 : 0 };
    const row = attempt(() => this.#statements.byId.get(named));
    return row && toRow(row);
  }

  /**
   * The newest call of a workspace that the caller may undo, without undos and calls already undone; repeated use goes back step by step.
   */
  last({ principal, role, workspace }: Undoer): JournalledCall | undefined {
    const row = attempt(() =>
      this.#statements.last.get({ workspace, principal, anybody: role === 'operator' ? 1 : 0 }),
    );
    return row && toRow(row);
  }

  /** Finished calls of a workspace, without undos and calls already undone, the newest first. */
  all = (workspace: string): JournalledCall[] => attempt(() => this.#statements.all.all(workspace)).map(toRow);

  /** Records that a call undid the one with `key`. Throws STORE_FAILED. */
  recordUndo(undo: Pick<Caller, 'sessionId' | 'callId'>, key: string): void {
    attempt(() => this.#statements.undid.run(key, this.keyOf(undo)));
  }

  /** Calls whose id begins or ends with `part`, newest first, at most `limit`. */
  named(part: string, limit: number): { callId: string; sessionId: string; begunMs: number }[] {
    const rows = attempt(() => this.#statements.named.all({ part, limit })) as Record<string, string | number>[];
    return rows.map((it) => ({
      callId: it.call_id as string,
      sessionId: it.session_id as string,
      begunMs: it.begun_ms as number,
    }));
  }

  [Symbol.dispose](): void {
    this.#database.close();
  }

  #row(key: string): JournalRow | undefined {
    const row = attempt(() => this.#statements.get.get(key));
    return row && toRow(row);
  }

  /** Drops calls that are too old, and those beyond the limits of number and bytes; never a running or interrupted one. */
  #prune(): void {
    const { journalKeptMs, journalCallsMax } = this.#options.limits;
    const olderThanMs = this.#options.powers.now() - journalKeptMs;
    for (;;) {
      const oldest = attempt(() => this.#statements.oldest.get()) as { key: string; begun_ms: number } | undefined;
      if (!oldest || oldest.begun_ms >= olderThanMs) break;
      this.drop(oldest.key);
    }
    while (this.#calls > journalCallsMax && this.#dropOldest('calls'));
    while (this.#bytes > this.#bytesMax() && this.#dropOldest('bytes'));
  }

  #bytesMax(): number {
    const { stateDir, limits } = this.#options;
    return journalRoom(diskOf(stateDir).freeBytes + this.#bytes, limits);
  }

  /** Drops the oldest call of the principal who keeps most, so that nobody can make others lose their undo data. */
  #dropOldest(by: keyof JournalShare): boolean {
    const largestFirst = [...this.#shares].sort(([, a], [, b]) => b[by] - a[by]);
    for (const [principal] of largestFirst) {
      const oldest = attempt(() => this.#statements.oldestOf.get(principal)) as { key: string } | undefined;
      if (oldest) this.drop(oldest.key);
      if (oldest) return true;
    }
    return false;
  }

  #count(principal: string, { calls, bytes }: JournalShare): void {
    this.#calls += calls;
    this.#bytes += bytes;
    const share = this.#shares.get(principal) ?? { calls: 0, bytes: 0 };
    const after = { calls: share.calls + calls, bytes: share.bytes + bytes };
    if (after.calls > 0) this.#shares.set(principal, after);
    else this.#shares.delete(principal);
  }

  /** Drops calls whose files were removed to make room before the daemon could open this database. */
  #forgetLost(keys: readonly string[]): void {
    for (const key of keys) {
      const row = this.#row(key);
      const spool = row && this.spoolOf(row.workspace);
      if (spool !== undefined && !fs.existsSync(join(spool, inSpool(key).file))) this.drop(key);
    }
  }

  #makeSpool(workspace: string): string | undefined {
    // A missing workspace has nothing to undo, but its spool must still be cleaned.
    const owner = fs.statSync(workspace, { throwIfNoEntry: false })?.uid ?? 0;
    if (process.getuid?.() === 0 && owner !== 0) return undefined;
    const spool = join(this.#options.stateDir, 'journal', hash('sha256', workspace).slice(0, 32));
    fs.mkdirSync(spool, { recursive: true, mode: 0o700 });
    return spool;
  }

  /** Removes files that belong to no known call, such as those of a compromised host. */
  #removeUnknown(keys: ReadonlySet<string>): void {
    const folder = join(this.#options.stateDir, 'journal');
    if (!fs.existsSync(folder)) return;
    const known = new Set([...keys].flatMap((it) => Object.values(inSpool(it))));
    for (const spool of fs.readdirSync(folder))
      for (const name of fs.readdirSync(join(folder, spool)))
        if (!known.has(name)) this.#remove(join(folder, spool, name));
  }

  /** Removes a file or a flat folder without following links, since a compromised host may have put links and folders there. */
  #remove(path: string): void {
    try {
      try {
        fs.unlinkSync(path);
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'EISDIR') throw error;
        removeFolder(path);
      }
    } catch (error) {
      // ENOENT: the host removed the file or never created it.
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return;
      this.#options.powers.log.warn({ error, path }, 'a journal could not be removed');
    }
  }
}

/** Removes a folder of files one by one. Throws ENOTEMPTY or EISDIR if it contains a folder. */
function removeFolder(folder: string): void {
  const { O_DIRECTORY, O_NOFOLLOW, O_RDONLY } = fs.constants;
  const fd = fs.openSync(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  try {
    for (const name of fs.readdirSync(`/proc/self/fd/${fd}`)) fs.unlinkSync(`/proc/self/fd/${fd}/${name}`);
  } finally {
    fs.closeSync(fd);
  }
  fs.rmdirSync(folder);
}

interface JournalRow extends JournalledCall {
  readonly isOver: boolean;
  readonly bytes: number;
}

function toRow(row: Record<string, unknown>): JournalRow {
  const {
    key,
    call_id: callId,
    session_id: sessionId,
    principal,
    workspace,
    paths,
    bytes,
  } = row as Record<string, string>;
  const base = { key, callId, sessionId, principal, workspace } as Omit<JournalledCall, 'paths'>;
  return { ...base, isOver: row.undo !== null, paths: JSON.parse(paths as string), bytes: Number(bytes) };
}

/** Number of calls and bytes. */
interface JournalShare {
  readonly calls: number;
  readonly bytes: number;
}

/** An undo that was itself undone has no effect. */
const IN_EFFECT = `undo IS NOT NULL AND undoes IS NULL AND NOT EXISTS (SELECT 1 FROM calls u
  WHERE (u.undoes = calls.key OR u.key IN (SELECT undo FROM returns WHERE returns.key = calls.key))
  AND NOT EXISTS (SELECT 1 FROM calls again WHERE again.undoes = u.key))`;

const STATEMENTS = {
  begin: "INSERT OR IGNORE INTO calls VALUES (?, ?, ?, ?, ?, NULL, '[]', 0, ?, NULL)",
  reopen: 'UPDATE calls SET undo = NULL WHERE key = ?',
  end: 'UPDATE calls SET undo = ?, paths = ?, bytes = ? WHERE key = ?',
  drop: 'DELETE FROM calls WHERE key = ?',
  get: 'SELECT * FROM calls WHERE key = ?',
  byId: `SELECT * FROM calls WHERE call_id = :callId AND undo IS NOT NULL
      AND (:anybody = 1 OR principal = :principal)
      ORDER BY workspace = :workspace DESC, principal = :principal DESC, begun_ms DESC LIMIT 1`,
  oldest: 'SELECT key, begun_ms FROM calls WHERE undo IS NOT NULL ORDER BY begun_ms LIMIT 1',
  oldestOf: 'SELECT key FROM calls WHERE undo IS NOT NULL AND principal = ? ORDER BY begun_ms LIMIT 1',
  all: `SELECT * FROM calls WHERE workspace = ? AND ${IN_EFFECT} ORDER BY begun_ms DESC`,
  last: `SELECT * FROM calls WHERE workspace = :workspace AND ${IN_EFFECT}
      AND (:anybody = 1 OR principal = :principal) ORDER BY begun_ms DESC, rowid DESC LIMIT 1`,
  undid: 'UPDATE calls SET undoes = ? WHERE key = ?',
  named: `SELECT call_id, session_id, begun_ms FROM calls
      WHERE substr(call_id, 1, length(:part)) = :part OR substr(call_id, -length(:part)) = :part
      ORDER BY begun_ms DESC LIMIT :limit`,
};
