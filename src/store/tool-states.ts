/** State that tools keep for a workspace between calls: plain data under a name. */
import type { DatabaseSync } from 'node:sqlite';
import type { Limits } from '../base/limits.ts';
import type { Powers } from '../base/powers.ts';
import { parseJson } from '../base/text/json.ts';
import { openDatabase, type Prepared, prepared, storing } from './database.ts';

const attempt = storing('what tools keep');

const SCHEMA = `
  CREATE TABLE IF NOT EXISTS states (name TEXT NOT NULL, workspace TEXT NOT NULL, value TEXT NOT NULL,
    written_ms INTEGER NOT NULL, PRIMARY KEY (name, workspace)) STRICT;`;

const STATEMENTS = {
  get: 'SELECT value FROM states WHERE name = ? AND workspace = ?',
  set: 'INSERT OR REPLACE INTO states VALUES (?, ?, ?, ?)',
  forget:
    'DELETE FROM states WHERE rowid IN (SELECT rowid FROM states ORDER BY written_ms DESC, rowid DESC LIMIT -1 OFFSET ?)',
};

export class ToolStates implements Disposable {
  readonly #database: DatabaseSync;
  readonly #powers: Powers;
  readonly #limits: Limits;
  readonly #statements: Prepared<typeof STATEMENTS>;

  /** Opens the file at `path`, which only this process uses. */
  constructor(path: string, limits: Limits, powers: Powers) {
    this.#limits = limits;
    this.#powers = powers;
    this.#database = openDatabase(path, SCHEMA);
    this.#statements = prepared(this.#database, STATEMENTS);
  }

  /** The stored value; undefined if there is none. Throws STORE_FAILED. */
  get(name: string, workspace: string): unknown {
    const row = attempt(() => this.#statements.get.get(name, workspace));
    return row === undefined ? undefined : parseJson(row.value as string);
  }

  /** Stores a value, replacing an earlier one. Throws STORE_FAILED. */
  set(name: string, workspace: string, value: unknown): void {
    attempt(() => {
      this.#statements.set.run(name, workspace, JSON.stringify(value), this.#powers.now());
      this.#statements.forget.run(this.#limits.toolStatesMax);
    });
  }

  [Symbol.dispose](): void {
    this.#database.close();
  }
}
