/** Tables and views of a DuckDB file, or the data files of a folder, one row a column, as for other databases. */
import type { DuckDBConnection } from '@duckdb/node-api';
import type { Cell, Column } from '../../src/tools/context/databases.ts';
import type { AnsweredTable } from '../sqlite/messages.ts';
import { noTable, Refused } from '../sqlite/refusals.ts';
import { TableWriter } from '../sqlite/table-writer.ts';
import { bytesOf } from './cells.ts';
import type { DuckDbBounds, DuckDbSource, SchemaRequest } from './messages.ts';
import { quoted } from './opening.ts';
import { runStatement } from './statement.ts';

const COLUMNS: Column[] = [
  ...['table', 'kind', 'column', 'type'].map((name) => ({ name, type: 'VARCHAR' })),
  ...['notNull', 'primaryKey'].map((name) => ({ name, type: 'BOOLEAN' })),
  ...['default', 'references'].map((name) => ({ name, type: 'VARCHAR' })),
];

/** Keys come from the constraints of a table, which has no foreign key to one of another file. */
const TABLES = `
  SELECT c.table_name AS "table", CASE WHEN t.table_name IS NULL THEN 'view' ELSE 'table' END AS kind,
    c.column_name AS "column", c.data_type AS type, NOT c.is_nullable AS "notNull",
    k.p IS NOT NULL AS "primaryKey", c.column_default AS "default", f.target AS "references"
  FROM duckdb_columns() c
  LEFT JOIN duckdb_tables() t ON t.table_oid = c.table_oid AND t.schema_oid = c.schema_oid AND NOT t.internal
    AND t.database_name = c.database_name
  LEFT JOIN (SELECT table_oid, schema_oid, unnest(constraint_column_names) AS p FROM duckdb_constraints()
    WHERE constraint_type = 'PRIMARY KEY') k
    ON k.table_oid = c.table_oid AND k.schema_oid = c.schema_oid AND k.p = c.column_name
  LEFT JOIN (SELECT table_oid, schema_oid, unnest(constraint_column_names) AS p,
      referenced_table || '(' || unnest(referenced_column_names) || ')' AS target FROM duckdb_constraints()
    WHERE constraint_type = 'FOREIGN KEY') f
    ON f.table_oid = c.table_oid AND f.schema_oid = c.schema_oid AND f.p = c.column_name
  WHERE NOT c.internal AND c.database_name = current_database() AND ($1 IS NULL OR c.table_name = $1)
  ORDER BY c.schema_name, c.table_name, c.column_index`;

/** Reads the schema by statements of ours. Throws Refused. */
export async function schemaOf(
  connection: DuckDBConnection,
  kind: DuckDbSource['kind'],
  asked: SchemaRequest & { readonly bounds: DuckDbBounds },
): Promise<AnsweredTable> {
  return kind === 'folder' ? await schemaOfFiles(connection, asked) : await schemaOfTables(connection, asked);
}

async function schemaOfTables(
  connection: DuckDBConnection,
  { table, maxRows, bounds }: SchemaRequest & { readonly bounds: DuckDbBounds },
): Promise<AnsweredTable> {
  const found = await runStatement(connection, { sql: TABLES, params: [table ?? null], maxRows }, bounds);
  if (table === undefined || found.rows.length > 0) return found;
  throw noTable(table);
}

async function schemaOfFiles(
  connection: DuckDBConnection,
  { files, maxRows, bounds }: SchemaRequest & { readonly bounds: DuckDbBounds },
): Promise<AnsweredTable> {
  const writer = new TableWriter(maxRows, bounds);
  for (const file of files) {
    for (const [column, type] of await columnsOf(connection, file, bounds)) {
      const row = [file, kindOf(file), column, type, null, null, null, null] as (string | null)[];
      writer.add(
        row.reduce<number>((sum, it) => sum + bytesOf(it), 0),
        () => row,
      );
    }
    if (writer.isFull) break;
  }
  return writer.end(COLUMNS);
}

/** Names and types of the columns of a data file; one without a name for a file that DuckDB can't read. */
async function columnsOf(
  connection: DuckDBConnection,
  file: string,
  bounds: DuckDbBounds,
): Promise<(string | null)[][]> {
  const query = { sql: `DESCRIBE SELECT * FROM ${quoted(file)}`, params: [], maxRows: bounds.cellsMax };
  try {
    const { rows } = await runStatement(connection, query, bounds);
    return rows.map(([name, type]) => [textOf(name), textOf(type)]);
  } catch (error) {
    if (error instanceof Refused && error.refusal.code !== 'MEMORY_LIMIT') return [[null, null]];
    throw error;
  }
}

const textOf = (cell: Cell | undefined): string | null => (typeof cell === 'string' ? cell : null);

const kindOf = (file: string): string => /\.(csv|tsv|parquet|json|jsonl|ndjson)(\.\w+)?$/i.exec(file)?.[1] ?? 'file';
