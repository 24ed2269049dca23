/** SQLite files for tests. */
import { DatabaseSync } from 'node:sqlite';

/** Makes a database by statements; it is closed afterwards. */
export function makeDatabase(path: string, sql: string): void {
  using database = new DatabaseSync(path);
  database.exec(sql);
}

/** All rows of a query, as arrays. */
export function rowsOf(path: string, sql: string): unknown[][] {
  using database = new DatabaseSync(path, { readOnly: true });
  const statement = database.prepare(sql);
  statement.setReturnArrays(true);
  return statement.all() as unknown as unknown[][];
}
