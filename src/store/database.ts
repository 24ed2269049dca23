/** Opens and locks the daemon's SQLite files. */
import { chmodSync, statSync } from 'node:fs';
import { DatabaseSync, type StatementSync } from 'node:sqlite';
import { ToolError } from '../base/errors.ts';
import { textAt } from '../base/quiet/reads.ts';

/** Opens a database that only its owner can read, and runs SQL in it. Commits survive the daemon's end, but not necessarily a power cut. */
export function openDatabase(path: string, schema = ''): DatabaseSync {
  const database = new DatabaseSync(path, { timeout: 1000, defensive: true });
  if (path !== ':memory:') chmodSync(path, 0o600);
  database.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;');
  database.exec(schema);
  return database;
}

export type Prepared<Sql> = Readonly<Record<keyof Sql, StatementSync>>;

/** The statements of a store, under the names of their SQL. */
export const prepared = <Sql extends Record<string, string>>(database: DatabaseSync, sql: Sql) =>
  Object.fromEntries(Object.entries(sql).map(([name, text]) => [name, database.prepare(text)])) as Prepared<Sql>;

/** Runs `work` in one transaction, which changes all or nothing. Throws what `work` throws, and SQLite's errors. */
export function atomically<T>(database: DatabaseSync, work: () => T): T {
  database.exec('BEGIN IMMEDIATE');
  try {
    const result = work();
    database.exec('COMMIT');
    return result;
  } catch (error) {
    if (database.isOpen && database.isTransaction) database.exec('ROLLBACK');
    throw error;
  }
}

/**
 * Locks `path` for this process; undefined if another one holds the lock. The kernel releases the lock when the process ends in any way, so
 * it is never stale. `onFull` makes room on a full disk.
 */
export function acquireLock(path: string, onFull?: () => void): Disposable | undefined {
  const database = new DatabaseSync(path, { timeout: 0 });
  try {
    database.exec('PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE;');
  } catch (error) {
    database.close();
    const { errcode } = error as { errcode?: number };
    if (errcode === SQLITE_BUSY) return undefined;
    if (errcode !== SQLITE_FULL || !onFull) throw error;
    // Nobody holds the lock (that would be SQLITE_BUSY), but taking it needs a page on the full disk.
    onFull();
    return acquireLock(path);
  }
  return { [Symbol.dispose]: () => database.close() };
}

/**
 * Pid of the process that locks `path`, as the kernel reports it, so it can't name another process as a pid file can. Undefined if nobody
 * holds the lock or the kernel does not tell (Linux does).
 */
export function lockHolder(path: string): number | undefined {
  const stat = statSync(path, { bigint: true, throwIfNoEntry: false });
  if (!stat) return undefined;
  const locks = textAt('/proc/locks') ?? '';
  // For example `1: POSIX  ADVISORY  WRITE 4711 fd:01:1234 1073741825 1073741825`; the pid is 0 for a process in another namespace.
  const found = [...locks.matchAll(/^\d+: POSIX +\S+ +WRITE (\d+) [0-9a-f]+:[0-9a-f]+:(\d+) /gm)];
  const pid = found.find(([, , inode]) => inode === String(stat.ino))?.[1];
  return pid === undefined || pid === '0' ? undefined : Number(pid);
}

const SQLITE_BUSY = 5;
const SQLITE_FULL = 13;

/** Wraps work on a store: any error becomes STORE_FAILED with a message about `what`. */
export const storing =
  (what: string) =>
  <T>(work: () => T): T => {
    try {
      return work();
    } catch (cause) {
      throw new ToolError('STORE_FAILED', `${what} can not be read or written at the moment`, { cause });
    }
  };
