/** The audit log's database file: its statements, its two ends, and how a file of an older form is put aside. */
import { existsSync, renameSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import type { DatabaseSync, StatementSync } from 'node:sqlite';
import type { Powers } from '../../base/powers.ts';
import { openDatabase } from '../database.ts';
import { type ChainPosition, GENESIS } from './chain.ts';
import { COLUMNS } from './entry.ts';

/** Statements that write the log. */
export function prepare(database: DatabaseSync): Record<'begin' | 'insert' | 'setHead' | 'commit', StatementSync> {
  const values = COLUMNS.map(() => '?').join(', ');
  return {
    begin: database.prepare('BEGIN IMMEDIATE'),
    insert: database.prepare(`INSERT INTO audit (${COLUMNS.join(', ')}) VALUES (${values})`),
    setHead: database.prepare('INSERT OR REPLACE INTO head (id, seq, hash, seal) VALUES (1, ?, ?, ?)'),
    commit: database.prepare('COMMIT'),
  };
}

/** The last position of the chain. */
export const lastOf = (database: DatabaseSync): ChainPosition =>
  (database.prepare('SELECT seq, hash FROM audit ORDER BY seq DESC LIMIT 1').get() as ChainPosition | undefined) ?? {
    seq: 0,
    hash: GENESIS,
  };

/** Seq of the oldest entry; 1 if there is none. */
export const firstOf = (database: DatabaseSync): number =>
  (database.prepare('SELECT min(seq) AS first FROM audit').get() as { first: number | null }).first ?? 1;

/** Moves a log from before the hash chain to `audit-<date>.db`; undefined if there is none. */
export function putAside(path: string, powers: Powers): { file: string; entries: number } | undefined {
  if (!existsSync(path)) return undefined;
  const database = openDatabase(path);
  let entries: number;
  try {
    const columns = database.prepare('SELECT name FROM pragma_table_info(?)').all('audit') as { name: string }[];
    if (columns.length === 0 || columns.some(({ name }) => name === 'hash')) return undefined;
    entries = (database.prepare('SELECT count(*) AS n FROM audit').get() as { n: number }).n;
    // Merges the write-ahead log into the file that is moved.
    database.exec('PRAGMA wal_checkpoint(TRUNCATE); PRAGMA journal_mode = DELETE;');
  } finally {
    database.close();
  }
  const date = new Date(powers.now()).toISOString().replaceAll(/[:.]/g, '-');
  const file = `${basename(path, '.db')}-${date}.db`;
  renameSync(path, join(dirname(path), file));
  return { file, entries };
}
