/**
 * Copies of the nodes' audit logs. Each node's own log is the truth; what was copied shows later that its end was cut off
 * or that it was written anew. A batch counts only if the node's key has signed it and its entries form one chain.
 */
import type { DatabaseSync } from 'node:sqlite';
import type { Limits } from '../base/limits.ts';
import { parseJson } from '../base/text/json.ts';
import { atomically, openDatabase, type Prepared, prepared } from '../store/database.ts';
import {
  type AuditBatch,
  type AuditReceipt,
  auditBatch,
  chain,
  GENESIS,
  type LogEnd,
  signedPosition,
} from './audit-batch.ts';

const SCHEMA = `CREATE TABLE IF NOT EXISTS entries (
  node TEXT NOT NULL, seq INTEGER NOT NULL, line TEXT NOT NULL, PRIMARY KEY (node, seq)) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS logs (
  node TEXT PRIMARY KEY, seq INTEGER NOT NULL, hash TEXT NOT NULL, at_ms INTEGER NOT NULL, heard_ms INTEGER NOT NULL,
  gaps TEXT NOT NULL, broken TEXT) STRICT;`;

const STATEMENTS = {
  log: 'SELECT * FROM logs WHERE node = ?',
  logs: 'SELECT * FROM logs ORDER BY node',
  keep: 'INSERT OR REPLACE INTO logs VALUES (?, ?, ?, ?, ?, ?, ?)',
  insert: 'INSERT INTO entries VALUES (?, ?, ?)',
  prune: 'DELETE FROM entries WHERE node = ? AND seq <= ?',
};

/** What the collector knows of the log of one node. */
export interface CollectedLog {
  readonly node: string;
  /** Last entry that was verified. */
  readonly end: LogEnd;
  /** When the node last signed where its log ends, by the node's clock and by the hub's. */
  readonly atMs: number;
  readonly heardMs: number;
  /** Entries that were missing, as `[first, last]`. */
  readonly gaps: readonly (readonly [number, number])[];
  /** Why the log can't be trusted from here on. */
  readonly broken?: string;
}

/** Gaps that are told; more of them say nothing new. */
const GAPS_KEPT = 16;

export interface CollectorOptions {
  readonly fleet: string;
  readonly limits: Limits;
  readonly now: () => number;
  /** The public key of a node; undefined if the roster has none. */
  keyOf(node: string): string | undefined;
  isSignedBy(key: string, text: string, signature: string): Promise<boolean>;
}

export class Collector implements Disposable {
  readonly #options: CollectorOptions;
  readonly #database: DatabaseSync;
  readonly #statements: Prepared<typeof STATEMENTS>;

  constructor(path: string, options: CollectorOptions) {
    this.#options = options;
    this.#database = openDatabase(path, SCHEMA);
    this.#statements = prepared(this.#database, STATEMENTS);
  }

  /** The logs of all nodes that were ever heard. */
  get logs(): CollectedLog[] {
    return this.#statements.logs.all().map(toLog);
  }

  /** Takes a batch that came under the name of `node`; undefined if the node has not signed it. */
  async take(node: string, given: unknown): Promise<AuditReceipt | undefined> {
    const { fleet, keyOf, isSignedBy } = this.#options;
    const parsed = auditBatch.safeParse(given);
    const key = keyOf(node);
    if (!parsed.success || key === undefined) return undefined;
    const batch = parsed.data;
    if (!(await isSignedBy(key, signedPosition(fleet, node, batch), batch.signature))) return undefined;
    return this.#takeSigned(node, batch);
  }

  #takeSigned(node: string, batch: AuditBatch): AuditReceipt {
    const row = this.#statements.log.get(node);
    const log = row ? toLog(row) : { node, end: GENESIS, atMs: -1, heardMs: 0, gaps: [] };
    // The bus may send an old batch again, which would look like a log that was cut off.
    if (log.broken !== undefined || batch.atMs <= log.atMs) return receiptOf(log);
    const next = this.#following(log, batch);
    atomically(this.#database, () => {
      if (next.broken === undefined) this.#keepLines(node, batch);
      const { end, atMs, heardMs, gaps, broken } = next;
      this.#statements.keep.run(node, end.seq, end.hash, atMs, heardMs, JSON.stringify(gaps), broken ?? null);
    });
    return receiptOf(next);
  }

  /** The log behind a signed batch. */
  #following(log: CollectedLog, batch: AuditBatch): CollectedLog {
    const { end, lines, atMs } = batch;
    const heard = { ...log, atMs, heardMs: this.#options.now() };
    const { seq, hash } = log.end;
    if (lines.length === 0) {
      if (end.seq < seq) return { ...heard, broken: `the log ends at entry ${end.seq}, and had ${seq} entries before` };
      const isOther = end.seq === seq && end.hash !== hash;
      return isOther ? { ...heard, broken: `entry ${seq} is not the one that was copied` } : heard;
    }
    const chained = chain(batch, log.end);
    if (!chained.ok) return { ...heard, broken: chained.reason };
    const gap = [seq + 1, chained.first - 1] as const;
    return { ...heard, end, ...(chained.isGap && { gaps: [...log.gaps, gap].slice(-GAPS_KEPT) }) };
  }

  #keepLines(node: string, { lines, end }: AuditBatch): void {
    const first = end.seq - lines.length + 1;
    for (const [at, line] of lines.entries()) this.#statements.insert.run(node, first + at, line);
    this.#statements.prune.run(node, end.seq - this.#options.limits.fleetCollectedEntriesMax);
  }

  [Symbol.dispose](): void {
    if (this.#database.isOpen) this.#database.close();
  }
}

const receiptOf = ({ end: has, broken }: CollectedLog): AuditReceipt => ({ has, broken });

function toLog(row: Record<string, unknown>): CollectedLog {
  const { node, seq, hash, at_ms: atMs, heard_ms: heardMs, gaps, broken } = row;
  return {
    node: node as string,
    end: { seq: seq as number, hash: hash as string },
    atMs: atMs as number,
    heardMs: heardMs as number,
    gaps: parseJson(gaps as string) as [number, number][],
    ...(broken !== null && { broken: broken as string }),
  };
}
