import * as z from 'zod';
import type { DatabaseQuery } from '../context/databases.ts';
import { databases } from '../context/databases.ts';
import { defineTool } from '../tool.ts';
import {
  connection,
  params,
  QUERY_MS,
  readEffects,
  readsFiles,
  serverRequest,
  sourceOf,
  sql,
  tableShape,
  toOutput,
} from './connection.ts';

const ROWS_MAX = 1_000;

const input = z.strictObject({ connection, sql, params });

export default defineTool({
  name: 'database_explain',
  title: 'Explain a query',
  summary:
    'Show how a database would run one SQL statement: which indexes it uses and which tables it scans. The statement does not run.',
  notes: 'For SQLite the rows are those of EXPLAIN QUERY PLAN, for servers and DuckDB those of EXPLAIN.',
  capabilities: [{ action: 'explain', description: 'Shows the plan of a statement.' }],
  category: 'database',
  tier: 'read_only',
  isExtra: true,
  idempotent: true,
  unrecorded: ['params'],
  effects: readEffects,
  timeoutMs: () => QUERY_MS,
  input,
  output: z.strictObject(tableShape),
  examples: [
    {
      input: { connection: 'shop', sql: 'SELECT name FROM users WHERE id = ?', params: [1] },
      output: { rowCount: 1, truncated: false },
    },
    { input: { connection: 'shop', sql: 'SELECT nowhere FROM users' }, error: 'INPUT_INVALID' },
    { input: { connection: 'shop', sql: '' }, error: 'INPUT_INVALID' },
  ],
  spellings: { names: { query: 'sql', database: 'connection' } },

  runs: {
    by: 'databases',
    readsUnchecked: readsFiles,
    request: (input) => serverRequest(input, { what: 'explain', query: toQuery(input) }),
    result: toOutput,
  },

  async run(input, ctx) {
    return toOutput(await ctx.use(databases).explain(sourceOf(input), toQuery(input)));
  },
});

function toQuery({ sql: statement, params: values }: z.output<typeof input>): DatabaseQuery {
  return { sql: statement, params: values, maxRows: ROWS_MAX };
}
