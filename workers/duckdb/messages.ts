/** The messages between a host and the process that runs statements by DuckDB. */
import type { DatabaseQuery } from '../../src/tools/context/databases.ts';
import type { AnsweredTable, DatabaseFile } from '../sqlite/messages.ts';

/** What the host has checked and holds open: a DuckDB file, or a folder with data files. */
export interface DuckDbSource {
  readonly at: DatabaseFile;
  readonly kind: 'file' | 'folder';
  /** The only files that statements may read, as absolute paths; absent if they may read the whole folder. */
  readonly only?: readonly string[] | undefined;
}

/** What a statement may use. */
export interface DuckDbBounds {
  readonly resultBytes: number;
  readonly cellsMax: number;
  readonly memoryBytes: number;
  readonly threads: number;
}

export interface SchemaRequest {
  /** Only this table or view of a file. */
  readonly table?: string | undefined;
  /** The data files of a folder to describe, relative to it. */
  readonly files: readonly string[];
  readonly maxRows: number;
}

interface Asked {
  readonly source: DuckDbSource;
  readonly bounds: DuckDbBounds;
}

/** The requests for statements by DuckDB. */
export interface DuckDbRequests {
  query: { asked: Asked & { query: DatabaseQuery }; answer: AnsweredTable };
  explain: { asked: Asked & { query: DatabaseQuery }; answer: AnsweredTable };
  schema: { asked: Asked & SchemaRequest; answer: AnsweredTable };
}
