/** Statements that try to write, to read outside or to stay, at a real PostgreSQL server, and servers that lie. */
import { existsSync, readFileSync } from 'node:fs';
import { createServer, type Server, type Socket } from 'node:net';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { defaultLimits } from '../../src/base/limits.ts';
import { systemPowers } from '../../src/base/powers.ts';
import type { Client } from '../../src/client/client.ts';
import type { ServerLogin } from '../../src/services/databases/messages.ts';
import { Connector } from '../../workers/database/connector.ts';
import { PostgresSession } from '../../workers/database/postgres/session.ts';
import { Refused } from '../../workers/sqlite/refusals.ts';
import { runCli } from '../support/cli.ts';
import { startDaemon, type TestDaemon, until } from '../support/daemon.ts';
import { peakMemoryOf, serverProcessOf } from '../support/database-server.ts';
import { missingPostgres, startPostgres, type TestPostgres } from '../support/postgres.ts';
import { NO_ROLES, postgresMessage, WELCOME } from '../support/postgres-messages.ts';

const powers = systemPowers();
const limits = { ...defaultLimits, egressConnectMs: 5_000, databaseEndMs: 200 };
const BASE = { kind: 'postgres', host: '127.0.0.1', database: 'postgres', tls: 'off', private: true } as const;

function open(login: Partial<ServerLogin> & { port: number }, bounds = limits) {
  const whole: ServerLogin = { ...BASE, user: 'reader', password: 'pw', access: 'read', ...login };
  const connector = new Connector({ login: whole, resolve: async () => [], limits: bounds, powers });
  return PostgresSession.open({ connector, limits: bounds, powers });
}

const codeOf = async (work: Promise<unknown>): Promise<string> => {
  try {
    await work;
    return 'ok';
  } catch (error) {
    if (error instanceof Refused) return error.refusal.code;
    throw error;
  }
};

/** Statements that are no queries, or hold one. OUT stands for a file that must not come to be. */
const STATEMENTS = [
  "COPY users TO PROGRAM 'touch OUT'",
  "COPY (SELECT 1) TO 'OUT'",
  "COPY users FROM PROGRAM 'touch OUT'",
  'COPY users TO STDOUT',
  'COPY users FROM STDIN',
  'SET TRANSACTION READ WRITE',
  'SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE',
  'SET ROLE postgres',
  'RESET ALL',
  "DO $$ BEGIN EXECUTE 'DELETE FROM users'; END $$",
  'COMMIT',
  'commit;',
  'ROLLBACK',
  'BEGIN',
  'END',
  'SAVEPOINT s',
  "PREPARE TRANSACTION 'x'",
  'PREPARE p AS DELETE FROM users',
  'EXECUTE p',
  'DEALLOCATE ALL',
  'LISTEN x',
  'NOTIFY x',
  'LOCK TABLE users',
  'VACUUM',
  'CHECKPOINT',
  "LOAD 'x'",
  'CREATE TABLE t (a int)',
  'CREATE TEMP TABLE t (a int)',
  'CREATE TABLE t AS SELECT 1',
  'CREATE EXTENSION dblink',
  "CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'",
  'DROP TABLE users',
  'TRUNCATE users',
  'ALTER SYSTEM SET work_mem = 1',
  'GRANT ALL ON users TO PUBLIC',
  'SELECT 1 INTO t',
  'SELECT * INTO TEMP t FROM users',
  'EXPLAIN ANALYZE DELETE FROM users',
  'ANALYZE DELETE FROM users',
  '(ANALYZE) DELETE FROM users',
  'FETCH 1 FROM ringfence_rows',
  'CLOSE ALL',
  'DECLARE c CURSOR WITH HOLD FOR SELECT 1',
  'CALL p()',
  'SHOW data_directory',
  'SELECT 1; DELETE FROM users',
  'SELECT 1; COMMIT; DELETE FROM users',
  '; DELETE FROM users',
  'SELECT 1 -- \n; DELETE FROM users',
  'SELECT 1 /* */; DELETE FROM users; /*',
  "SELECT '\\'; DELETE FROM users; --'",
  'SELECT 1) x; DELETE FROM users; --',
  'SELECT 1 FOR UPDATE; COMMIT',
  '',
  ';',
];

