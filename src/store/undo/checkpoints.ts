/** Named points in the changes of a workspace, and which calls changed it since. Part of undo.db. */
import type { DatabaseSync } from 'node:sqlite';
import type { Limits } from '../../base/limits.ts';
import { storing } from '../database.ts';
import type { JournalledCall, Undoable, Undoer } from './journalled-call.ts';

const attempt = storing('checkpoints');

const SCHEMA = `
  CREATE TABLE IF NOT EXISTS checkpoints (workspace TEXT NOT NULL, principal TEXT NOT NULL, name TEXT NOT NULL,
    at_ms INTEGER NOT NULL, last_row INTEGER NOT NULL, PRIMARY KEY (workspace, principal, name)) STRICT;
  CREATE TABLE IF NOT EXISTS returns (undo TEXT NOT NULL, key TEXT NOT NULL, PRIMARY KEY (undo, key)) STRICT;
  CREATE INDEX IF NOT EXISTS returns_by_key ON returns (key);`;

export interface Checkpoint {
  readonly name: string;
  readonly principal: string;
  readonly atMs: number;
  /** The newest row of the calls at that time. A row that is dropped may give its number to a later one, hence the time. */
  readonly lastRow: number;
}

/** A call that changed the workspace since a checkpoint. */
export interface CallSince extends JournalledCall {
  readonly undo: Undoable;
  readonly atMs: number;
  /** Keys of the calls that this one undid. */
  readonly undoes: readonly string[];
}

export class Checkpoints {
  readonly #database: DatabaseSync;
  readonly #limits: Limits;

  constructor(database: DatabaseSync, limits: Limits) {
    this.#database = database;
    this.#limits = limits;
    database.exec(SCHEMA);
  }

  /** Names the present point; true if the name stood for another one before. Drops the oldest names beyond the limit. */
  set(name: string, { principal, workspace }: Undoer, nowMs: number): boolean {
    return attempt(() => {
      const owner = [workspace, principal];
      const had = this.#prepare('SELECT 1 FROM checkpoints WHERE workspace = ? AND principal = ? AND name = ?');
      const isReplaced = had.get(...owner, name) !== undefined;
      this.#prepare(`INSERT OR REPLACE INTO checkpoints
        VALUES (?, ?, ?, ?, (SELECT coalesce(max(rowid), 0) FROM calls))`).run(...owner, name, nowMs);
      this.#prepare(`DELETE FROM checkpoints WHERE workspace = ? AND principal = ? AND name NOT IN (SELECT name
        FROM checkpoints WHERE workspace = ? AND principal = ? ORDER BY at_ms DESC, rowid DESC LIMIT ?)`).run(
        ...owner,
        ...owner,
        this.#limits.checkpointsMax,
      );
      return isReplaced;
    });
  }

  /** The points that the caller named in its workspace, and for an operator those of everybody; the newest first. */
  list({ principal, workspace, role }: Undoer): Checkpoint[] {
    const rows = attempt(() =>
      this.#prepare(`SELECT name, principal, at_ms AS atMs, last_row AS lastRow FROM checkpoints
        WHERE workspace = ? AND (? = 1 OR principal = ?) ORDER BY at_ms DESC, rowid DESC`).all(
        workspace,
        role === 'operator' ? 1 : 0,
        principal,
      ),
    );
    return rows.map((it) => ({ ...it }) as unknown as Checkpoint);
  }

  /** The calls of a workspace that ended with changes since a point, the newest first; of one session if it is given. */
  since(
    { atMs, lastRow }: Checkpoint,
    { principal, workspace, role }: Undoer,
    session: string | undefined,
  ): CallSince[] {
    const rows = attempt(() =>
      this.#prepare(`SELECT key, call_id AS callId, session_id AS sessionId, principal, workspace, undo, paths,
          begun_ms AS atMs, undoes, (SELECT json_group_array(key) FROM returns WHERE undo = calls.key) AS also
        FROM calls WHERE workspace = :workspace AND undo IS NOT NULL AND (:anybody = 1 OR principal = :principal)
          AND (:session = '' OR session_id = :session) AND (rowid > :lastRow OR begun_ms > :atMs)
        ORDER BY begun_ms DESC, rowid DESC`).all({
        workspace,
        principal,
        anybody: role === 'operator' ? 1 : 0,
        session: session ?? '',
        lastRow,
        atMs,
      }),
    ) as Record<string, string>[];
    return rows.map(({ paths = '[]', undoes, also = '[]', ...row }) => {
      const undone = new Set([...(undoes ? [undoes] : []), ...(JSON.parse(also) as string[])]);
      return { ...row, paths: JSON.parse(paths), undoes: [...undone] } as unknown as CallSince;
    });
  }

  /** Records that a call undid several. */
  recordReturn(undo: string, keys: readonly string[]): void {
    attempt(() => {
      const insert = this.#prepare('INSERT OR IGNORE INTO returns VALUES (?, ?)');
      for (const key of keys) insert.run(undo, key);
    });
  }

  /** Forgets a call that can't be undone any more. */
  drop(key: string): void {
    attempt(() => this.#prepare('DELETE FROM returns WHERE undo = ? OR key = ?').run(key, key));
  }

  #prepare(text: string) {
    return this.#database.prepare(text);
  }
}

/**
 * The calls to undo, the newest first, to bring back what was before all of the given ones. A call that was undone by
 * the next one is left out with it; others are undone one after another, also where they are undos.
 */
export function callsToUndo(calls: readonly CallSince[]): CallSince[] {
  const left: CallSince[] = [];
  for (let at = 0; at < calls.length; ) {
    const call = calls[at] as CallSince;
    const before = calls.slice(at + 1, at + 1 + call.undoes.length).map((it) => it.key);
    const isPair = call.undoes.length > 0 && call.undoes.every((it) => before.includes(it));
    if (!isPair) left.push(call);
    at += isPair ? 1 + call.undoes.length : 1;
  }
  return left;
}
