/** Databases that tools query, by `ctx.use(databases)`: those of the workspace, in read_only and write hosts. */
import type { ContextPart } from './part.ts';

export const databases: ContextPart<Databases> = { name: 'databases' };

/** A connection of the operator. */
export type DatabaseSource = FileSource | ServerSource;

/** A database in the workspace. */
export interface FileSource {
  readonly kind: 'sqlite' | 'duckdb';
  /** Relative to the workspace. For `duckdb` a folder with data files, or a DuckDB file. */
  readonly path: string;
  readonly access: 'read' | 'write';
}

export interface ServerSource {
  readonly kind: 'postgres' | 'mysql';
  /** A name or an address, in the form of `toHostName`. */
  readonly host: string;
  readonly port: number;
  readonly database: string;
  readonly user: string;
  /** Name of the secret that is the password; absent for a server that asks for none. */
  readonly secret?: string | undefined;
  /** `off`: without encryption, which only private addresses may be reached by. */
  readonly tls: 'verify' | 'off';
  /** Whether the host may be this machine or one of its networks. */
  readonly private: boolean;
  /** Absolute path of a file with certificates of authorities in PEM, in place of the machine's. */
  readonly ca?: string | undefined;
  readonly access: 'read' | 'write';
  /** Most cost of a statement, as the database estimates it. */
  readonly maxCost?: number | undefined;
}

export const isServer = (source: DatabaseSource): source is ServerSource => 'host' in source;

export type Scalar = string | number | boolean | null;

export interface DatabaseQuery {
  /** Exactly one statement. */
  readonly sql: string;
  /** Values by position, or by name. */
  readonly params: readonly Scalar[] | Readonly<Record<string, Scalar>>;
  readonly maxRows: number;
}

/**
 * What the cells of a column of a SQLite file hold. `numeric`: integers and reals. `mixed`: anything; each cell says its type. `null`:
 * nothing but NULL, and no type was declared.
 */
export const COLUMN_TYPES = ['integer', 'real', 'numeric', 'text', 'blob', 'mixed', 'null'] as const;
export type ColumnType = (typeof COLUMN_TYPES)[number];

export interface Column {
  readonly name: string;
  /** A ColumnType, or the name that a server or DuckDB gives the type. */
  readonly type: string;
  /** The type that the table declares. */
  readonly declared?: string | undefined;
}

/** Integers beyond 2^53 are decimal text, blobs base64, and infinite reals `Infinity` and `-Infinity`. */
export type PlainCell = string | number | null;
/** Servers and DuckDB have truth values, too. */
export type ServerCell = PlainCell | boolean;
/** In columns of type `mixed`, a value says its type. */
export type Cell =
  | ServerCell
  | { readonly type: 'integer' | 'real' | 'text' | 'blob'; readonly value: string | number };

export interface Table {
  readonly columns: Column[];
  readonly rows: Cell[][];
  /** The bound that cut the rows. */
  readonly truncatedBy?: 'rows' | 'bytes' | 'cells' | undefined;
  /** Rows that the statement and its triggers inserted, updated or deleted; absent for connections that only read. */
  readonly changes?: number | undefined;
  /** The cost that the server estimated, in its own unit. */
  readonly cost?: number | undefined;
  /** What the server told beside the rows. */
  readonly notices?: readonly string[] | undefined;
  /** Time of the query, waiting for locks included. */
  readonly durationMs: number;
}

export interface TableIndex {
  readonly table: string;
  readonly name: string;
  readonly unique: boolean;
  /** Indexed columns; null for an expression. */
  readonly columns: (string | null)[];
}

/** A row of `table` is a column of a table or view of the database. */
export interface DatabaseSchema {
  readonly table: Table;
  readonly indexes: TableIndex[];
}

/** What a call asks a server. */
export interface DatabaseRequest {
  /** Name of the connection. */
  readonly connection: string;
  readonly source: ServerSource;
  readonly asked: AskedOfServer;
}

/** `estimate`: how many rows a statement would change. */
export type AskedOfServer =
  | { readonly what: 'query' | 'explain' | 'estimate'; readonly query: DatabaseQuery }
  | { readonly what: 'schema'; readonly table?: string | undefined; readonly maxRows: number };

/** A server's answer: rows, and the indexes of a schema. */
export interface ServerAnswer extends Omit<Table, 'rows'> {
  readonly rows: ServerCell[][];
  readonly indexes?: TableIndex[] | undefined;
}

/**
 * Runs statements in a process of their own. Throws ACCESS_DENIED and SENSITIVE_FILE for the file, INPUT_INVALID for the
 * statement, ACCESS_DENIED for what the connection does not allow, and a limit's code.
 */
export interface Databases {
  query(source: FileSource, query: DatabaseQuery): Promise<Table>;
  /** The plan of a statement, which does not run. */
  explain(source: FileSource, query: DatabaseQuery): Promise<Table>;
  /** Tables and views, or the one that is named. */
  schema(source: FileSource, table: string | undefined, maxRows: number): Promise<DatabaseSchema>;
  /** Files as they are now, for `Preview.preImages`. */
  preImages(source: FileSource): Promise<{ path: string; hash: string | null }[]>;
}