/** Changes, which only connections that write may make. */
const CHANGES = [
  'INSERT INTO users VALUES (99)',
  'UPDATE users SET id = id + 100',
  'DELETE FROM users',
  'WITH d AS (DELETE FROM users RETURNING *) SELECT * FROM d',
  'MERGE INTO users u USING (SELECT 1 AS a) s ON u.id = s.a WHEN MATCHED THEN DELETE',
  'SELECT * FROM users FOR UPDATE',
];

/** Queries that call what reaches beyond reading. PORT stands for the server's own. */
const CALLS = [
  "SELECT pg_read_file('/etc/passwd')",
  "SELECT pg_read_binary_file('postgresql.conf')",
  "SELECT pg_ls_dir('/')",
  "SELECT pg_stat_file('/etc/passwd')",
  "SELECT lo_import('/etc/passwd')",
  "SELECT lo_export(1, 'OUT')",
  'SELECT lo_create(4711)',
  "SELECT lo_from_bytea(4711, 'x')",
  "SELECT nextval('numbers')",
  "SELECT setval('numbers', 500)",
  "SELECT set_config('transaction_read_only', 'off', true)",
  "SELECT set_config('role', 'postgres', true)",
  "SELECT set_config('session_authorization', 'postgres', true)",
  "SELECT query_to_xml('DELETE FROM users', true, true, '')",
  "SELECT query_to_xml('COPY users TO PROGRAM ''touch OUT''', true, true, '')",
  "SELECT set_config('role', 'postgres', true), query_to_xml('SELECT pg_read_file(''/etc/passwd'')', true, true, '')",
  "SELECT pg_notify('x', 'y')",
  'SELECT pg_reload_conf()',
  'SELECT pg_rotate_logfile()',
  "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename <> 'reader'",
  'SELECT pg_advisory_lock(1)',
  'SELECT pg_try_advisory_lock_shared(2)',
  "SELECT dblink_exec('host=127.0.0.1 port=PORT dbname=postgres', 'DELETE FROM users')",
  "SELECT dblink_exec('dbname=postgres', 'DELETE FROM users')",
  "SELECT dblink_exec('host=127.0.0.1 port=PORT dbname=postgres user=postgres password=x', 'DELETE FROM users')",
  "SELECT * FROM dblink('host=127.0.0.1 port=PORT dbname=postgres', 'DELETE FROM users RETURNING id') t(id int)",
  "SELECT dblink_connect('x', 'host=127.0.0.1 port=PORT dbname=postgres')",
  "SELECT dblink_connect_u('x', 'host=127.0.0.1 port=PORT dbname=postgres')",
  'SELECT sneaky()',
  'SELECT sneaky_temp()',
  "SELECT pg_create_restore_point('x')",
  "SELECT pg_create_physical_replication_slot('x')",
];

