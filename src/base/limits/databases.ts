/** Bounds of queries to databases. */
import { KiB, MiB } from './units.ts';

export const databaseLimits = {
  /** Connections, those of config.yaml included. */
  databasesMax: 64,
  /** Bytes of the file of one connection. */
  databaseFileBytesMax: 16 * KiB,
  /** Characters of one statement. */
  databaseSqlCharsMax: 64 * KiB,
  /** Parameters of one statement. */
  databaseParamsMax: 256,
  /** Characters of one parameter. */
  databaseParamCharsMax: 256 * KiB,
  /** Rows of one result. */
  databaseRowsMax: 10_000,
  /** Bytes of the cells of one result; the rest is cut, and the result says so. */
  databaseResultBytes: MiB,
  /**
   * Cells of one result, each row counted as one more, and a cell that says its type as five: all must fit into one
   * message (messageElementsMax).
   */
  databaseCellsMax: 80_000,
  /** Indexes in the schema of a database, which come beside its cells. */
  databaseIndexesMax: 250,
  /** Columns of one index in a schema; SQLite allows 2 000. */
  databaseIndexColumnsMax: 32,
  /** Bytes of the message with a result: a byte of a cell takes up to six as JSON. */
  databaseAnswerBytes: 8 * MiB,
  /** Bytes of one value or row inside of a statement, so that zeroblob() and printf() can't fill the memory. */
  databaseValueBytesMax: 16 * MiB,
  /** Memory of SQLite for one statement: sorting, temporary tables, values. */
  databaseHeapBytes: 64 * MiB,
  /** Memory of DuckDB for one statement, beside that of its process. */
  databaseDuckdbBytes: 256 * MiB,
  /** Threads of DuckDB for one statement. */
  databaseDuckdbThreads: 2,
  /** Entries of the folder of a DuckDB connection, those of its folders included. */
  databaseFolderEntriesMax: 10_000,
  /** Data files of a folder whose columns one schema shows. */
  databaseFolderFilesMax: 100,
  /** Processes of one thread that run statements, so that one that runs long does not hold up the others. */
  databaseProcessesMax: 4,
  /** Data memory of the process that runs statements; its runtime reserves most of it without filling it. */
  databaseMemoryBytes: 1024 * MiB,
  /** Sessions of one connection at its server; further calls wait, and one session of the daemon has all but one at most. */
  databaseSessionsMax: 4,
  /** Bytes that a server may send for one statement; the connection is closed at more. */
  databaseWireBytes: 4 * MiB,
  /** Memory for one sort or hash of a statement at a server. */
  databaseSortBytes: 16 * MiB,
  /** Cost of one statement in PostgreSQL's estimate; connections may have a bound of their own. */
  databaseCostMax: 10_000_000,
  /** JavaScript heap of the process of one server, in MiB. */
  databaseHeapMb: 64,
  /** Time that a statement waits for another program's lock. */
  databaseLockMs: 2_000,
  /** Time after its last statement when the process ends. */
  databaseIdleMs: 120_000,
  /** Time for the process of a server to cancel what it runs before it is killed. */
  databaseEndMs: 2_000,
  /** Time in which a change that was cut off is rolled back. */
  databaseRecoverMs: 10_000,
};
