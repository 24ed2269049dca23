/** The record of what was asked and what came of it, in order. Chain, redaction and queries are issue 3's. */
import type { DatabaseSync } from 'node:sqlite';
import type { Decision, Effect, Resources } from '../call.ts';
import type { Code } from '../errors.ts';
import { ToolError } from '../errors.ts';
import type { Limits } from '../limits.ts';
import type { Powers } from '../powers.ts';
import { openDatabase } from './database.ts';

/** Inputs are left out until they can be redacted. */
export interface AuditEntry {
  readonly kind: 'session' | 'intent' | 'outcome' | 'refusal';
  readonly sessionId: string;
  readonly principal: string;
  readonly callId?: string;
  readonly tool?: string;
  readonly effects?: readonly Effect[];
  readonly decision?: Decision;
  readonly rule?: string;
  readonly code?: Code;
  readonly durationMs?: number;
  readonly resources?: Resources;
}

const SCHEMA = `CREATE TABLE IF NOT EXISTS audit (
  seq INTEGER PRIMARY KEY AUTOINCREMENT, at TEXT NOT NULL, kind TEXT NOT NULL, session_id TEXT NOT NULL, principal TEXT NOT NULL,
  call_id TEXT, tool TEXT, effects TEXT, decision TEXT, rule TEXT, code TEXT, duration_ms REAL, resources TEXT) STRICT`;
const COLUMNS = 'at, kind, session_id, principal, call_id, tool, effects, decision, rule, code, duration_ms, resources';

/** One transaction costs as much as hundreds of rows, and would delay the answers of the turn it is made in. */
const WRITE_EVERY_MS = 10;

type Row = (string | number | null)[];

export class AuditLog implements Disposable {
  readonly #database: DatabaseSync;
  readonly #insert: ReturnType<DatabaseSync['prepare']>;
  readonly #powers: Powers;
  readonly #batchMax: number;
  #waiting: Row[] = [];
  #entries: number;
  #scheduled = false;

  constructor(path: string, limits: Limits, powers: Powers) {
    this.#database = openDatabase(path);
    this.#database.exec(SCHEMA);
    this.#insert = this.#database.prepare(`INSERT INTO audit (${COLUMNS}) VALUES (${COLUMNS.replaceAll(/\w+/g, '?')})`);
    this.#entries = (this.#database.prepare('SELECT count(*) AS n FROM audit').get() as { n: number }).n;
    this.#powers = powers;
    this.#batchMax = limits.auditBatchMax;
  }

  /** Entries written and waiting. */
  get entries(): number {
    return this.#entries + this.#waiting.length;
  }

  /** Adds an entry, to be written with others within WRITE_EVERY_MS; `flush` writes it now. */
  append(entry: AuditEntry): void {
    this.#waiting.push(this.#toRow(entry));
    if (this.#waiting.length >= this.#batchMax) return this.#tryFlush();
    if (this.#scheduled) return;
    this.#scheduled = true;
    this.#powers.after(WRITE_EVERY_MS, () => {
      this.#scheduled = false;
      this.#tryFlush();
    });
  }

  /** Writes what waits, in order, in one transaction. Throws STORE_FAILED, and keeps it for the next time, up to the bound. */
  flush(): void {
    if (this.#waiting.length === 0) return;
    try {
      this.#database.exec('BEGIN');
      for (const row of this.#waiting) this.#insert.run(...row);
      this.#database.exec('COMMIT');
    } catch (error) {
      if (this.#database.isTransaction) this.#database.exec('ROLLBACK');
      throw new ToolError('STORE_FAILED', 'the audit log could not be written', { cause: error });
    }
    this.#entries += this.#waiting.length;
    this.#waiting = [];
  }

  [Symbol.dispose](): void {
    this.#tryFlush();
    this.#database.close();
  }

  #tryFlush(): void {
    if (!this.#database.isOpen) return;
    try {
      this.flush();
    } catch (error) {
      this.#powers.log.error({ error: (error as Error).cause }, 'the audit log could not be written');
      // Calls with effects are refused meanwhile; of the others, the oldest entries make room.
      this.#waiting = this.#waiting.slice(-this.#batchMax);
    }
  }

  #toRow(entry: AuditEntry): Row {
    const { kind, sessionId, principal, callId, tool, effects, decision, rule, code, durationMs, resources } = entry;
    const at = new Date(this.#powers.now()).toISOString();
    const json = (value: unknown) => (value === undefined ? null : JSON.stringify(value));
    return [
      ...[at, kind, sessionId, principal, callId ?? null, tool ?? null, json(effects), decision ?? null],
      ...[rule ?? null, code ?? null, durationMs ?? null, json(resources)],
    ];
  }
}
