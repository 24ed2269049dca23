/** Prepares one statement under an authorizer, binds its parameters and collects its rows. */
import { constants, type DatabaseSync, type StatementSync } from 'node:sqlite';
import type { DatabaseQuery, Scalar } from '../../src/tools/context/databases.ts';
import { SqliteTableWriter, type SqliteValue } from './cells.ts';
import type { AnsweredTable, StatementBounds } from './messages.ts';
import { asRefused, Refused } from './refusals.ts';

const { SQLITE_OK, SQLITE_DENY, SQLITE_FUNCTION } = constants;

/** What a statement may do: all else is refused while it is prepared. */
export const READING: ReadonlySet<number> = new Set([
  constants.SQLITE_SELECT,
  constants.SQLITE_READ,
  SQLITE_FUNCTION,
  constants.SQLITE_RECURSIVE,
]);
export const CHANGING: ReadonlySet<number> = new Set([
  ...READING,
  constants.SQLITE_INSERT,
  constants.SQLITE_UPDATE,
  constants.SQLITE_DELETE,
]);

/** Functions that reach beyond the database. */
const REFUSED_FUNCTIONS = new Set(['load_extension', 'fts3_tokenizer', 'edit', 'readfile', 'writefile']);

/** Names of the actions of SQLite's authorizer, such as `PRAGMA`. */
const ACTIONS = new Map(
  Object.entries(constants)
    .filter(([name]) => !/^SQLITE_(OK|DENY|IGNORE|COPY|CHANGESET_.*)$/.test(name))
    .map(([name, code]) => [code as number, name.replace('SQLITE_', '').replaceAll('_', ' ')]),
);

/** Runs one statement, and gives its rows up to the bounds. Throws Refused. */
export function runStatement(
  database: DatabaseSync,
  { sql, params, maxRows }: DatabaseQuery,
  { allowed, bounds }: { allowed: ReadonlySet<number>; bounds: StatementBounds },
): AnsweredTable {
  const statement = prepare(database, sql, { allowed, params });
  const names = statement.columns().map(({ name, type }) => ({ name, declared: type }));
  const writer = new SqliteTableWriter(names, maxRows, bounds);
  try {
    const rows = statement.iterate(...toBound(params)) as unknown as Iterable<SqliteValue[]>;
    for (const row of rows) if (!writer.add(row)) break;
  } catch (error) {
    throw asRefused(error, 'run');
  }
  return writer.end();
}

/** Prepares a statement. Throws Refused if it is not exactly one, or would do what is not allowed. */
export function prepare(
  database: DatabaseSync,
  sql: string,
  { allowed, params }: { allowed: ReadonlySet<number>; params: DatabaseQuery['params'] },
): StatementSync {
  const refused = new Set<string>();
  database.setAuthorizer((action, first, second) => {
    const isRefusedFunction = action === SQLITE_FUNCTION && REFUSED_FUNCTIONS.has((second ?? '').toLowerCase());
    if (allowed.has(action) && !isRefusedFunction) return SQLITE_OK;
    refused.add(isRefusedFunction ? `${second}()` : [ACTIONS.get(action) ?? 'this', first].filter(Boolean).join(' '));
    return SQLITE_DENY;
  });
  boundVariables(database, Object.keys(params).length);
  let statement: StatementSync;
  try {
    statement = database.prepare(sql);
  } catch (error) {
    throw refused.size > 0 ? notAllowed(refused) : asRefused(error, 'prepare');
  }
  // SQLite prepares the first statement of a text, and says nothing of the rest.
  if (hasStatement(sql.slice(statement.sourceSQL.length)))
    throw new Refused('INPUT_INVALID', 'sql holds more than one statement', 'Call once for each statement.');
  statement.setReadBigInts(true);
  statement.setReturnArrays(true);
  return statement;
}

/** Makes a statement with more parameters than values fail; SQLite would take NULL for those. */
function boundVariables(database: DatabaseSync, count: number): void {
  database.limits.variableNumber = count;
}

function notAllowed(refused: ReadonlySet<string>): Refused {
  const what = [...refused].join(', ').slice(0, 200).toWellFormed();
  const suggestion = /PRAGMA/.test(what)
    ? 'Look at tables with database_schema.'
    : 'A connection only reads unless the operator gave it access: write, and none changes the schema.';
  return new Refused('ACCESS_DENIED', `the connection does not allow ${what}`, suggestion);
}

/** Whether a text holds more than spaces, semicolons and comments. */
export function hasStatement(text: string): boolean {
  for (let at = 0; at < text.length; ) {
    const next = text.slice(at, at + 2);
    if (' \t\n\f\r;'.includes(text[at] as string)) at += 1;
    else if (next === '--') at = endOf(text, '\n', at);
    else if (next === '/*') at = endOf(text, '*/', at + 2);
    else return true;
  }
  return false;
}

function endOf(text: string, mark: string, from: number): number {
  const found = text.indexOf(mark, from);
  return found < 0 ? text.length : found + mark.length;
}

/** Values as node:sqlite binds them: numbers without fraction as integers, which they are in JSON. */
function toBound(params: DatabaseQuery['params']): never[] {
  if (Array.isArray(params)) return params.map(toValue) as never[];
  const named = Object.entries(params).map(([name, value]) => [name, toValue(value as Scalar)]);
  return (named.length > 0 ? [Object.fromEntries(named)] : []) as never[];
}

function toValue(value: Scalar): null | number | bigint | string {
  if (typeof value === 'boolean') return value ? 1n : 0n;
  return Number.isSafeInteger(value) ? BigInt(value as number) : value;
}

/** Lifts the authorizer, for statements of ours. */
export function liftAuthorizer(database: DatabaseSync): void {
  database.setAuthorizer(null);
  boundVariables(database, 16);
}
