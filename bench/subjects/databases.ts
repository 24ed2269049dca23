import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { defaultLimits } from '../../src/base/limits.ts';
import { storeDatabase } from '../../src/services/databases/database-files.ts';
import { dataOf } from '../../test/support/daemon.ts';
import { makeDatabase } from '../../test/support/sqlite.ts';
import { defineBench } from '../bench.ts';
import { inTurns, median } from '../measure.ts';

const ROWS = 20_000;
const SQL = `CREATE TABLE people (id INTEGER PRIMARY KEY, name TEXT, age INT);
  WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n LIMIT ${ROWS})
  INSERT INTO people SELECT x, 'person number ' || x, x % 90 FROM n`;
const ONE = 'SELECT name FROM people WHERE id = ?';
const MANY = 'SELECT * FROM people LIMIT 10000';
const CHANGE = 'UPDATE people SET age = age + 1 WHERE id = ?';

/** Opens the file anew for each query, as a call does. */
function bare(path: string, sql: string, params: readonly number[]): unknown {
  using database = new DatabaseSync(path);
  return database.prepare(sql).all(...params);
}

export default defineBench({
  title: 'Databases',
  question: 'What does a query of a SQLite file cost beyond the query?',
  async run(bench) {
    const client = await bench.client('databases');
    const { stateDir } = await bench.daemon();
    const path = join(client.folder, 'app.db');
    makeDatabase(path, SQL);
    writeFileSync(join(client.folder, 'note'), 'hop');
    for (const [name, access] of [
      ['bench', 'read'],
      ['bench-rw', 'write'],
    ] as const)
      storeDatabase(stateDir, { name, source: { kind: 'sqlite', path: 'app.db', access } }, defaultLimits);
    const hop = () => dataOf(client.call('file_read', { path: 'note' }, { cache: false }));
    const query = (connection: string, sql: string, params: readonly number[]) =>
      dataOf(client.call('database_query', { connection, sql, params: [...params], maxRows: 10_000 }));
    const turns = { rounds: bench.size(2, 30), times: bench.size(1, 20), warmRounds: bench.size(1, 5) };

    const one = await inTurns(
      {
        'bare SQLite and a call': async () => {
          bare(path, ONE, [7]);
          await hop();
        },
        'database_query, one row': () => query('bench', ONE, [7]),
      },
      turns,
    );
    bench.times(one, { over: 'bare SQLite and a call', goals: { 'database_query, one row': { ratio: 2 } } });
    bench.value(
      'database_query, beyond both',
      median(one['database_query, one row'].flat()) - median(one['bare SQLite and a call'].flat()),
      'ms',
    );

    const many = await inTurns(
      {
        'bare SQLite, 10 000 rows': async () => bare(path, MANY, []),
        'database_query, 10 000 rows': () => query('bench', MANY, []),
      },
      { ...turns, times: bench.size(1, 3) },
    );
    bench.times(many, { over: 'bare SQLite, 10 000 rows' });

    const changed = await inTurns(
      {
        'bare SQLite, a change': async () => bare(path, CHANGE, [7]),
        'database_query, a change with undo': () => query('bench-rw', CHANGE, [7]),
      },
      { ...turns, times: bench.size(1, 3) },
    );
    bench.times(changed, { over: 'bare SQLite, a change' });
  },
});
