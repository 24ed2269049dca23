/** Databases that tools query, as `ToolContext.databases`. */

/** A connection of the operator. */
export interface DatabaseSource {
  readonly kind: 'sqlite';
  /** Relative to the workspace. */
  readonly path: string;
  readonly access: 'read' | 'write';
}

export type Scalar = string | number | boolean | null;

export interface DatabaseQuery {
  /** Exactly one statement. */
  readonly sql: string;
  /** Values by position, or by name. */
  readonly params: readonly Scalar[] | Readonly<Record<string, Scalar>>;
  readonly maxRows: number;
}

/**
 * What the cells of a column hold. `numeric`: integers and reals. `mixed`: anything; each cell says its type. `null`:
 * nothing but NULL, and no type was declared.
 */
export const COLUMN_TYPES = ['integer', 'real', 'numeric', 'text', 'blob', 'mixed', 'null'] as const;
export type ColumnType = (typeof COLUMN_TYPES)[number];

export interface Column {
  readonly name: string;
  readonly type: ColumnType;
  /** The type that the table declares. */
  readonly declared?: string | undefined;
}

/** Integers beyond 2^53 are decimal text, blobs base64, and infinite reals `Infinity` and `-Infinity`. */
export type PlainCell = string | number | null;
/** In columns of type `mixed`, a value says its type. */
export type Cell = PlainCell | { readonly type: 'integer' | 'real' | 'text' | 'blob'; readonly value: string | number };

export interface Table {
  readonly columns: Column[];
  readonly rows: Cell[][];
  /** The bound that cut the rows. */
  readonly truncatedBy?: 'rows' | 'bytes' | 'cells' | undefined;
  /** Rows that the statement and its triggers inserted, updated or deleted; absent for connections that only read. */
  readonly changes?: number | undefined;
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

/**
 * Runs statements in a process of their own. Throws ACCESS_DENIED and SENSITIVE_FILE for the file, INPUT_INVALID for the
 * statement, ACCESS_DENIED for what the connection does not allow, and a limit's code.
 */
export interface Databases {
  query(source: DatabaseSource, query: DatabaseQuery): Promise<Table>;
  /** The plan of a statement, which does not run. */
  explain(source: DatabaseSource, query: DatabaseQuery): Promise<Table>;
  /** Tables and views, or the one that is named. */
  schema(source: DatabaseSource, table: string | undefined, maxRows: number): Promise<DatabaseSchema>;
  /** Files as they are now, for `Preview.preImages`. */
  preImages(source: DatabaseSource): Promise<{ path: string; hash: string | null }[]>;
}
