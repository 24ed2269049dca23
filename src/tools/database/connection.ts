/** What the tools for databases share: their parameters, effects and results. */
import * as z from 'zod';
import type { Effect, Tier } from '../../base/call.ts';
import { ToolError } from '../../base/errors.ts';
import { defaultLimits } from '../../base/limits.ts';
import {
  type AskedOfServer,
  COLUMN_TYPES,
  type DatabaseRequest,
  type DatabaseSource,
  type FileSource,
  isServer,
  type Table,
} from '../context/databases.ts';

const { databaseSqlCharsMax, databaseParamsMax, databaseParamCharsMax, databaseRowsMax } = defaultLimits;

const isPlain = (text: string): boolean => !text.includes('\0') && text.isWellFormed();

export const connection = z
  .string()
  .min(1)
  .max(64)
  .describe('Name of a connection that the operator configured; may be left out if there is only one.');

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
  .describe('Values for `?` (PostgreSQL: `$1`) in their order, or by name for `:name` (SQLite) and `$name` (DuckDB).');

export const maxRows = z.int().min(1).max(databaseRowsMax).default(1_000).describe('Most rows.');

const plainCell = z.union([z.string(), z.number(), z.boolean(), z.null()]);
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
        type: z
          .string()
          .describe(
            `What the cells hold. SQLite: ${COLUMN_TYPES.join(', ')}, where \`mixed\` means that each cell says it; servers and DuckDB: their name of the type.`,
          ),
        declared: z.string().optional().describe('The type that the table declares.'),
      }),
    )
    .describe('Columns of the rows.'),
  rows: z
    .array(z.array(cell))
    .describe(
      'Integers beyond 2^53 are decimal text, blobs base64, reals that are no numbers text such as `Infinity` and `NaN`. Decimals, dates, arrays and all other types are the text of the server or of DuckDB.',
    ),
  rowCount: z.int().nonnegative().describe('Number of rows in `rows`.'),
  truncated: z.boolean().describe('Whether rows are missing.'),
  truncatedBy: z.enum(['rows', 'bytes', 'cells']).optional().describe('The bound that cut the rows.'),
  durationMs: z.number().describe('Time of the query, waiting for locks included.'),
  cost: z.number().optional().describe('Cost that the server estimated, in its own unit.'),
  notices: z.array(z.string()).optional().describe('What the server told beside the rows.'),
};

export function toOutput({ columns, rows, truncatedBy, durationMs, cost, notices }: Table) {
  return {
    columns,
    rows,
    rowCount: rows.length,
    truncated: truncatedBy !== undefined,
    truncatedBy,
    durationMs,
    cost,
    notices: notices && [...notices],
  };
}

/** The connection that the gateway looked up; it stands beside the parameters, where no caller can put it. */
function boundSource(input: object): DatabaseSource | undefined {
  return (input as { source?: DatabaseSource }).source;
}

/** The file of a connection. Throws UNSUPPORTED outside of a daemon, which looks up connections. */
export function sourceOf(input: object): FileSource {
  const source = boundSource(input);
  if (source && !isServer(source)) return source;
  throw new ToolError('UNSUPPORTED', 'no database connections are configured');
}

/** The request to the server of a connection; undefined for one to a file. */
export function serverRequest(
  input: { readonly connection: string },
  asked: AskedOfServer,
): DatabaseRequest | undefined {
  const source = boundSource(input);
  return source && isServer(source) ? { connection: input.connection, source, asked } : undefined;
}

/** DuckDB opens files that the statement names; the masks of its host keep hidden ones from it. */
export const readsFiles = (input: object): boolean => boundSource(input)?.kind === 'duckdb';

/** The name of the connection, and the file that is read or the server that is asked. */
export function readEffects(input: { readonly connection: string }): Effect[] {
  const source = boundSource(input);
  return [{ kind: 'query', target: input.connection }, ...(source ? [reachOf(source)] : [])];
}

function reachOf(source: DatabaseSource): Effect {
  if (!isServer(source)) return { kind: 'read', target: source.path };
  const { host, port } = source;
  return { kind: 'connect', target: host.includes(':') ? `[${host}]:${port}` : `${host}:${port}` };
}

/** Also the file that is written, if the connection may write. */
export function queryEffects(input: { readonly connection: string }): Effect[] {
  const source = boundSource(input);
  const isWritten = source && !isServer(source) && source.access === 'write';
  return [...readEffects(input), ...(isWritten ? [{ kind: 'write' as const, target: source.path }] : [])];
}

/** Reading changes nothing, wherever the database is; what a server changes can't be taken back. */
export function queryTier(input: object): Tier {
  const source = boundSource(input);
  if (source?.access !== 'write') return 'read_only';
  return isServer(source) ? 'external_api' : 'write';
}

/** Whether a person is asked about a call whatever the policy says: changes at a server can't be undone. */
export const asksForQuery = (input: object): boolean => queryTier(input) === 'external_api';

export const QUERY_MS = 30_000;
