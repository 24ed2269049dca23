/** The daemon's SQLite files: who may open them, and how they are written. */
import { chmodSync, readFileSync, statSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';
import { ToolError } from '../errors.ts';

/** Opens a database that only its owner can read. What is committed survives the daemon's end, if not a power cut. */
export function openDatabase(path: string): DatabaseSync {
  const database = new DatabaseSync(path, { timeout: 1000, defensive: true });
  chmodSync(path, 0o600);
  database.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;');
  return database;
}

/**
 * Holds `path` for this process; undefined when another one holds it. The kernel lets go of it when the process ends,
 * however it ends, so that there is never a stale one. `onFull` makes room on a disk that has none.
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
    // Nobody holds it, or it would be busy: even the lock takes a page.
    onFull();
    return acquireLock(path);
  }
  return { [Symbol.dispose]: () => database.close() };
}

/**
 * The process that holds `path`, as the kernel says: another one can't be met by it, as by a pid in a file. Undefined where
 * nobody holds it, or the kernel does not tell (Linux does).
 */
export function lockHolder(path: string): number | undefined {
  const stat = statSync(path, { bigint: true, throwIfNoEntry: false });
  if (!stat) return undefined;
  let locks: string;
  try {
    locks = readFileSync('/proc/locks', 'utf8');
  } catch {
    return undefined; // ENOENT: not Linux.
  }
  // As in `1: POSIX  ADVISORY  WRITE 4711 fd:01:1234 1073741825 1073741825`; the pid is 0 where it is of another namespace.
  const found = [...locks.matchAll(/^\d+: POSIX +\S+ +WRITE (\d+) [0-9a-f]+:[0-9a-f]+:(\d+) /gm)];
  const pid = found.find(([, , inode]) => inode === String(stat.ino))?.[1];
  return pid === undefined || pid === '0' ? undefined : Number(pid);
}

const SQLITE_BUSY = 5;
const SQLITE_FULL = 13;

/** Runs work on a store; whatever it throws becomes STORE_FAILED, which says that `what` can't be had. */
export const storing =
  (what: string) =>
  <T>(work: () => T): T => {
    try {
      return work();
    } catch (cause) {
      throw new ToolError('STORE_FAILED', `${what} can not be read or written at the moment`, { cause });
    }
  };
