/** Opens database files so that SQL can reach nothing but the one file that the host checked. */
import * as fs from 'node:fs';
import { DatabaseSync } from 'node:sqlite';
import { pathToFileURL } from 'node:url';
import { isRecord } from '../../src/base/text/values.ts';
import type { DatabaseFile, StatementBounds } from './messages.ts';
import { asRefused, Refused } from './refusals.ts';

type OpenMode = 'read' | 'immutable' | 'write';

const CANTOPEN = 14;

/**
 * Opens a file for reading. Where the mount is read-only, SQLite can't make the index that a write-ahead log needs: a
 * database that uses one and has none now is opened as immutable.
 */
export function openForReading(file: DatabaseFile, bounds: StatementBounds): OpenDatabase {
  const stamp = stampOf(file);
  try {
    return new OpenDatabase(open(file, 'read', bounds), () => {});
  } catch (error) {
    const canNotOpen = isRecord(error) && ((error as { errcode?: number }).errcode ?? 0) % 256 === CANTOPEN;
    if (!canNotOpen || !usesWriteAheadLog(file) || hasWriteAheadLog(file)) throw asRefused(error, 'open');
  }
  const assertSame = () => {
    if (stampOf(file) !== stamp || hasWriteAheadLog(file))
      throw new Refused('CONFLICT', 'the database was changed while it was read', 'Call again.');
  };
  try {
    return new OpenDatabase(open(file, 'immutable', bounds), assertSame);
  } catch (error) {
    throw asRefused(error, 'open');
  }
}

/** Opens a file for writing. */
export function openForWriting(file: DatabaseFile, bounds: StatementBounds): DatabaseSync {
  try {
    return open(file, 'write', bounds);
  } catch (error) {
    throw asRefused(error, 'open');
  }
}

export class OpenDatabase implements Disposable {
  readonly database: DatabaseSync;
  /** Throws CONFLICT if what was read may be a mix of two states. */
  readonly assertConsistent: () => void;

  constructor(database: DatabaseSync, assertConsistent: () => void) {
    this.database = database;
    this.assertConsistent = assertConsistent;
  }

  [Symbol.dispose](): void {
    this.database.close();
  }
}

function open(file: DatabaseFile, mode: OpenMode, { valueBytesMax, heapBytes, lockMs }: StatementBounds): DatabaseSync {
  const url = pathToFileURL(file.path);
  // Without a mode, a missing file would be made.
  url.searchParams.set('mode', mode === 'write' ? 'rw' : 'ro');
  if (mode === 'immutable') url.searchParams.set('immutable', '1');
  const before = openFiles();
  const database = new DatabaseSync(url, {
    readOnly: mode !== 'write',
    allowExtension: false,
    defensive: true,
    enableForeignKeyConstraints: true,
    enableDoubleQuotedStringLiterals: false,
    timeout: lockMs,
    readBigInts: true,
    returnArrays: true,
    limits: { length: valueBytesMax, attach: 0, triggerDepth: 100 },
  });
  try {
    // SQLite opens the file by its name; what it opened is compared before a byte of it is used.
    assertOpened(file, before);
    database.exec(`PRAGMA hard_heap_limit=${heapBytes}; PRAGMA temp_store=MEMORY; PRAGMA trusted_schema=OFF`);
    if (mode === 'write') database.exec('PRAGMA locking_mode=EXCLUSIVE');
    else database.exec('PRAGMA query_only=ON; PRAGMA schema_version');
    return database;
  } catch (error) {
    database.close();
    throw error;
  }
}

const DESCRIPTORS = '/proc/self/fd';

/** The regular files that this process has open: device and inode by descriptor. */
export function openFiles(): Map<string, string> {
  const found = new Map<string, string>();
  for (const it of fs.readdirSync(DESCRIPTORS)) {
    const stat = fs.statSync(`${DESCRIPTORS}/${it}`, { bigint: true, throwIfNoEntry: false });
    if (stat?.isFile()) found.set(it, `${stat.dev} ${stat.ino}`);
  }
  return found;
}

/** Throws CONFLICT unless the only file that was opened is the expected one. */
export function assertOpened({ device, inode }: DatabaseFile, before: ReadonlyMap<string, string>): void {
  const opened = [...openFiles()].filter(([descriptor, file]) => before.get(descriptor) !== file);
  if (opened.length > 0 && opened.every(([, file]) => file === `${device} ${inode}`)) return;
  throw new Refused('CONFLICT', 'the database file was replaced while it was opened', 'Call again.');
}

/** Whether the header says that changes go to a write-ahead log. */
function usesWriteAheadLog({ path }: DatabaseFile): boolean {
  return lookAt(false, () => {
    const header = Buffer.alloc(20);
    const fd = fs.openSync(path, fs.constants.O_RDONLY | fs.constants.O_NOFOLLOW | fs.constants.O_NONBLOCK);
    try {
      fs.readSync(fd, header, 0, header.length, 0);
    } finally {
      fs.closeSync(fd);
    }
    return header[18] === 2 && header[19] === 2;
  });
}

const hasWriteAheadLog = ({ path }: DatabaseFile): boolean =>
  lookAt(true, () => (fs.lstatSync(`${path}-wal`, { throwIfNoEntry: false })?.size ?? 0) > 0);

const stampOf = ({ path }: DatabaseFile): string =>
  lookAt('gone', () => {
    const { size, mtimeNs, ctimeNs, ino } = fs.lstatSync(path, { bigint: true });
    return `${ino} ${size} ${mtimeNs} ${ctimeNs}`;
  });

/** Looks at a file that may be moved, replaced or hidden meanwhile; then the look gives `gone`. */
function lookAt<T>(gone: T, look: () => T): T {
  try {
    return look();
  } catch {
    return gone; // ENOENT, ENOTDIR, ELOOP, EACCES
  }
}
