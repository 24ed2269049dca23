/** Statements that try to write, to read outside or to stay, at a real MariaDB server. */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { defaultLimits, type Limits } from '../../src/base/limits.ts';
import { systemPowers } from '../../src/base/powers.ts';
import type { ServerLogin } from '../../src/services/databases/messages.ts';
import { Connector } from '../../workers/database/connector.ts';
import { MysqlSession } from '../../workers/database/mysql/session.ts';
import { Refused } from '../../workers/sqlite/refusals.ts';
import { until } from '../support/daemon.ts';
import { missingMariadb, startMariadb, type TestMariadb } from '../support/mariadb.ts';

const powers = systemPowers();

/** Statements that are no queries, or hold one. OUT stands for a file that must not come to be. */
const STATEMENTS = [
  "SELECT * FROM users INTO OUTFILE 'OUT'",
  "SELECT 1 INTO DUMPFILE 'OUT'",
  "LOAD DATA INFILE '/etc/passwd' INTO TABLE users",
  "LOAD DATA LOCAL INFILE '/etc/passwd' INTO TABLE users",
  'SET SESSION sql_big_selects = 1',
  'SET TRANSACTION READ WRITE',
  'COMMIT',
  'commit;',
  'ROLLBACK',
  'BEGIN',
  'START TRANSACTION',
  'DO SLEEP(1)',
  'CALL p()',
  "PREPARE p FROM 'DELETE FROM users'",
  'EXECUTE p',
  "EXECUTE IMMEDIATE 'DELETE FROM users'",
  'BEGIN NOT ATOMIC DELETE FROM users; END',
  'CREATE TABLE t (a int)',
  'CREATE TEMPORARY TABLE t (a int)',
  'CREATE TABLE t AS SELECT 1',
  'CREATE DATABASE other',
  "CREATE USER x IDENTIFIED BY 'y'",
  'DROP TABLE users',
  'TRUNCATE users',
  'ALTER TABLE users ADD b int',
  'GRANT ALL ON shop.* TO reader',
  'LOCK TABLES users WRITE',
  'FLUSH TABLES',
  'HANDLER users OPEN',
  'KILL 1',
  'SHUTDOWN',
  "INSTALL SONAME 'x'",
  'ANALYZE TABLE users',
  'ANALYZE DELETE FROM users',
  'EXPLAIN DELETE FROM users',
  'USE mysql',
  'XA BEGIN "x"',
  'RENAME TABLE users TO u',
  'SELECT 1; DELETE FROM users',
  '; DELETE FROM users',
  'SELECT 1 -- \n; DELETE FROM users',
  'SELECT 1 /*! ; DELETE FROM users */',
  "/*M!100100 SELECT 1 INTO OUTFILE 'OUT' */",
  '(SELECT 1) UNION (DELETE FROM users)',
  '',
  ';',
  '-- nothing',
];
const CHANGES = [
  'INSERT INTO users VALUES (99)',
  'UPDATE users SET id = id + 100',
  'DELETE FROM users',
  'REPLACE INTO users VALUES (1)',
  'INSERT INTO users SELECT 5',
  'SELECT sneaky()',
  'SELECT NEXT VALUE FOR numbers',
  'SELECT SETVAL(numbers, 500)',
];
const CALLS = ["SELECT LOAD_FILE('/etc/passwd')", "SELECT GET_LOCK('x', 1)", 'SELECT @a := 5', 'SELECT SLEEP(0.1)'];

