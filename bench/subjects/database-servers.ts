import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import mysql from 'mysql2/promise';
import pg from 'pg';
import { defaultLimits } from '../../src/base/limits.ts';
import { silentLog, systemPowers } from '../../src/base/powers.ts';
import { runCli } from '../../test/support/cli.ts';
import { dataOf, startDaemon, until } from '../../test/support/daemon.ts';
import { peakMemoryOf, serverProcessOf } from '../../test/support/database-server.ts';
import { missingMariadb, startMariadb } from '../../test/support/mariadb.ts';
import { missingPostgres, startPostgres } from '../../test/support/postgres.ts';
import { Connector } from '../../workers/database/connector.ts';
import { MysqlSession } from '../../workers/database/mysql/session.ts';
import { SessionPool } from '../../workers/database/pool.ts';
import { PostgresSession } from '../../workers/database/postgres/session.ts';
import { type Context, defineBench } from '../bench.ts';
import { inTurns, median } from '../measure.ts';

const PASSWORD = 'bench';
const ROWS = 20_000;

/** What a kind of server differs in. */
interface Served extends AsyncDisposable {
  readonly kind: 'postgres' | 'mysql';
  readonly port: number;
  /** File with the certificate of the server's authority. */
  readonly ca: string;
  readonly database: string;
  readonly one: string;
  readonly many: string;
  /** Results that are far beyond the bounds. */
  readonly huge: readonly string[];
  /** Takes a lock, and holds it until it is ended. */
  readonly holding: string;
  /** Waits for that lock. */
  readonly waiting: string;
  /** Tells whether the lock is held. */
  readonly isHeld: string;
}

/** A driver, or our sessions, in this process. */
interface Driver extends AsyncDisposable {
  query(sql: string, params: readonly unknown[]): Promise<unknown>;
}

/** A driver whose rows are objects. */
interface BareDriver extends Driver {
  query(sql: string, params: readonly unknown[]): Promise<Record<string, unknown>[]>;
}

async function servePostgres(): Promise<Served> {
  const server = await startPostgres();
  await server.sql(`CREATE TABLE people (id int PRIMARY KEY, name text, age int);
    INSERT INTO people SELECT i, 'person number ' || i, i % 90 FROM generate_series(1, ${ROWS}) i; ANALYZE;
    CREATE ROLE agent LOGIN PASSWORD '${PASSWORD}'; GRANT SELECT ON people TO agent`);
  return {
    ...server,
    kind: 'postgres',
    database: 'postgres',
    one: 'SELECT name FROM people WHERE id = $1',
    many: 'SELECT * FROM people LIMIT 10000',
    huge: ["SELECT repeat('x', 200000000)", 'SELECT * FROM generate_series(1, 10000000)'],
    holding: 'SELECT pg_advisory_xact_lock(7), pg_sleep(60)',
    waiting: 'SELECT pg_advisory_xact_lock(7)',
    isHeld: "SELECT count(*)::int AS held FROM pg_locks WHERE locktype = 'advisory'",
  };
}

async function serveMariadb(): Promise<Served> {
  const server = await startMariadb();
  await server.sql(`CREATE DATABASE shop; USE shop; CREATE TABLE people (id int PRIMARY KEY, name varchar(40), age int);
    INSERT INTO people SELECT seq, CONCAT('person number ', seq), seq % 90 FROM seq_1_to_${ROWS};
    CREATE USER agent IDENTIFIED BY '${PASSWORD}'; GRANT SELECT ON shop.* TO agent`);
  return {
    ...server,
    kind: 'mysql',
    database: 'shop',
    one: 'SELECT name FROM people WHERE id = ?',
    many: 'SELECT * FROM people LIMIT 10000',
    huge: ["SELECT REPEAT('x', 15000000), REPEAT('x', 15000000)", 'SELECT seq FROM seq_1_to_10000000'],
    holding: "SELECT GET_LOCK('bench', 0), SLEEP(60)",
    waiting: "SELECT GET_LOCK('bench', 60), RELEASE_LOCK('bench')",
    isHeld: "SELECT COALESCE(IS_USED_LOCK('bench'), 0) AS held",
  };
}

async function barePg({ port, ca, database }: Served): Promise<BareDriver> {
  const ssl = { ca: readFileSync(ca, 'utf8') };
  const client = new pg.Client({ host: 'localhost', port, database, user: 'agent', password: PASSWORD, ssl });
  await client.connect();
  return {
    query: async (text, params) => (await client.query(text, [...params])).rows,
    [Symbol.asyncDispose]: () => client.end(),
  };
}

async function bareMysql2({ port, ca, database }: Served): Promise<BareDriver> {
  const ssl = { ca: readFileSync(ca, 'utf8'), verifyIdentity: true };
  const client = await mysql.createConnection({
    host: 'localhost',
    port,
    database,
    user: 'agent',
    password: PASSWORD,
    ssl,
  });
  return {
    query: async (sql, params) => (await client.execute(sql, [...params] as never))[0] as Record<string, unknown>[],
    [Symbol.asyncDispose]: () => client.end(),
  };
}

