/** Errors of MySQL and MariaDB as refusals. The texts of others than errors of the statement itself may hold values. */
import type { QueryError } from 'mysql2';
import type { Code } from '../../../src/base/errors.ts';
import { Refused } from '../../sqlite/refusals.ts';

/** Errors about words of the statement, before a row was read. */
const OF_STATEMENT = new Set(['ER_PARSE_ERROR', 'ER_BAD_FIELD_ERROR', 'ER_NO_SUCH_TABLE', 'ER_SP_DOES_NOT_EXIST']);

const KNOWN: Readonly<Record<string, readonly [Code, string, string?]>> = {
  ER_TABLEACCESS_DENIED_ERROR: ['ACCESS_DENIED', "the connection's user has no right to this"],
  ER_COLUMNACCESS_DENIED_ERROR: ['ACCESS_DENIED', "the connection's user has no right to this"],
  ER_DBACCESS_DENIED_ERROR: ['ACCESS_DENIED', "the connection's user has no right to this database"],
  ER_SPECIFIC_ACCESS_DENIED_ERROR: ['ACCESS_DENIED', "the connection's user has no right to this"],
  ER_PROCACCESS_DENIED_ERROR: ['ACCESS_DENIED', "the connection's user has no right to this"],
  ER_ACCESS_DENIED_ERROR: [
    'AUTH_REQUIRED',
    'the server does not let the user in',
    'Ask the person to check the secret.',
  ],
  ER_BAD_DB_ERROR: ['NOT_FOUND', 'the server has no such database'],
  ER_CANT_EXECUTE_IN_READ_ONLY_TRANSACTION: ['ACCESS_DENIED', 'the connection only reads'],
  ER_TOO_BIG_SELECT: [
    'COST_LIMIT',
    'the database estimates that the statement reads more rows than the connection allows',
  ],
  ER_STATEMENT_TIMEOUT: ['TIMEOUT', 'the statement ran longer than it may'],
  ER_QUERY_TIMEOUT: ['TIMEOUT', 'the statement ran longer than it may'],
  ER_QUERY_INTERRUPTED: ['TIMEOUT', 'the statement was ended'],
  ER_LOCK_WAIT_TIMEOUT: ['CONFLICT', 'another transaction holds a lock', 'Try again later.'],
  ER_LOCK_DEADLOCK: ['CONFLICT', 'another transaction was in the way', 'Try again.'],
  ER_DUP_ENTRY: ['CONFLICT', 'a value that must be unique is there already'],
  ER_NO_REFERENCED_ROW_2: ['CONFLICT', 'a reference to another table would not hold'],
  ER_ROW_IS_REFERENCED_2: ['CONFLICT', 'a reference of another table would not hold'],
  ER_UNSUPPORTED_PS: ['INPUT_INVALID', 'the server does not prepare statements of this kind'],
};

/** The number of MariaDB's error for `max_statement_time`, which the driver has no name for. */
const MARIADB_TIMEOUT = 1969;

export function toRefused(error: QueryError): Refused {
  const { errno } = error;
  // Errors of connections may have none, whatever the driver's types say.
  const code = String(error.code);
  if (OF_STATEMENT.has(code)) {
    // The text that follows `near` is the caller's own.
    return new Refused('INPUT_INVALID', `sql: ${error.message.slice(0, 300).toWellFormed()}`);
  }
  const known = errno === MARIADB_TIMEOUT ? KNOWN.ER_STATEMENT_TIMEOUT : KNOWN[code];
  if (known) return new Refused(...known);
  if (error.fatal || errno === undefined)
    return new Refused('UPSTREAM_FAILED', `the connection to the database was lost: ${code.slice(0, 60)}`);
  return new Refused('INPUT_INVALID', `the statement failed (${code.slice(0, 60)})`);
}
