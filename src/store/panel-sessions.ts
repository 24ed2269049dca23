/**
 * Pages of the web panel that are signed in, with the keys that they share with us, and the name of their origin. They end with the
 * daemon, and outlast only an upgrade. The operator's token lies beside the file.
 */
import type { DatabaseSync } from 'node:sqlite';
import type { Limits } from '../base/limits.ts';
import type { Powers } from '../base/powers.ts';
import { openDatabase, type Prepared, prepared, storing } from './database.ts';

const attempt = storing('the list of signed-in pages');

const SCHEMA = `
DROP TABLE IF EXISTS pages;
CREATE TABLE IF NOT EXISTS origin (label TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS signed_in (
  id TEXT PRIMARY KEY, page_key TEXT NOT NULL, signed_in_ms INTEGER NOT NULL, used_ms INTEGER NOT NULL) STRICT`;

const STATEMENTS = {
  insert: 'INSERT INTO signed_in VALUES (?, ?, ?, ?)',
  find: 'SELECT page_key FROM signed_in WHERE id = ? AND used_ms > ?',
  use: 'UPDATE signed_in SET used_ms = ? WHERE id = ?',
  list: 'SELECT id, signed_in_ms, used_ms FROM signed_in WHERE used_ms > ? ORDER BY rowid',
  delete: 'DELETE FROM signed_in WHERE id = ? RETURNING id',
  prune:
    'DELETE FROM signed_in WHERE used_ms <= ? OR id NOT IN (SELECT id FROM signed_in ORDER BY used_ms DESC, rowid DESC LIMIT ?)',
};
const LABEL_CHARS = 26;

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
  readonly #statements: Prepared<typeof STATEMENTS>;

  /** Opens the file at `path`, which only this process uses. */
  constructor(path: string, limits: PanelLimits, powers: Pick<Powers, 'now' | 'secret'>) {
    this.#limits = limits;
    this.#powers = powers;
    this.#database = openDatabase(path, SCHEMA);
    this.#statements = prepared(this.#database, STATEMENTS);
  }

  /** Signs all pages out; the next are at another origin, which nothing that listened at the old one knows. Throws STORE_FAILED. */
  startAfresh(): void {
    // A daemon that never served a panel writes nothing at its start.
    if (this.#label === undefined) return;
    attempt(() => this.#database.exec('DELETE FROM signed_in; DELETE FROM origin'));
  }

  /** The name below `.localhost` that the panel is served at, made when it is first asked for. Throws STORE_FAILED. */
  get host(): string {
    const label = this.#label ?? this.#newLabel();
    return `${label}.localhost`;
  }

  get #label(): string | undefined {
    return attempt(() => this.#database.prepare('SELECT label FROM origin').get())?.label as string | undefined;
  }

  #newLabel(): string {
    const letters = Array.from(this.#powers.secret(), (it) => String.fromCharCode(97 + Number.parseInt(it, 16)));
    const label = letters.slice(0, LABEL_CHARS).join('');
    attempt(() => this.#database.prepare('INSERT INTO origin VALUES (?)').run(label));
    return label;
  }

  /** Signs a page in, which shares the key with us. Throws STORE_FAILED. */
  add(key: string): { id: string; expiresMs: number } {
    const now = this.#powers.now();
    const id = `p_${this.#powers.secret().slice(0, 12)}`;
    attempt(() => {
      this.#statements.insert.run(id, key, now, now);
      this.#statements.prune.run(this.#usedSince(now), this.#limits.panelSessionsMax);
    });
    return { id, expiresMs: now + this.#limits.panelIdleMs };
  }

  /** The key of the page with this id; undefined if there is none, or it was unused for too long. Throws STORE_FAILED. */
  keyOf(id: string): string | undefined {
    const row = attempt(() => this.#statements.find.get(id, this.#usedSince(this.#powers.now())));
    return row?.page_key as string | undefined;
  }

  /** Notes that the page is in use. */
  use(id: string): void {
    try {
      this.#statements.use.run(this.#powers.now(), id);
    } catch {
      // A full disk or a closed store: the page has to sign in again sooner.
    }
  }

  /** The pages that are signed in, oldest first. Throws STORE_FAILED. */
  list(): PanelSession[] {
    const iso = (ms: unknown) => new Date(ms as number).toISOString();
    const rows = attempt(() => this.#statements.list.all(this.#usedSince(this.#powers.now())));
    return rows.map((it) => ({ id: it.id as string, signedInAt: iso(it.signed_in_ms), usedAt: iso(it.used_ms) }));
  }

  /** Signs a page out; false if there is none with this id. Throws STORE_FAILED. */
  revoke(id: string): boolean {
    return attempt(() => this.#statements.delete.get(id)) !== undefined;
  }

  [Symbol.dispose](): void {
    this.#database.close();
  }

  #usedSince(now: number): number {
    return now - this.#limits.panelIdleMs;
  }
}
