/** The messages between a host and the process that runs statements. */

import type { Refusal } from '../../src/services/databases/messages.ts';
import type { DatabaseQuery, DatabaseSchema, Table } from '../../src/tools/context/databases.ts';

/** A database file that the host has checked and holds open. */
export interface DatabaseFile {
  /** Absolute path without links. */
  readonly path: string;
  /** Device and inode in decimal: the process refuses another file under that path. */
  readonly device: string;
  readonly inode: string;
}

/** What a statement may use. */
export interface StatementBounds {
  readonly resultBytes: number;
  readonly cellsMax: number;
  readonly indexesMax: number;
  readonly indexColumnsMax: number;
  readonly valueBytesMax: number;
  readonly heapBytes: number;
  readonly lockMs: number;
}

/** A request for each method, and its answer. Every request may be answered with a refusal instead. */
export type StatementRequests<R> = { [M in keyof R]: { asked: object; answer: unknown } };

/** The requests for statements on SQLite files. */
export interface SqliteRequests {
  query: { asked: { file: DatabaseFile; query: DatabaseQuery; bounds: StatementBounds }; answer: AnsweredTable };
  explain: { asked: { file: DatabaseFile; query: DatabaseQuery; bounds: StatementBounds }; answer: AnsweredTable };
  schema: {
    asked: { file: DatabaseFile; table?: string | undefined; maxRows: number; bounds: StatementBounds };
    answer: Omit<DatabaseSchema, 'table'> & { readonly table: AnsweredTable };
  };
  /** Keeps all other programs from the file until `unlock`; rolls back what another one left half done. */
  lock: { asked: { file: DatabaseFile; bounds: StatementBounds }; answer: null };
  /** Puts what lies in a write-ahead log into the locked file. */
  checkpoint: { asked: Record<string, never>; answer: null };
  /** Runs a statement on the locked file in a transaction of its own. */
  change: { asked: { query: DatabaseQuery; bounds: StatementBounds }; answer: AnsweredTable };
  unlock: { asked: Record<string, never>; answer: null };
}

export type AnsweredTable = Omit<Table, 'durationMs'>;
export type Answered<T> = { readonly refused: Refusal } | { readonly answer: T };
