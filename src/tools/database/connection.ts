/** What the tools for databases share: their parameters, effects and results. */
import * as z from 'zod';
import type { Effect, Tier } from '../../call.ts';
import { ToolError } from '../../errors.ts';
import { defaultLimits } from '../../limits.ts';
import { COLUMN_TYPES, type DatabaseSource, type Table } from '../context/databases.ts';

const { databaseSqlCharsMax, databaseParamsMax, databaseParamCharsMax, databaseRowsMax } = defaultLimits;

const isPlain = (text: string): boolean => !text.includes('\0') && text.isWellFormed();

export const connection = z.string().min(1).max(64).describe('Name of a connection that the operator configured.');

export const sql = z
  .string()
  .min(1)
  .max(databaseSqlCharsMax)
  .refine(isPlain, 'must not hold a NUL byte or half a character')
  .describe('One SQL statement.');

const scalar = z.union([
  z
    .string()
    .max(databaseParamCharsMax)
    .refine((it) => it.isWellFormed(), 'must not hold half a character'),
  z.number(),
  z.boolean(),
  z.null(),
]);
export const params = z
  .union([
    z.array(scalar).max(databaseParamsMax),
    z
      .record(z.string().regex(/^[:@$]?[A-Za-z_]\w{0,63}$/, 'takes the name of a parameter, such as id'), scalar)
      .refine((it) => Object.keys(it).length <= databaseParamsMax, `may hold at most ${databaseParamsMax} parameters`),
  ])
  .default([])
  .describe('Values for `?` in their order, or for `:name` by name.');

export const maxRows = z.int().min(1).max(databaseRowsMax).default(1_000).describe('Most rows.');

const plainCell = z.union([z.string(), z.number(), z.null()]);
const cell = z.union([
  plainCell,
  z.strictObject({
    type: z.enum(['integer', 'real', 'text', 'blob']),
    value: z.union([z.string(), z.number()]),
  }),
]);

export const tableShape = {
  columns: z
    .array(
      z.strictObject({
        name: z.string(),
        type: z.enum(COLUMN_TYPES).describe('What the cells hold; `mixed`: each cell says it.'),
        declared: z.string().optional().describe('The type that the table declares.'),
      }),
    )
    .describe('Columns of the rows.'),
  rows: z
    .array(z.array(cell))
    .describe('Integers beyond 2^53 are decimal text, blobs base64, infinite reals `Infinity` and `-Infinity`.'),
  rowCount: z.int().nonnegative().describe('Number of rows in `rows`.'),
  truncated: z.boolean().describe('Whether rows are missing.'),
  truncatedBy: z.enum(['rows', 'bytes', 'cells']).optional().describe('The bound that cut the rows.'),
  durationMs: z.number().describe('Time of the query, waiting for locks included.'),
};

/** The output of a tool for a table. */
export function toOutput({ columns, rows, truncatedBy, durationMs }: Table) {
  return {
    columns,
    rows,
    rowCount: rows.length,
    truncated: truncatedBy !== undefined,
    ...(truncatedBy && { truncatedBy }),
    durationMs,
  };
}

/** The connection that the gateway looked up; it stands beside the parameters, where no caller can put it. */
function boundSource(input: object): DatabaseSource | undefined {
  return (input as { source?: DatabaseSource }).source;
}

/** Throws UNSUPPORTED outside of a daemon, which looks up connections. */
export function sourceOf(input: object): DatabaseSource {
  const source = boundSource(input);
  if (source) return source;
  throw new ToolError('UNSUPPORTED', 'no database connections are configured');
}

/** The name of the connection, and the file that is read. */
export function readEffects(input: { readonly connection: string }): Effect[] {
  const source = boundSource(input);
  return [
    { kind: 'query', target: input.connection },
    ...(source ? [{ kind: 'read' as const, target: source.path }] : []),
  ];
}

/** Also the file that is written, if the connection may write. */
export function queryEffects(input: { readonly connection: string }): Effect[] {
  const source = boundSource(input);
  return [
    ...readEffects(input),
    ...(source?.access === 'write' ? [{ kind: 'write' as const, target: source.path }] : []),
  ];
}

export const queryTier = (input: object): Tier => (boundSource(input)?.access === 'write' ? 'write' : 'read_only');

export const QUERY_MS = 30_000;
