/** Pages of the web panel that are signed in, with their tokens as hashes: who reads the file can't use them. */
import { createHash } from 'node:crypto';
import type { DatabaseSync, StatementSync } from 'node:sqlite';
import type { Limits } from '../limits.ts';
import type { Powers } from '../powers.ts';
import { openDatabase, storing } from './database.ts';

const attempt = storing('the list of signed-in pages');

const SCHEMA = `CREATE TABLE IF NOT EXISTS pages (
  id TEXT PRIMARY KEY, token_hash TEXT NOT NULL UNIQUE, signed_in_ms INTEGER NOT NULL, used_ms INTEGER NOT NULL) STRICT`;

/** A page that is signed in. */
export interface PanelSession {
  /** `p_` and twelve hex digits. */
  readonly id: string;
  /** ISO 8601. */
  readonly signedInAt: string;
  /** ISO 8601; when it last connected or disconnected. */
  readonly usedAt: string;
}

type PanelLimits = Pick<Limits, 'panelIdleMs' | 'panelSessionsMax'>;

export class PanelSessions implements Disposable {
  readonly #database: DatabaseSync;
  readonly #limits: PanelLimits;
  readonly #powers: Pick<Powers, 'now' | 'secret'>;
  readonly #insert: StatementSync;
  readonly #find: StatementSync;
  readonly #use: StatementSync;
  readonly #list: StatementSync;
  readonly #delete: StatementSync;
  readonly #prune: StatementSync;

  /** Opens the file at `path`, which only this process uses. */
  constructor(path: string, limits: PanelLimits, powers: Pick<Powers, 'now' | 'secret'>) {
    this.#limits = limits;
    this.#powers = powers;
    this.#database = openDatabase(path);
    this.#database.exec(SCHEMA);
    this.#insert = this.#database.prepare('INSERT INTO pages VALUES (?, ?, ?, ?)');
    this.#find = this.#database.prepare('SELECT id FROM pages WHERE token_hash = ? AND used_ms > ?');
    this.#use = this.#database.prepare('UPDATE pages SET used_ms = ? WHERE id = ?');
    this.#list = this.#database.prepare('SELECT id, signed_in_ms, used_ms FROM pages WHERE used_ms > ? ORDER BY rowid');
    this.#delete = this.#database.prepare('DELETE FROM pages WHERE id = ? RETURNING id');
    this.#prune = this.#database.prepare(
      'DELETE FROM pages WHERE used_ms <= ? OR id NOT IN (SELECT id FROM pages ORDER BY used_ms DESC, rowid DESC LIMIT ?)',
    );
  }

  /** Signs a page in; only the page ever has its token. Throws STORE_FAILED. */
  add(): { id: string; token: string; expiresMs: number } {
    const [token, now] = [this.#powers.secret(), this.#powers.now()];
    const id = `p_${this.#powers.secret().slice(0, 12)}`;
    attempt(() => {
      this.#insert.run(id, hashOf(token), now, now);
      this.#prune.run(this.#usedSince(now), this.#limits.panelSessionsMax);
    });
    return { id, token, expiresMs: now + this.#limits.panelIdleMs };
  }

  /** The id of the page with this token; undefined if there is none, or it was unused for too long. Throws STORE_FAILED. */
  idOf(token: string): string | undefined {
    const row = attempt(() => this.#find.get(hashOf(token), this.#usedSince(this.#powers.now())));
    return row?.id as string | undefined;
  }

  /** Notes that the page is in use. */
  use(id: string): void {
    try {
      this.#use.run(this.#powers.now(), id);
    } catch {
      // A full disk or a closed store: the page has to sign in again sooner.
    }
  }

  /** The pages that are signed in, oldest first. Throws STORE_FAILED. */
  list(): PanelSession[] {
    const iso = (ms: unknown) => new Date(ms as number).toISOString();
    const rows = attempt(() => this.#list.all(this.#usedSince(this.#powers.now())));
    return rows.map((it) => ({ id: it.id as string, signedInAt: iso(it.signed_in_ms), usedAt: iso(it.used_ms) }));
  }

  /** Signs a page out; false if there is none with this id. Throws STORE_FAILED. */
  revoke(id: string): boolean {
    return attempt(() => this.#delete.get(id)) !== undefined;
  }

  [Symbol.dispose](): void {
    this.#database.close();
  }

  #usedSince(now: number): number {
    return now - this.#limits.panelIdleMs;
  }
}

const hashOf = (token: string): string => createHash('sha256').update(token).digest('hex');
