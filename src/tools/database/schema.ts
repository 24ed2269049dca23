import * as z from 'zod';
import { databases } from '../context/databases.ts';
import { defineTool } from '../tool.ts';
import {
  connection,
  maxRows,
  QUERY_MS,
  readEffects,
  readsFiles,
  serverRequest,
  sourceOf,
  tableShape,
  toOutput,
} from './connection.ts';

const input = z.strictObject({
  connection,
  table: z.string().min(1).max(1024).optional().describe('Only this table or view.'),
  maxRows,
});

export default defineTool({
  name: 'database_schema',
  title: 'Show the tables of a database',
  summary:
    'List the tables and views of a database connection with their columns, keys, references and indexes. Use it before database_query.',
  notes: 'Each row is a column of a table or a view; for a folder that DuckDB reads, of a data file.',
  capabilities: [{ action: 'schema', description: 'Lists tables, columns and indexes of a database.' }],
  category: 'database',
  tier: 'read_only',
  isExtra: true,
  idempotent: true,
  effects: readEffects,
  timeoutMs: () => QUERY_MS,
  input,
  output: z.strictObject({
    ...tableShape,
    indexes: z.array(
      z.strictObject({
        table: z.string(),
        name: z.string(),
        unique: z.boolean(),
        columns: z.array(z.string().nullable()).describe('null for an expression.'),
      }),
    ),
  }),
  examples: [
    {
      input: { connection: 'shop' },
      output: {
        rows: [
          ['users', 'table', 'id', 'INTEGER', 0, 1, null, null],
          ['users', 'table', 'name', 'TEXT', 0, 0, null, null],
        ],
        indexes: [],
      },
    },
    { input: { connection: 'shop', table: 'nothing' }, error: 'NOT_FOUND' },
    { input: { connection: '' }, error: 'INPUT_INVALID' },
  ],
  spellings: { names: { database: 'connection', limit: 'maxRows' } },

  runs: {
    by: 'databases',
    readsUnchecked: readsFiles,
    request: (input) => serverRequest(input, { what: 'schema', table: input.table, maxRows: input.maxRows }),
    result: (answer) => ({ ...toOutput(answer), indexes: answer.indexes ?? [] }),
  },

  async run(input, ctx) {
    const { table, indexes } = await ctx.use(databases).schema(sourceOf(input), input.table, input.maxRows);
    return { ...toOutput(table), indexes };
  },
});
