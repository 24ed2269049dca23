/** Errors of PostgreSQL as refusals. An error of a statement that runs may hold values of rows, so its text is not passed on. */
import type { DatabaseError } from 'pg';
import type { Code } from '../../../src/base/errors.ts';
import { Refused } from '../../sqlite/refusals.ts';

/** `plan`: before any row was read, so that messages hold words of the statement only. */
export type Phase = 'plan' | 'run';

const READS = 'Connections read unless the operator gave them access: write.';

/** What conditions mean for a caller, by SQLSTATE or its class. */
const CONDITIONS: Readonly<Record<string, readonly [Code, string, string?]>> = {
  '0A000': ['UNSUPPORTED', 'the server does not support this'],
  '22012': ['INPUT_INVALID', 'the statement divides by zero'],
  '22003': ['INPUT_INVALID', 'a number is beyond the range of its type'],
  '22001': ['INPUT_INVALID', 'a text is too long for its column'],
  '22P02': ['INPUT_INVALID', 'a value can not be read as its type'],
  '22': ['INPUT_INVALID', 'a value does not fit its type or function'],
  '21': ['INPUT_INVALID', 'a subquery gives more than one row'],
  '23502': ['CONFLICT', 'a column that must have a value would have none'],
  '23503': ['CONFLICT', 'a reference to another table would not hold'],
  '23505': ['CONFLICT', 'a value that must be unique is there already'],
  '23514': ['CONFLICT', 'a check of the table refuses the change'],
  '23': ['CONFLICT', 'a constraint refuses the change'],
  '25006': ['ACCESS_DENIED', 'the connection only reads', READS],
  '25': ['ACCESS_DENIED', 'a statement may not begin or end a transaction'],
  '40': ['CONFLICT', 'another transaction was in the way', 'Try again.'],
  '42501': ['ACCESS_DENIED', "the connection's user has no right to this"],
  '53': ['UPSTREAM_FAILED', 'the server has no memory, disk or connections left'],
  '54': ['INPUT_INVALID', 'the statement is too complex for the server'],
  '55P03': ['CONFLICT', 'another transaction holds a lock', 'Try again later.'],
  '55': ['CONFLICT', 'the object is not in the state that this needs'],
  '57014': ['TIMEOUT', 'the statement ran longer than it may', 'Read fewer rows, or look at database_explain.'],
  '57': ['UPSTREAM_FAILED', 'the server ended the connection'],
  P0001: ['INPUT_INVALID', 'a function or a trigger of the database refused this'],
};

export function toRefused(error: DatabaseError, phase: Phase): Refused {
  const { code = '', message } = error;
  // 42 is about the statement itself: syntax, names and types. Rows have no part in it.
  if (phase === 'plan' && (code.startsWith('42') || code.startsWith('08P')) && code !== '42501')
    return new Refused('INPUT_INVALID', `sql: ${plain(message)}${positionOf(error)}`, suggestionOf(error));
  const known = CONDITIONS[code] ?? CONDITIONS[code.slice(0, 2)];
  if (known) return new Refused(known[0], `${known[1]}${namesIn(error)}`, known[2]);
  return new Refused('INPUT_INVALID', `the statement failed (SQLSTATE ${plain(code).slice(0, 5)})`);
}

const plain = (text = ''): string => text.slice(0, 300).toWellFormed();

/** Names of the schema that an error is about; never a value. */
function namesIn({ table, column, constraint }: DatabaseError): string {
  const names = [table, column, constraint].map((it) => plain(it)).filter((it) => it !== '');
  return names.length > 0 ? ` (${names.join(', ')})` : '';
}

/** The place in the statement; ours begins with words of our own, so only the line of the rest helps. */
function positionOf({ hint }: DatabaseError): string {
  return !hint ? '' : `; ${plain(hint)}`;
}

/** A syntax error at words of other statements most likely is a statement that a cursor does not take. */
function suggestionOf({ code }: DatabaseError): string {
  return code === '42601'
    ? 'A call takes one statement: SELECT, VALUES, TABLE or WITH, and for connections that may write INSERT, UPDATE, DELETE and MERGE.'
    : 'Look at the tables with database_schema.';
}
