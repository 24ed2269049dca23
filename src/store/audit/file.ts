import type { DatabaseSync } from 'node:sqlite';
import { type ChainPosition, GENESIS } from './chain.ts';
import { COLUMNS } from './entry.ts';

/** Statements that write the log. */
export const WRITING = {
  insert: `INSERT INTO audit (${COLUMNS.join(', ')}) VALUES (${COLUMNS.map(() => '?').join(', ')})`,
  setHead: 'INSERT OR REPLACE INTO head (id, seq, hash, seal) VALUES (1, ?, ?, ?)',
};

/** The last position of the chain. */
export const lastOf = (database: DatabaseSync): ChainPosition =>
  (database.prepare('SELECT seq, hash FROM audit ORDER BY seq DESC LIMIT 1').get() as ChainPosition | undefined) ?? {
    seq: 0,
    hash: GENESIS,
  };

/** Seq of the oldest entry; 1 if there is none. */
export const firstOf = (database: DatabaseSync): number =>
  (database.prepare('SELECT min(seq) AS first FROM audit').get() as { first: number | null }).first ?? 1;
