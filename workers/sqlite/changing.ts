/** Changes rows of a locked database, so that the file before and after is one state and no other program sees it in between. */
import type { DatabaseSync } from 'node:sqlite';
import type { DatabaseQuery } from '../../src/tools/context/databases.ts';
import type { AnsweredTable, DatabaseFile, StatementBounds } from './messages.ts';
import { openForWriting } from './opening.ts';
import { asRefused } from './refusals.ts';
import { CHANGING, liftAuthorizer, runStatement } from './statement.ts';

/** Opens and locks a file. The lock holds until the database is closed, since its locking mode is exclusive. */
export function lockFile(file: DatabaseFile, bounds: StatementBounds): DatabaseSync {
  const database = openForWriting(file, bounds);
  try {
    database.exec('BEGIN EXCLUSIVE; COMMIT');
    return database;
  } catch (error) {
    database.close();
    throw asRefused(error, 'run');
  }
}

/** Without a write-ahead log this does nothing. */
export function checkpoint(database: DatabaseSync): void {
  try {
    database.exec('PRAGMA wal_checkpoint(TRUNCATE)');
  } catch (error) {
    throw asRefused(error, 'run');
  }
}

/** Runs one statement and commits, or changes nothing. Throws Refused. */
export function changeLocked(database: DatabaseSync, query: DatabaseQuery, bounds: StatementBounds): AnsweredTable {
  database.exec('BEGIN IMMEDIATE');
  try {
    const table = runStatement(database, query, { allowed: CHANGING, bounds });
    liftAuthorizer(database);
    const changes = changesOf(database);
    database.exec('COMMIT');
    settle(database);
    return { ...table, changes };
  } catch (error) {
    liftAuthorizer(database);
    if (database.isTransaction) database.exec('ROLLBACK');
    throw asRefused(error, 'run');
  }
}

/** Rows that the only statement of this connection changed, with those of its triggers. */
function changesOf(database: DatabaseSync): number {
  const statement = database.prepare('SELECT total_changes()');
  statement.setReturnArrays(true);
  const [changes] = statement.get() as unknown as [bigint];
  return Number(changes);
}

function settle(database: DatabaseSync): void {
  try {
    checkpoint(database);
  } catch {
    // A full disk: the log keeps the change, and closing the database tries again.
  }
}
