/** Tables, views, columns and indexes of a database, one row a column. */
import type { DatabaseSync } from 'node:sqlite';
import { parseJson } from '../../src/base/text/json.ts';
import type { TableIndex } from '../../src/tools/context/databases.ts';
import { SqliteTableWriter, type SqliteValue } from './cells.ts';
import type { AnsweredTable, StatementBounds } from './messages.ts';
import { asRefused, noTable } from './refusals.ts';

const COLUMNS = [
  ...['table', 'kind', 'column', 'type'].map((name) => ({ name, declared: 'text' })),
  ...['notNull', 'primaryKey'].map((name) => ({ name, declared: 'integer' })),
  ...['default', 'references'].map((name) => ({ name, declared: 'text' })),
];

/** Shadow tables of virtual tables and SQLite's own tables are left out. */
const TABLES = `
  SELECT l.name, l.type, c.name, c.type, c."notnull", c.pk, c.dflt_value, f."table" || '(' || coalesce(f."to", '') || ')'
  FROM pragma_table_list l JOIN pragma_table_xinfo(l.name) c
  LEFT JOIN pragma_foreign_key_list(l.name) f ON f."from" = c.name
  WHERE l.schema = 'main' AND l.type <> 'shadow' AND l.name NOT LIKE 'sqlite\\_%' ESCAPE '\\' AND c.hidden <> 1
    AND (:named IS NULL OR l.name = :named COLLATE NOCASE)
  ORDER BY l.name, c.cid, f.id`;

const INDEXES = `
  SELECT l.name, i.name, i."unique", 
    (SELECT json_group_array(name) FROM (SELECT name FROM pragma_index_info(i.name) LIMIT :columns))
  FROM pragma_table_list l JOIN pragma_index_list(l.name) i
  WHERE l.schema = 'main' AND l.type = 'table' AND (:named IS NULL OR l.name = :named COLLATE NOCASE)
  ORDER BY l.name, i.name LIMIT :most`;

export interface SchemaRequest {
  readonly table?: string | undefined;
  readonly maxRows: number;
  readonly bounds: StatementBounds;
}

/** Reads the schema by statements of ours. Throws Refused. */
export function schemaOf(
  database: DatabaseSync,
  { table: named, maxRows, bounds }: SchemaRequest,
): { readonly table: AnsweredTable; readonly indexes: TableIndex[] } {
  try {
    const writer = new SqliteTableWriter(COLUMNS, maxRows, bounds);
    for (const it of rowsOf(database, TABLES, { named: named ?? null })) if (!writer.add(it)) break;
    const table = writer.end();
    if (named !== undefined && table.rows.length === 0) throw noTable(named);
    const indexes = [
      ...rowsOf(database, INDEXES, {
        named: named ?? null,
        columns: bounds.indexColumnsMax,
        most: bounds.indexesMax + 1,
      }),
    ].map(toIndex);
    const areCut = indexes.length > bounds.indexesMax;
    return {
      table: areCut && !table.truncatedBy ? { ...table, truncatedBy: 'cells' } : table,
      indexes: indexes.slice(0, bounds.indexesMax),
    };
  } catch (error) {
    throw asRefused(error, 'run');
  }
}

function rowsOf(database: DatabaseSync, sql: string, named: Record<string, string | number | null>) {
  const statement = database.prepare(sql);
  statement.setReadBigInts(true);
  statement.setReturnArrays(true);
  return statement.iterate(named) as unknown as Iterable<SqliteValue[]>;
}

function toIndex([table, name, unique, columns]: SqliteValue[]): TableIndex {
  // Written by SQLite, from names.
  const names = parseJson(String(columns)) as (string | null)[];
  return { table: String(table), name: String(name), unique: unique === 1n, columns: names };
}
