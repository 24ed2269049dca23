/** SQLite files for tests. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
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

const HOLDER = `const { DatabaseSync } = require('node:sqlite');
  const [path, sql] = process.argv.slice(1);
  const database = new DatabaseSync(path);
  database.exec(sql);
  process.stdout.write('open');
  setInterval(() => database, 1000);`;

/**
 * Another program that has a database open, after it has run some statements. It is a process of its own, since a
 * process loses its locks on a file when it closes any descriptor of it.
 */
export async function openElsewhere(path: string, sql: string): Promise<AsyncDisposable> {
  const child = spawn(process.execPath, ['-e', HOLDER, path, sql], { stdio: ['ignore', 'pipe', 'inherit'] });
  await once(child.stdout, 'data');
  return {
    async [Symbol.asyncDispose]() {
      const exited = once(child, 'exit');
      child.kill('SIGKILL');
      await exited;
    },
  };
}
