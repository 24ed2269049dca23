/**
 * The process that runs statements of agents on SQLite files: a statement that takes too long, too much memory or
 * crashes SQLite ends this process and nothing else. It opens no file but its own code and the databases that the host names.
 */
import type { DatabaseSync } from 'node:sqlite';
import { establishPerimeter } from './perimeter.ts';
import { changeLocked, checkpoint, lockFile } from './sqlite/changing.ts';
import type { SqliteRequests } from './sqlite/messages.ts';
import { openForReading } from './sqlite/opening.ts';
import { schemaOf } from './sqlite/schema.ts';
import { serveStatements } from './sqlite/serving.ts';
import { READING, runStatement } from './sqlite/statement.ts';

establishPerimeter(2);

/** The database between `lock` and `unlock`. */
let locked: DatabaseSync | undefined;

serveStatements<SqliteRequests>({
  query({ file, query, bounds }) {
    using open = openForReading(file, bounds);
    const table = runStatement(open.database, query, { allowed: READING, bounds });
    open.assertConsistent();
    return table;
  },
  explain({ file, query, bounds }) {
    using open = openForReading(file, bounds);
    const sql = `EXPLAIN QUERY PLAN ${query.sql}`;
    return runStatement(open.database, { ...query, sql }, { allowed: READING, bounds });
  },
  schema({ file, bounds, ...asked }) {
    using open = openForReading(file, bounds);
    const schema = schemaOf(open.database, { ...asked, bounds });
    open.assertConsistent();
    return schema;
  },
  lock({ file, bounds }) {
    unlock();
    locked = lockFile(file, bounds);
    return null;
  },
  checkpoint() {
    checkpoint(lockedDatabase());
    return null;
  },
  change: ({ query, bounds }) => changeLocked(lockedDatabase(), query, bounds),
  unlock() {
    unlock();
    return null;
  },
});

function lockedDatabase(): DatabaseSync {
  if (!locked) throw new Error('no database is locked');
  return locked;
}

function unlock(): void {
  const database = locked;
  locked = undefined;
  database?.close();
}