describe.skipIf(missingMariadb !== undefined)(`MariaDB${missingMariadb ? ` (${missingMariadb})` : ''}`, () => {
  let server: TestMariadb;
  let out: string;
  let before: unknown;
  const state = () =>
    server.sql(`SELECT (SELECT GROUP_CONCAT(id ORDER BY id) FROM shop.users), (SELECT COUNT(*) FROM information_schema.tables),
      (SELECT COUNT(*) FROM mysql.global_priv), (SELECT next_not_cached_value FROM shop.numbers), IS_USED_LOCK('x')`);
  async function ask(
    login: Partial<ServerLogin>,
    sql: string,
    bounds: Partial<Limits> = {},
    what: 'query' | 'explain' | 'estimate' = 'query',
  ): Promise<{ code: string; rows?: unknown }> {
    const limits = { ...defaultLimits, ...bounds };
    const base = {
      kind: 'mysql',
      host: 'localhost',
      port: server.port,
      database: 'shop',
      tls: 'verify',
      private: true,
    };
    const caPem = readFileSync(server.ca, 'utf8');
    const whole = { ...base, user: 'reader', password: 'pw', access: 'read', caPem, ...login } as ServerLogin;
    const connector = new Connector({ login: whole, resolve: async () => ['127.0.0.1'], limits, powers });
    try {
      const session = await MysqlSession.open({ connector, limits, powers });
      try {
        const { rows } = await session.run({ what, query: { sql, params: [], maxRows: 10 } }, 2_000);
        return { code: 'ok', rows };
      } finally {
        session.end();
      }
    } catch (error) {
      if (error instanceof Refused) return { code: error.refusal.code };
      throw error;
    } finally {
      connector.end();
    }
  }
  const passed = async (login: Partial<ServerLogin>, statements: readonly string[]) => {
    const all: string[] = [];
    for (const text of statements) {
      const { code } = await ask(login, text.replaceAll('OUT', out));
      if (code === 'ok') all.push(text);
    }
    expect(await state()).toEqual(before);
    expect(existsSync(out)).toBe(false);
    return all;
  };

  beforeAll(async () => {
    server = await startMariadb();
    out = join(server.folder, 'out');
    await server.sql(`CREATE DATABASE shop; USE shop; CREATE TABLE users (id int PRIMARY KEY); INSERT INTO users VALUES (1), (2);
      CREATE SEQUENCE numbers; CREATE FUNCTION sneaky() RETURNS int BEGIN DELETE FROM users; RETURN 1; END;
      CREATE USER reader IDENTIFIED BY 'pw'; GRANT ALL ON shop.* TO reader;
      CREATE USER filer IDENTIFIED BY 'pw'; GRANT FILE ON *.* TO filer; GRANT SELECT ON shop.* TO filer;
      CREATE USER boss IDENTIFIED BY 'pw'; GRANT ALL ON *.* TO boss WITH GRANT OPTION;
      CREATE USER spy IDENTIFIED BY 'pw'; GRANT SELECT ON mysql.* TO spy; GRANT SELECT ON shop.* TO spy`);
    before = await state();
  });
  afterAll(() => server?.[Symbol.asyncDispose]());

  test('a reading connection takes nothing but queries, even of a user who may write', async () => {
    expect(await passed({}, [...STATEMENTS, ...CHANGES])).toEqual([]);
  });

  test('explaining changes nothing, of a connection that writes either', async () => {
    await server.sql(`USE shop; CREATE TABLE log (a int) ENGINE=Aria TRANSACTIONAL=0;
      CREATE FUNCTION noted() RETURNS int BEGIN INSERT INTO log VALUES (1); RETURN 1; END;
      CREATE FUNCTION noted_for_good() RETURNS int DETERMINISTIC BEGIN INSERT INTO log VALUES (1); RETURN 1; END`);
    const evaluated = [
      'SELECT * FROM users WHERE id = (SELECT noted())',
      'SELECT * FROM (SELECT noted() AS a) t',
      'SELECT * FROM users WHERE id = noted_for_good()',
      'SELECT * FROM (SELECT NEXT VALUE FOR numbers AS a) t',
      'DELETE FROM users WHERE id = (SELECT noted())',
      'UPDATE users SET id = 5 WHERE id = noted_for_good()',
    ];
    const changes = ['DELETE FROM users WHERE id = 1', 'INSERT INTO users VALUES (9)', 'UPDATE users SET id = 7'];
    for (const access of ['read', 'write'] as const)
      for (const what of ['explain', 'estimate'] as const) {
        for (const sql of evaluated) await ask({ access }, sql, {}, what);
      }
    for (const sql of changes) {
      expect(await ask({ access: 'write' }, sql, {}, 'explain'), sql).toEqual({ code: 'UNSUPPORTED' });
      const estimated = { code: 'ok', rows: [['Change', null, null]] };
      expect(await ask({ access: 'write' }, sql, {}, 'estimate'), sql).toEqual(estimated);
    }
    const plain = await ask({ access: 'write' }, 'SELECT * FROM users', {}, 'explain');
    expect(plain).toMatchObject({ code: 'ok', rows: [expect.arrayContaining(['users'])] });
    expect(await server.sql('SELECT COUNT(*) FROM shop.log')).toEqual([[0]]);
    await server.sql('USE shop; DROP TABLE log; DROP FUNCTION noted; DROP FUNCTION noted_for_good');
    expect(await state()).toEqual(before);
  });

  test('a writing connection takes changes, and nothing else', async () => {
    expect(await passed({ access: 'write' }, STATEMENTS)).toEqual([]);
  });

  test('functions read nothing outside, and leave nothing', async () => {
    expect(await ask({}, CALLS[0] as string)).toEqual({ code: 'ok', rows: [[null]] });
    await passed({}, CALLS);
  });

  test.each(['filer', 'boss', 'spy'])('%s, a user with rights beyond the database, is let do nothing', async (user) => {
    expect(await ask({ user }, 'SELECT 1')).toEqual({ code: 'UNSUPPORTED' });
  });

  test('a certificate of another authority, and a server without one, get no password', async () => {
    const { caPem: _, ...own } = { caPem: undefined };
    expect(
      await ask({ ...own, caPem: readFileSync('/etc/ssl/certs/ca-certificates.crt', 'utf8') }, 'SELECT 1'),
    ).toEqual({
      code: 'UPSTREAM_FAILED',
    });
  });

  test('results and values are bounded, and a join of everything is not begun', async () => {
    expect(await ask({}, "SELECT REPEAT('x', 8000000)")).toEqual({ code: 'OUTPUT_LIMIT' });
    const numbers = Array.from({ length: 3 }, (_, at) => `seq_1_to_100000 s${at}`).join(', ');
    expect(await ask({}, `SELECT COUNT(*) FROM ${numbers}`)).toEqual({ code: 'COST_LIMIT' });
    expect(await ask({}, 'SELECT SLEEP(60)')).toEqual({ code: 'TIMEOUT' });
    await server.sql('SET GLOBAL max_allowed_packet = 1073741824');
    expect(await ask({}, "SELECT REPEAT('x', 200000000)")).toEqual({ code: 'OUTPUT_LIMIT' });
  });

  test('a lock of others is waited for briefly', async () => {
    const holder = server.sql('LOCK TABLES shop.users WRITE; DO SLEEP(8); UNLOCK TABLES');
    await until(async () => {
      const rows = await server.sql("SELECT id FROM information_schema.processlist WHERE info LIKE '%SLEEP(8%'");
      return rows.length > 1; // The holder, and this look for it.
    });
    expect(await ask({}, 'SELECT * FROM users', { databaseLockMs: 1_000 })).toEqual({ code: 'CONFLICT' });
    await holder;
    expect((await ask({}, 'SELECT * FROM users')).code).toBe('ok');
  });
});
