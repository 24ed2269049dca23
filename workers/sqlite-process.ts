/**
 * The process that runs statements of agents on SQLite files: a statement that takes too long, too much memory or
 * crashes SQLite ends this process and nothing else. It opens no file but its own code and the databases that the host names.
 */
import type { DatabaseSync } from 'node:sqlite';
import { createMessageConnection, StreamMessageReader, StreamMessageWriter } from 'vscode-jsonrpc/node';
import { establishPerimeter } from './perimeter.ts';
import { changeLocked, checkpoint, lockFile } from './sqlite/changing.ts';
import type { Answered, SqliteRequests } from './sqlite/messages.ts';
import { openForReading } from './sqlite/opening.ts';
import { Refused } from './sqlite/refusals.ts';
import { schemaOf } from './sqlite/schema.ts';
import { READING, runStatement } from './sqlite/statement.ts';

establishPerimeter(2);

type Handlers = { [M in keyof SqliteRequests]: (asked: SqliteRequests[M]['asked']) => SqliteRequests[M]['answer'] };

/** The database between `lock` and `unlock`. */
let locked: DatabaseSync | undefined;

const handlers: Handlers = {
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
};

function lockedDatabase(): DatabaseSync {
  if (!locked) throw new Error('no database is locked');
  return locked;
}

function unlock(): void {
  const database = locked;
  locked = undefined;
  database?.close();
}

/** Gives refusals as data: an error response would lose their code. */
function answered<T>(work: () => T): Answered<T> {
  try {
    return { answer: work() };
  } catch (error) {
    if (error instanceof Refused) return { refused: error.refusal };
    throw error;
  }
}

const connection = createMessageConnection(
  new StreamMessageReader(process.stdin),
  new StreamMessageWriter(process.stdout),
);
for (const [method, handle] of Object.entries(handlers))
  connection.onRequest(method, (asked: object): object => answered(() => (handle as (it: object) => unknown)(asked)));
connection.listen();
