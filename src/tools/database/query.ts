import * as z from 'zod';
import type { DatabaseQuery, Table } from '../context/databases.ts';
import { databases } from '../context/databases.ts';
import { defineTool } from '../tool.ts';
import {
  asksForQuery,
  connection,
  maxRows,
  params,
  QUERY_MS,
  queryEffects,
  queryTier,
  readsFiles,
  serverRequest,
  sourceOf,
  sql,
  tableShape,
  toOutput,
} from './connection.ts';

const input = z.strictObject({ connection, sql, params, maxRows });
const byQuery = z.strictObject({ connection, query: sql, params, maxRows });
type ByQuery = z.output<typeof byQuery>;

const toInput = (it: Record<string, unknown>): z.output<typeof input> => {
  const { query, ...rest } = it as ByQuery;
  return { ...rest, sql: query };
};

export default defineTool({
  name: 'database_query',
  title: 'Query a database',
  summary:
    'Run one SQL statement on a database connection that the operator configured, by its name. Values belong into params, not into the statement. ' +
    'Look at the tables with database_schema first.',
  notes:
    "Connections are SQLite files in the workspace, folders with CSV, Parquet and JSON files that DuckDB reads (`SELECT * FROM 'a.csv'`), or PostgreSQL, MySQL and MariaDB servers; those with `access: read` run SELECT only, those with `access: write` also " +
    'INSERT, UPDATE and DELETE. Undo takes a whole SQLite file back; about each statement that may change rows of a server a person is asked. PRAGMA, ATTACH, VACUUM, transactions, changes of the schema and loading of extensions are refused, and so is a second ' +
    'statement. Integers beyond 2^53 can be compared as text: `id = CAST(? AS INTEGER)`. The audit log leaves the values of params out.',
  capabilities: [
    { action: 'query', description: 'Reads rows of a database.' },
    { action: 'change', description: 'Inserts, updates and deletes rows of a database that may be written.' },
  ],
  category: 'database',
  tier: 'write',
  tiers: { of: queryTier, least: 'read_only' },
  isExtra: true,
  destructive: true,
  dependencies: ['database_schema'],
  unrecorded: ['params'],
  effects: queryEffects,
  asks: asksForQuery,
  timeoutMs: () => QUERY_MS,
  input,
  output: z.strictObject({
    ...tableShape,
    changes: z
      .int()
      .nonnegative()
      .optional()
      .describe('Rows that were inserted, updated or deleted, also by triggers; for connections that may write.'),
  }),
  examples: [
    {
      input: { connection: 'shop', sql: 'SELECT id, name FROM users WHERE id = ?', params: [1] },
      output: { rows: [[1, 'Ada']], rowCount: 1, truncated: false },
    },
    {
      input: {
        connection: 'shop',
        sql: 'UPDATE users SET name = :name WHERE id = :id',
        params: { name: 'Eve', id: 1 },
      },
      output: { rows: [], changes: 1 },
    },
    { input: { connection: 'shop', sql: 'DROP TABLE users' }, error: 'ACCESS_DENIED' },
    { input: { connection: 'nobody', sql: 'SELECT 1' }, error: 'NOT_FOUND' },
    { input: { connection: 'shop', sql: 'SELECT 1', maxRows: 0 }, error: 'INPUT_INVALID' },
  ],
  aliases: [
    { name: 'query_database', input: byQuery, toInput },
    { name: 'supabase_query', input: byQuery, toInput },
  ],
  spellings: { names: { query: 'sql', database: 'connection', limit: 'maxRows' } },

  async preview(input, ctx) {
    const source = sourceOf(input);
    return { preImages: source.access === 'write' ? await ctx.use(databases).preImages(source) : [] };
  },

  runs: {
    by: 'databases',
    readsUnchecked: readsFiles,
    request: (input) => serverRequest(input, { what: 'query', query: toQuery(input) }),
    result: (table) => withChanges(table),
  },

  async run(input, ctx) {
    return withChanges(await ctx.use(databases).query(sourceOf(input), toQuery(input)));
  },
});

function toQuery({ sql: statement, params: values, maxRows: rowsMax }: z.output<typeof input>): DatabaseQuery {
  return { sql: statement, params: values, maxRows: rowsMax };
}

const withChanges = (table: Table) => ({ ...toOutput(table), changes: table.changes });