describe.skipIf(missingPostgres !== undefined)(`PostgreSQL${missingPostgres ? ` (${missingPostgres})` : ''}`, () => {
  let server: TestPostgres;
  let out: string;
  let before: unknown;
  const state = () =>
    server.sql(`SELECT (SELECT json_agg(id ORDER BY id) FROM users), (SELECT last_value FROM numbers),
      (SELECT count(*)::int FROM pg_largeobject_metadata), (SELECT count(*)::int FROM pg_class),
      (SELECT count(*)::int FROM pg_proc), (SELECT count(*)::int FROM pg_prepared_xacts),
      (SELECT count(*)::int FROM pg_replication_slots), (SELECT count(*)::int FROM pg_locks WHERE locktype = 'advisory'),
      (SELECT array_agg(relacl::text) FROM pg_class WHERE relname = 'users')`);

  beforeAll(async () => {
    server = await startPostgres();
    out = join(server.folder, 'out');
    await server.sql(`CREATE EXTENSION dblink; CREATE TABLE users (id int); INSERT INTO users VALUES (1), (2); CREATE SEQUENCE numbers;
      CREATE ROLE reader LOGIN PASSWORD 'pw'; CREATE ROLE writer LOGIN PASSWORD 'pw';
      CREATE FUNCTION sneaky() RETURNS void LANGUAGE sql SECURITY DEFINER AS 'DELETE FROM users';
      CREATE FUNCTION sneaky_temp() RETURNS void LANGUAGE plpgsql
        AS $f$ BEGIN EXECUTE 'CREATE TEMP TABLE kept (a int); PREPARE kept AS SELECT 1'; END $f$;
      GRANT ALL ON users, numbers TO reader, writer; GRANT ALL ON SCHEMA public TO reader, writer`);
    before = await state();
  });
  afterAll(() => server?.[Symbol.asyncDispose]());

  /** Runs statements one after the other, each as a call. */
  async function attack(login: Partial<ServerLogin>, statements: readonly string[]) {
    let session = await open({ port: server.port, ...login });
    const codes = new Map<string, string>();
    for (const text of statements) {
      const sql = text.replaceAll('OUT', out).replaceAll('PORT', String(server.port));
      if (!session.isUsable) session = await open({ port: server.port, ...login });
      codes.set(text, await codeOf(session.run({ what: 'query', query: { sql, params: [], maxRows: 10 } }, 2_000)));
      await session.reset();
      await codeOf(session.run({ what: 'explain', query: { sql, params: [], maxRows: 10 } }, 2_000));
      await session.reset();
    }
    session.end();
    expect(await state()).toEqual(before);
    expect(existsSync(out)).toBe(false);
    return codes;
  }

  test('a reading connection takes nothing but queries', async () => {
    const codes = await attack({}, [...STATEMENTS, ...CHANGES]);
    expect([...codes].filter(([, code]) => code === 'ok')).toEqual([]);
  });

  test('functions write nothing, read nothing outside, and leave nothing', async () => {
    const codes = await attack({}, CALLS);
    const passed = [...codes].filter(([, code]) => code === 'ok').map(([sql]) => sql);
    // These do what they may, and all of it ends with the call.
    const harmless = /pg_notify|advisory|lo_create|lo_from_bytea|sneaky_temp|pg_terminate_backend/;
    expect(passed.filter((it) => !harmless.test(it))).toEqual([]);
  });

  test('a writing connection takes changes, and nothing else', async () => {
    const codes = await attack({ user: 'writer', access: 'write' }, STATEMENTS);
    expect([...codes].filter(([, code]) => code === 'ok')).toEqual([]);
    const into = 'WITH d AS (INSERT INTO users VALUES (5) RETURNING *) SELECT * INTO t FROM d';
    expect([...(await attack({ user: 'writer', access: 'write' }, [into])).values()]).not.toContain('ok');
  });

  test('functions that write to the log of the server past a rollback are refused, however they are named', async () => {
    const log = async () => Number((await server.sql("SELECT pg_current_wal_lsn() - '0/0'::pg_lsn"))[0]?.[0]);
    const [many, large] = ['FROM generate_series(1, 20)', "repeat('y', 1000000)"];
    const start = await log();
    const codes = await attack({}, [
      `SELECT count(pg_logical_emit_message(false, 'x', ${large})) ${many}`,
      `SELECT count(PG_CATALOG . /**/ PG_Logical_Emit_Message(false, 'x', ${large})) ${many}`,
      `SELECT count(U&"pg_logical\\005femit_message"(false, 'x', ${large})) ${many}`,
      `SELECT query_to_xml('SELECT pg_logical' || '_emit_message(false, ''x'', ${large.replaceAll("'", "''")})', true, true, '') ${many}`,
      `SELECT * FROM ts_stat('SELECT to_tsvector(pg_logical' || '_emit_message(false, ''x'', ''y'')::text)')`,
      `SELECT count(lo_from_bytea(0, convert_to(${large}, 'UTF8'))) ${many}`,
    ]);
    expect([...codes.values()].filter((it) => it !== 'ACCESS_DENIED')).toEqual([]);
    expect((await log()) - start).toBeLessThan(1_000_000);
  });

  test('explaining and estimating write nothing, of a connection that writes either', async () => {
    await server.sql(`CREATE FUNCTION folded() RETURNS int LANGUAGE plpgsql IMMUTABLE
      AS $f$ BEGIN PERFORM nextval('numbers'); RETURN 1; END $f$`);
    const session = await open({ port: server.port, user: 'writer', access: 'write' });
    for (const what of ['explain', 'estimate'] as const)
      for (const sql of ['SELECT * FROM users WHERE id = folded()', 'DELETE FROM users WHERE id = folded()'])
        expect(await codeOf(session.run({ what, query: { sql, params: [], maxRows: 10 } }, 2_000))).not.toBe('ok');
    session.end();
    await server.sql('DROP FUNCTION folded');
    expect(await state()).toEqual(before);
  });

  test.each(['postgres'])('%s, a superuser, is let do nothing', async (user) => {
    expect(await codeOf(open({ port: server.port, user, password: server.password }))).toBe('UNSUPPORTED');
    await server.sql(`CREATE ROLE heir LOGIN PASSWORD 'pw' NOINHERIT; GRANT postgres TO heir`);
    expect(await codeOf(open({ port: server.port, user: 'heir' }))).toBe('UNSUPPORTED');
  });

  test('a role that became a superuser after its login is let do no more', async () => {
    await server.sql("CREATE ROLE late LOGIN PASSWORD 'pw'");
    let session: PostgresSession | undefined;
    const passed: string[] = [];
    for (const text of [...STATEMENTS, ...CHANGES]) {
      if (!session?.isUsable) {
        await server.sql('ALTER ROLE late NOSUPERUSER');
        session = await open({ port: server.port, user: 'late' });
        await server.sql('ALTER ROLE late SUPERUSER');
      }
      const query = { sql: text.replaceAll('OUT', out), params: [], maxRows: 10 };
      if ((await codeOf(session.run({ what: 'query', query }, 2_000))) === 'ok') passed.push(text);
      await session.reset();
    }
    session?.end();
    expect(passed).toEqual([]);
    expect(existsSync(out)).toBe(false);
    await server.sql('DROP ROLE late');
    expect(await state()).toEqual(before);
  });

  test('a lock of others is waited for briefly, and a cross join is not begun', async () => {
    const session = await open({ port: server.port }, { ...limits, databaseLockMs: 100 });
    const holder = server.sql('BEGIN; LOCK TABLE users; SELECT pg_sleep(1.5); COMMIT');
    await new Promise((resolve) => setTimeout(resolve, 500));
    const run = (sql: string) =>
      codeOf(session.run({ what: 'query', query: { sql, params: [], maxRows: 10 } }, 10_000));
    expect(await run('SELECT * FROM users')).toBe('CONFLICT');
    await session.reset();
    await holder;
    const series = 'generate_series(1, 100000)';
    expect(await run(`SELECT count(*) FROM ${series} a, ${series} b, ${series} c`)).toBe('COST_LIMIT');
    session.end();
  });
});

