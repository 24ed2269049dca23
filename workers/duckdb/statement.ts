/** Runs one statement that reads, and collects its rows. */
import {
  type DuckDBConnection,
  type DuckDBPreparedStatement,
  type DuckDBResult,
  StatementType,
} from '@duckdb/node-api';
import type { DatabaseQuery, Scalar } from '../../src/tools/context/databases.ts';
import type { AnsweredTable } from '../sqlite/messages.ts';
import { Refused } from '../sqlite/refusals.ts';
import { TableWriter } from '../sqlite/table-writer.ts';
import { bytesOf, toCell } from './cells.ts';
import type { DuckDbBounds } from './messages.ts';
import { asRefused } from './refusals.ts';

/** Runs one statement, and gives its rows up to the bounds. Throws Refused. */
export async function runStatement(
  connection: DuckDBConnection,
  query: DatabaseQuery,
  bounds: DuckDbBounds,
): Promise<AnsweredTable> {
  const statement = await prepareReading(connection, query.sql);
  return await rowsOf(statement, query, bounds);
}

/** Gives the plan of a statement, which does not run. Throws Refused. */
export async function explainStatement(
  connection: DuckDBConnection,
  query: DatabaseQuery,
  bounds: DuckDbBounds,
): Promise<AnsweredTable> {
  // A text that is a query by itself can't be read as `EXPLAIN ANALYZE …`, which would run it.
  (await prepareReading(connection, query.sql)).destroySync();
  const statement = await prepare(connection, `EXPLAIN ${query.sql}`);
  return await rowsOf(statement, query, bounds);
}

/** Prepares a statement. Throws Refused if it is not exactly one, or does more than read. */
async function prepareReading(connection: DuckDBConnection, sql: string): Promise<DuckDBPreparedStatement> {
  // DuckDB does a part of some statements while it prepares them: EXPORT makes its folder.
  const first = firstWord(sql);
  if (first !== '' && !READING.has(first)) throw notReading(first);
  const statement = await prepare(connection, sql);
  const type = statement.statementType;
  if (type !== StatementType.SELECT)
    throw new Refused('ACCESS_DENIED', `the connection does not allow ${StatementType[type] ?? 'this'}`);
  return statement;
}

/** The first word in lower case, or another character. Comments are skipped, but for those in slashes, which DuckDB nests. */
function firstWord(sql: string): string {
  const rest = sql.replace(/^(?:\s|--[^\n\r]*)*/, '');
  return (/^(?:\w{1,40}|[^\w])/.exec(rest)?.[0] ?? '').toLowerCase();
}

const READING = new Set([
  '(',
  ...['select', 'from', 'values', 'with', 'table'],
  ...['describe', 'desc', 'show', 'summarize', 'pivot', 'unpivot'],
]);

const notReading = (what: string): Refused =>
  new Refused(
    'ACCESS_DENIED',
    `the connection does not allow a statement that begins with ${what.toWellFormed()}`,
    'Connections of DuckDB run SELECT, FROM, VALUES, WITH, DESCRIBE, SHOW, SUMMARIZE and PIVOT.',
  );

async function prepare(connection: DuckDBConnection, sql: string): Promise<DuckDBPreparedStatement> {
  try {
    const statements = await connection.extractStatements(sql);
    const { count } = statements;
    if (count === 1) return await statements.prepare(0);
    // DuckDB makes several statements of a PIVOT without values.
    const suggestion = 'Call once for each statement. A PIVOT names its values: PIVOT t ON c IN (…).';
    throw new Refused('INPUT_INVALID', 'sql holds more than one statement', suggestion);
  } catch (error) {
    throw asRefused(error, 'prepare');
  }
}

async function rowsOf(
  statement: DuckDBPreparedStatement,
  { params, maxRows }: DatabaseQuery,
  bounds: DuckDbBounds,
): Promise<AnsweredTable> {
  try {
    bind(statement, params);
    const result = await statement.stream();
    const writer = new TableWriter(maxRows, bounds);
    await collect(result, writer);
    const names = result.columnNames();
    return writer.end(result.columnTypes().map((type, at) => ({ name: names[at] ?? '', type: type.toString() })));
  } catch (error) {
    throw asRefused(error, 'run');
  } finally {
    // Frees the buffers of the files that it read, which the next statement needs.
    statement.destroySync();
  }
}

async function collect(result: DuckDBResult, writer: TableWriter): Promise<void> {
  while (!writer.isFull) {
    const chunk = await result.fetchChunk();
    if (!chunk || chunk.rowCount === 0) return;
    const columns = Array.from({ length: chunk.columnCount }, (_, at) => chunk.getColumnVector(at));
    for (let at = 0; at < chunk.rowCount && !writer.isFull; at += 1) {
      const row = columns.map((it) => toCell(it.getItem(at)));
      writer.add(
        row.reduce<number>((sum, it) => sum + bytesOf(it), 0),
        () => row,
      );
    }
  }
}

/** Throws INPUT_INVALID unless there is one value for each parameter. */
function bind(statement: DuckDBPreparedStatement, params: DatabaseQuery['params']): void {
  const count = statement.parameterCount;
  const values = new Map<string, Scalar>(
    Array.isArray(params)
      ? params.map((it, at) => [String(at + 1), it])
      : Object.entries(params).map(([name, it]) => [name.replace(/^[:@$]/, ''), it as Scalar]),
  );
  const names = Array.from({ length: count }, (_, at) => statement.parameterName(at + 1));
  const missing = names.find((it) => !values.has(it));
  if (missing !== undefined) throw new Refused('INPUT_INVALID', `params holds no value for the parameter ${missing}`);
  if (values.size > count)
    throw new Refused('INPUT_INVALID', `params holds ${values.size} values, and the statement has ${count} parameters`);
  for (const [at, name] of names.entries()) bindOne(statement, at + 1, values.get(name) as Scalar);
}

/** Binds numbers without fraction as integers, which they are in JSON. */
function bindOne(statement: DuckDBPreparedStatement, at: number, value: Scalar): void {
  if (value === null) statement.bindNull(at);
  else if (typeof value === 'boolean') statement.bindBoolean(at, value);
  else if (typeof value === 'string') statement.bindVarchar(at, value);
  else if (Number.isSafeInteger(value)) statement.bindBigInt(at, BigInt(value));
  else statement.bindDouble(at, value);
}
