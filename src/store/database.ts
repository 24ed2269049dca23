/** The daemon's SQLite files: who may open them, and how they are written. */
import { chmodSync } from 'node:fs';
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
 * however it ends, so that there is never a stale one.
 */
export function acquireLock(path: string): Disposable | undefined {
  const database = new DatabaseSync(path, { timeout: 0 });
  try {
    database.exec('PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE;');
  } catch (error) {
    database.close();
    if ((error as { errcode?: number }).errcode === SQLITE_BUSY) return undefined;
    throw error;
  }
  return { [Symbol.dispose]: () => database.close() };
}

const SQLITE_BUSY = 5;

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
