/** Bounds of queries to databases. */
import { bytes, count, KiB, MiB, ms } from './units.ts';

export const databaseLimits = {
  /** Connections, those of config.yaml included. */
  databasesMax: count().default(64),
  /** Bytes of the file of one connection. */
  databaseFileBytesMax: bytes().default(16 * KiB),
  /** Characters of one statement. */
  databaseSqlCharsMax: count().default(64 * KiB),
  /** Parameters of one statement. */
  databaseParamsMax: count().default(256),
  /** Characters of one parameter. */
  databaseParamCharsMax: count().default(256 * KiB),
  /** Rows of one result. */
  databaseRowsMax: count().default(10_000),
  /** Bytes of the cells of one result; the rest is cut, and the result says so. */
  databaseResultBytes: bytes().default(MiB),
  /**
   * Cells of one result, each row counted as one more, and a cell that says its type as five: all must fit into one
   * message (messageElementsMax).
   */
  databaseCellsMax: count().default(80_000),
  /** Indexes in the schema of a database, which come beside its cells. */
  databaseIndexesMax: count().default(250),
  /** Columns of one index in a schema; SQLite allows 2 000. */
  databaseIndexColumnsMax: count().default(32),
  /** Bytes of the message with a result: a byte of a cell takes up to six as JSON. */
  databaseAnswerBytes: bytes().default(8 * MiB),
  /** Bytes of one value or row inside of a statement, so that zeroblob() and printf() can't fill the memory. */
  databaseValueBytesMax: bytes().default(16 * MiB),
  /** Memory of SQLite for one statement: sorting, temporary tables, values. */
  databaseHeapBytes: bytes().default(64 * MiB),
  /** Memory of DuckDB for one statement, beside that of its process. */
  databaseDuckdbBytes: bytes().default(256 * MiB),
  /** Threads of DuckDB for one statement. */
  databaseDuckdbThreads: count().default(2),
  /** Entries of the folder of a DuckDB connection, those of its folders included. */
  databaseFolderEntriesMax: count().default(10_000),
  /** Data files of a folder whose columns one schema shows. */
  databaseFolderFilesMax: count().default(100),
  /** Processes of one thread that run statements, so that one that runs long does not hold up the others. */
  databaseProcessesMax: count().default(4),
  /** Data memory of the process that runs statements; its runtime reserves most of it without filling it. */
  databaseMemoryBytes: bytes().default(1024 * MiB),
  /** Sessions of one connection at its server; further calls wait. */
  databaseSessionsMax: count().default(4),
  /** Bytes that a server may send for one statement; the connection is closed at more. */
  databaseWireBytes: bytes().default(4 * MiB),
  /** Memory for one sort or hash of a statement at a server. */
  databaseSortBytes: bytes().default(16 * MiB),
  /** Cost of one statement in PostgreSQL's estimate; connections may have a bound of their own. */
  databaseCostMax: count().default(10_000_000),
  /** JavaScript heap of the process of one server, in MiB. */
  databaseHeapMb: count().default(64),
  /** Time that a statement waits for another program's lock. */
  databaseLockMs: ms().default(2_000),
  /** Time after its last statement when the process ends. */
  databaseIdleMs: ms().default(120_000),
  /** Time for the process of a server to cancel what it runs before it is killed. */
  databaseEndMs: ms().default(2_000),
  /** Time in which a change that was cut off is rolled back. */
  databaseRecoverMs: ms().default(10_000),
};