const PASSWORD = 'password-canary-5190';

describe('a server that lies', () => {
  const sockets = new Set<Socket>();
  const received: Buffer[] = [];
  let server: Server;
  let daemon: TestDaemon;
  let agent: Client;
  let play: Buffer[] = [];
  beforeAll(async () => {
    server = createServer((socket) => {
      sockets.add(socket);
      const answers = [...play];
      socket.on('error', () => {}).on('close', () => sockets.delete(socket));
      socket.on('data', (chunk: Buffer) => {
        received.push(chunk);
        const next = answers.shift();
        if (next) socket.write(next);
      });
    });
    await new Promise<void>((ready) => void server.listen(0, '127.0.0.1', ready));
    const { port } = server.address() as { port: number };
    const source = { kind: 'postgres', host: '127.0.0.1', port, database: 'shop', user: 'agent', private: true };
    daemon = await startDaemon({
      config: {
        databases: {
          liar: { ...source, secret: 'db', tls: 'off' },
          secure: { ...source, secret: 'db', tls: 'verify' },
        },
      },
      limits: { egressConnectMs: 200, databaseEndMs: 50, databaseWireBytes: 256 * 1024 },
    });
    await runCli(daemon, ['secret', 'set', 'db'], { stdin: PASSWORD });
    agent = await daemon.connect();
  });
  afterAll(async () => {
    await agent?.[Symbol.asyncDispose]();
    await daemon?.[Symbol.asyncDispose]();
    for (const it of sockets) it.destroy();
    await new Promise((closed) => server.close(closed));
  });

  /** Asks the server something in a session of its own; gives the code. */
  async function ask(answers: Buffer[], connection = 'liar', timeoutMs = 10_000): Promise<string> {
    const closed = [...sockets].map((it) => new Promise((resolve) => it.once('close', resolve)));
    for (const it of sockets) it.end();
    await Promise.all(closed);
    play = answers;
    const result = await agent.call('database_query', { connection, sql: 'SELECT 1' }, { timeoutMs });
    expect(Buffer.concat(received.splice(0)).toString('latin1')).not.toContain(PASSWORD);
    return result.success ? 'ok' : result.error.code;
  }

  test('gets no password in the clear, and is not trusted by its word', async () => {
    const plain = postgresMessage('R', Buffer.from([0, 0, 0, 3]));
    expect(await ask([plain, WELCOME])).toBe('UPSTREAM_FAILED');
    const md5 = postgresMessage('R', Buffer.from([0, 0, 0, 5, 1, 2, 3, 4]));
    expect(await ask([md5, WELCOME])).toBe('UPSTREAM_FAILED');
    const sasl = postgresMessage('R', Buffer.concat([Buffer.from([0, 0, 0, 10]), Buffer.from('SCRAM-SHA-256\0\0')]));
    expect(await ask([sasl, WELCOME])).toBe('UPSTREAM_FAILED');
    expect(await ask([Buffer.concat([sasl, WELCOME])])).toBe('UPSTREAM_FAILED');
  });

  test('an error message without an end keeps the process busy until the call is over, and no longer', async () => {
    const endless = postgresMessage('E', Buffer.from('SERROR'));
    expect(await ask([WELCOME, endless], 'liar', 2_000)).toBe('TIMEOUT');
    const pid = serverProcessOf(daemon.pid);
    await until(() => !existsSync(`/proc/${pid}`));
    expect(await ask([Buffer.from('garbage')])).toBe('UPSTREAM_FAILED');
  });

  test('fills no memory with one message or with many', async () => {
    expect(await ask([WELCOME, NO_ROLES], 'liar', 2_000)).not.toBe('ok');
    const pid = serverProcessOf(daemon.pid);
    const before = peakMemoryOf(pid);
    const rows = Buffer.concat(Array.from({ length: 4000 }, () => postgresMessage('D', Buffer.from([0, 0]))));
    const endless = Buffer.concat(Array.from({ length: 20 }, () => rows));
    for (const answer of [
      endless,
      postgresMessage('D', Buffer.alloc(2_000_000)),
      postgresMessage('D', Buffer.alloc(1e6), 2 ** 31),
    ])
      expect(await ask([WELCOME, NO_ROLES, answer], 'liar', 2_000)).not.toBe('ok');
    expect(serverProcessOf(daemon.pid)).toBe(pid);
    expect(peakMemoryOf(pid) - before).toBeLessThan(64);
  });

  test('a PostgreSQL server without encryption gets no message where encryption is asked for', async () => {
    for (const answer of ['N', 'E', 'Sx', 'garbage'])
      expect(await ask([Buffer.from(answer)], 'secure')).toBe('UPSTREAM_FAILED');
  });

  const tag = fc.constantFrom(...'RKZTDCEN123nIAStGHWVdc!\0'.split(''));
  const body = fc.oneof(
    fc.uint8Array({ maxLength: 64 }),
    fc.string({ maxLength: 40 }).map((it) => Buffer.from(`${it}\0`)),
    fc.array(fc.integer({ min: -2, max: 70_000 }), { maxLength: 12 }).map((all) => {
      const bytes = Buffer.alloc(all.length * 4);
      for (const [at, it] of all.entries()) bytes.writeInt32BE(it, at * 4);
      return bytes;
    }),
  );
  const length = fc.oneof({ weight: 5, arbitrary: fc.constant(undefined) }, fc.integer({ min: 0, max: 0xffffffff }));
  const lie = fc
    .array(fc.tuple(tag, body, length), { minLength: 1, maxLength: 8 })
    .map((all) => Buffer.concat(all.map(([name, bytes, claimed]) => postgresMessage(name, bytes, claimed))));

  test('a PostgreSQL server that lies in any message of the login or of an answer can only fail the call', async () => {
    const streams = fc.tuple(fc.integer({ min: 0, max: 3 }), fc.array(lie, { minLength: 1, maxLength: 3 }));
    await fc.assert(
      fc.asyncProperty(streams, async ([honest, lies]) => {
        const first = [WELCOME, NO_ROLES].slice(0, honest);
        const code = await ask([...first, ...lies], 'liar', 400);
        expect(code).not.toMatch(/^(ok|INTERNAL|SANDBOX_UNAVAILABLE)$/);
      }),
      { numRuns: 150, endOnFailure: true },
    );
  }, 180_000);
});

test('the code that talks to servers makes no code of texts', () => {
  const runtime = readFileSync(new URL('../../src/base/runtime.ts', import.meta.url), 'utf8');
  expect(runtime).toContain("hostOf('database/process', '--disallow-code-generation-from-strings')");
});
