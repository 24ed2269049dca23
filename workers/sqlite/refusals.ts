/** Errors of SQLite as refusals. A message that comes up while a statement runs may hold values of rows, so none of those is passed on. */
import type { Code } from '../../src/base/errors.ts';
import { isRecord } from '../../src/base/text/values.ts';
import type { Refusal } from '../../src/services/databases/messages.ts';

export class Refused extends Error {
  readonly refusal: Refusal;

  constructor(code: Code, message: string, suggestion?: string) {
    super(message);
    this.refusal = { code, message, suggestion };
  }
}

export const noTable = (name: string): Refused =>
  new Refused('NOT_FOUND', `the database has no table or view \`${name}\``, 'List all with database_schema.');

/** `prepare`: before the statement has read anything, so that messages hold words of the statement only. */
export type Phase = 'open' | 'prepare' | 'run';

/** What SQLite's primary result codes mean for a caller. */
const RESULTS: Readonly<Record<number, readonly [Code, string, string?]>> = {
  5: ['CONFLICT', 'another program has locked the database', 'Try again, or close the program that has it open.'],
  6: ['CONFLICT', 'another program has locked the database', 'Try again, or close the program that has it open.'],
  7: ['MEMORY_LIMIT', 'the statement needs more memory than it may use', 'Sort or group fewer rows.'],
  8: [
    'UNSUPPORTED',
    'another program left a change of the database half done',
    'Open it once with a program that may write.',
  ],
  10: ['UNSUPPORTED', 'the database could not be read: an error of the disk'],
  11: ['UNSUPPORTED', 'the database is damaged'],
  13: ['FILE_LIMIT', 'the disk has no space for the change; nothing was changed'],
  14: [
    'UNSUPPORTED',
    'the database could not be opened',
    'A database with a write-ahead log (-wal) but without its index (-shm) must be opened once with a program that may write.',
  ],
  18: ['OUTPUT_LIMIT', 'a value or a row is larger than a statement may handle', 'Take a part of it with substr().'],
  20: ['INPUT_INVALID', 'a value does not have the type that the column wants'],
  23: ['ACCESS_DENIED', 'the connection does not allow this statement'],
  24: ['UNSUPPORTED', 'the file is not a SQLite database of a known version'],
  25: ['INPUT_INVALID', 'params holds more values than the statement has parameters'],
  26: ['UNSUPPORTED', 'the file is not a SQLite database'],
};

const CONSTRAINT = 19;
/** Without details: the file or its mount is read-only. */
const READONLY = 8;
/** Which constraint failed, and of which columns; other texts may come from a trigger. */
const CONSTRAINT_MESSAGE = /^(UNIQUE|NOT NULL|FOREIGN KEY|CHECK) constraint failed(: [\w. ,]{1,300})?$/;

/** The refusal that an error of node:sqlite stands for; rethrows anything else. */
export function asRefused(error: unknown, phase: Phase): Refused {
  if (error instanceof Refused) return error;
  if (!(error instanceof Error) || !isRecord(error)) throw error;
  const { code, errcode, errstr } = error as unknown as Record<string, unknown>;
  const { message } = error;
  if (code === 'ERR_INVALID_ARG_VALUE') return new Refused('INPUT_INVALID', 'sql holds no statement');
  if (code === 'ERR_INVALID_STATE' && phase !== 'open') return new Refused('INPUT_INVALID', `params: ${message}`);
  if (code !== 'ERR_SQLITE_ERROR' || typeof errcode !== 'number') throw error;
  const primary = errcode & 0xff;
  if (primary === CONSTRAINT) {
    const known = CONSTRAINT_MESSAGE.test(message)
      ? message
      : 'a constraint or a trigger of the table refused the change';
    return new Refused('CONFLICT', known, 'Nothing was changed.');
  }
  if (errcode === READONLY) return new Refused('ACCESS_DENIED', 'the database file may not be written');
  const result = RESULTS[primary];
  if (result) return new Refused(...result);
  if (message === 'too many SQL variables')
    return new Refused('INPUT_INVALID', 'the statement has parameters for which params holds no value');
  if (phase === 'prepare') return new Refused('INPUT_INVALID', `sql: ${message}`);
  return new Refused('INPUT_INVALID', `the statement failed while it ran: ${String(errstr)}`);
}