/** Sessions as the process of a connection has them, in this process, to compare with a driver in it. */
function guardedHere({ kind, port, ca, database }: Served): Driver {
  const limits = defaultLimits;
  const powers = systemPowers(silentLog);
  const at = { kind, host: 'localhost', port, database, user: 'agent', password: PASSWORD } as const;
  const login = { ...at, caPem: readFileSync(ca, 'utf8'), tls: 'verify', private: true, access: 'read' } as const;
  const connector = new Connector({ login, resolve: async () => ['127.0.0.1'], limits, powers });
  const parts = { connector, limits, powers };
  const open = () => (kind === 'mysql' ? MysqlSession.open(parts) : PostgresSession.open(parts));
  const pool = new SessionPool({ open, sessionsMax: limits.databaseSessionsMax });
  let id = 0;
  return {
    query: (sql, params) => {
      id += 1;
      const query = { sql, params: params as number[], maxRows: limits.databaseRowsMax };
      return pool.run(id, { what: 'query', query }, { withinMs: 30_000, session: 'bench' });
    },
    async [Symbol.asyncDispose]() {
      await pool.end();
      connector.end();
    },
  };
}

/** Measures the memory of the process that is logged in to a server, and then how long queries take. */
async function measure(bench: Context, served: Served, driver: string, bare: BareDriver): Promise<void> {
  const { kind, port, ca, database, one, many, huge } = served;
  const source = { kind, host: 'localhost', port, database, user: 'agent', secret: 'db', ca, private: true };
  await using daemon = await startDaemon({ config: { databases: { bench: source } } });
  await runCli(daemon, ['secret', 'set', 'db'], { stdin: PASSWORD });
  await using client = await daemon.connect();
  await using guarded = guardedHere(served);
  writeFileSync(join(daemon.workspace, 'note'), 'hop');
  const hop = () => dataOf(client.call('file_read', { path: 'note' }, { cache: false }));
  const query = (sql: string, params: readonly number[]) =>
    client.call('database_query', { connection: 'bench', sql, params: [...params], maxRows: 10_000 });
  const turns = { rounds: bench.size(2, 20), times: bench.size(1, 20), warmRounds: bench.size(1, 10) };

  await dataOf(query(one, [7]));
  const process = serverProcessOf(daemon.pid);
  const idle = peakMemoryOf(process);
  for (const it of huge) {
    const result = await query(it, []);
    if (result.success && !result.data.truncated) throw new Error(`all of a result came: ${it}`);
  }
  const grown = peakMemoryOf(process) - idle;
  bench.value(`memory of the process of ${kind} beyond idle, whatever the result`, grown, 'MiB', { most: 64 });

  const bareOne = `bare ${driver}, one row`;
  const bareAndHop = `bare ${driver} and a call`;
  const guardedOne = `guarded ${kind} in the same process, one row`;
  const calledOne = `database_query at ${kind}, one row`;
  const single = await inTurns(
    {
      [bareOne]: () => bare.query(one, [7]),
      [bareAndHop]: async () => {
        await bare.query(one, [7]);
        await hop();
      },
      [guardedOne]: () => guarded.query(one, [7]),
      [calledOne]: () => dataOf(query(one, [7])),
    },
    turns,
  );
  bench.times(single, { over: bareOne, goals: { [guardedOne]: { ratio: 2.5 } } });
  bench.beside(`${calledOne}, beside a call`, single[calledOne] ?? [], {
    name: bareAndHop,
    taken: single[bareAndHop] ?? [],
  });

  const bareMany = `bare ${driver}, 10 000 rows`;
  const guardedMany = `guarded ${kind} in the same process, 10 000 rows`;
  const calledMany = `database_query at ${kind}, 10 000 rows`;
  const all = await inTurns(
    {
      [bareMany]: () => bare.query(many, []),
      [guardedMany]: () => guarded.query(many, []),
      [calledMany]: () => dataOf(query(many, [])),
    },
    { ...turns, times: bench.size(1, 5) },
  );
  bench.times(all, { over: bareMany, goals: { [guardedMany]: { ratio: 1.5 } } });
  await measureCancel(bench, served, bare, (signal) =>
    client.call('database_query', { connection: 'bench', sql: served.holding }, { signal }),
  );
}

/** Measures how long a statement goes on after its call was cancelled: until the server gives its lock to another one. */
async function measureCancel(
  bench: Context,
  { kind, isHeld, waiting }: Served,
  bare: BareDriver,
  call: (signal: AbortSignal) => Promise<unknown>,
): Promise<void> {
  const [answered, ended]: [number[], number[]] = [[], []];
  for (let round = 0; round < bench.size(2, 20); round++) {
    const control = new AbortController();
    const running = call(control.signal);
    await until(async () => Number((await bare.query(isHeld, []))[0]?.held) > 0);
    const free = bare.query(waiting, []);
    await setTimeout(20);
    const from = performance.now();
    control.abort();
    await Promise.all([
      running.then(() => answered.push(performance.now() - from)),
      free.then(() => ended.push(performance.now() - from)),
    ]);
  }
  bench.value(`cancel at ${kind}, until the caller knows`, median(answered), 'ms');
  bench.value(`cancel at ${kind}, until the statement has ended`, median(ended), 'ms', { most: 100 });
}

export default defineBench({
  title: 'Database servers',
  question: 'What does a guarded query cost beyond the bare driver, in time and memory?',
  async run(bench) {
    if (missingPostgres) bench.skip('PostgreSQL', missingPostgres);
    else {
      await using served = await servePostgres();
      await using bare = await barePg(served);
      await measure(bench, served, 'pg', bare);
    }
    if (missingMariadb) bench.skip('MariaDB', missingMariadb);
    else {
      await using served = await serveMariadb();
      await using bare = await bareMysql2(served);
      await measure(bench, served, 'mysql2', bare);
    }
  },
});
