/** PostgreSQL connections of a real daemon, at a real server: values, bounds, rights, cancel, what is recorded. */

import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Client, ToolResult } from '../../src/client/client.ts';
import { beginCli, endOf, runCli } from '../support/cli.ts';
import { dataOf, type OpenDaemon, openDaemon, processesWith, until } from '../support/daemon.ts';
import { missingPostgres, startPostgres, type TestPostgres } from '../support/postgres.ts';

const PASSWORD = 'password-canary-8261';
const SETUP = `
  CREATE TABLE users (id int PRIMARY KEY, name text UNIQUE, paid numeric(12,2), CHECK (id > 0));
  INSERT INTO users SELECT i, 'row-canary-' || i, i FROM generate_series(1, 2000) i;
  CREATE TABLE hidden (secret text);
  CREATE INDEX users_paid ON users (paid, lower(name));
  ANALYZE;
  CREATE ROLE reader LOGIN PASSWORD '${PASSWORD}';
  CREATE ROLE writer LOGIN PASSWORD '${PASSWORD}';
  ALTER ROLE writer SET temp_file_limit = '1GB';
  CREATE ROLE boss LOGIN SUPERUSER PASSWORD '${PASSWORD}';
  CREATE ROLE climber LOGIN PASSWORD '${PASSWORD}' NOINHERIT;
  GRANT pg_execute_server_program TO climber;
  GRANT SELECT ON users TO reader;
  GRANT SELECT, INSERT, UPDATE, DELETE ON users TO writer`;

let server: TestPostgres;
let daemon: OpenDaemon;
let agent: Client;
let operator: Client;

const ask = (tool: string, input: object, options = {}) =>
  agent.call(tool, input as never, options) as Promise<ToolResult<Record<string, unknown>>>;
const query = (connection: string, sql: string, more: object = {}) =>
  ask('database_query', { connection, sql, ...more });
const codeOf = async (asked: Promise<ToolResult>) => {
  const result = await asked;
  return result.success ? 'ok' : result.error.code;
};
const rowsOf = async (connection: string, sql: string, more: object = {}) =>
  (await dataOf(query(connection, sql, more))).rows;
const activity = (user: string) =>
  server.sql(`SELECT query FROM pg_stat_activity WHERE usename = '${user}' AND state = 'active'`);

/** Answers the next question. */
async function answerNext(decision: 'approve' | 'deny') {
  for await (const it of operator.notifications(['approvals'])) {
    if (it.method !== 'approval.requested') continue;
    const { approval } = it.params as { approval: { approvalId: string; diff?: string; effects: object[] } };
    await operator.request('approvals.resolve', { approvalId: approval.approvalId, decision });
    return approval;
  }
  throw new Error('no question came');
}

describe.skipIf(missingPostgres !== undefined)(`PostgreSQL${missingPostgres ? ` (${missingPostgres})` : ''}`, () => {
  beforeAll(async () => {
    server = await startPostgres();
    await server.sql(SETUP);
    const at = { kind: 'postgres', host: '127.0.0.1', port: server.port, database: 'postgres', private: true };
    const secure = { ...at, ca: server.ca, secret: 'db' };
    daemon = await openDaemon({
      config: {
        databases: {
          app: { ...secure, user: 'reader' },
          named: { ...secure, user: 'reader', host: 'localhost' },
          plain: { ...at, user: 'reader', secret: 'db', tls: 'off' },
          rw: { ...secure, user: 'writer', access: 'write' },
          boss: { ...secure, user: 'boss' },
          climber: { ...secure, user: 'climber' },
          stranger: { ...at, user: 'reader', secret: 'db' },
          public: { ...secure, user: 'reader', host: 'localhost', private: false },
          wrong: { ...secure, user: 'reader', secret: 'wrong' },
          missing: { ...secure, user: 'reader', secret: 'nothing' },
          cheap: { ...secure, user: 'reader', maxCost: 5 },
          gone: { ...secure, user: 'reader', port: 1 },
        },
      },
      limits: { databaseIdleMs: 60_000 },
    });
    await runCli(daemon, ['secret', 'set', 'db'], { stdin: PASSWORD });
    await runCli(daemon, ['secret', 'set', 'wrong'], { stdin: 'nonsense' });
    agent = await daemon.connect();
    operator = await daemon.connect({ role: 'operator' });
  });
  afterAll(async () => {
    await agent?.[Symbol.asyncDispose]();
    await operator?.[Symbol.asyncDispose]();
    await daemon?.[Symbol.asyncDispose]();
    await server?.[Symbol.asyncDispose]();
  });

  describe('a connection that reads', () => {
    test('gives rows with their types, and is of tier read_only', async () => {
      const result = await query('app', 'SELECT id, name, paid FROM users WHERE id = $1', { params: [7] });
      expect(result).toMatchObject({
        success: true,
        data: {
          columns: [
            { name: 'id', type: 'integer' },
            { name: 'name', type: 'text' },
            { name: 'paid', type: 'numeric' },
          ],
          rows: [[7, 'row-canary-7', '7.00']],
          rowCount: 1,
          truncated: false,
        },
        metadata: { tier: 'read_only', undo: 'none' },
      });
      for (const name of ['named', 'plain']) expect(await rowsOf(name, 'SELECT 1')).toEqual([[1]]);
    });

    test('loses nothing of a value', async () => {
      const sql = `SELECT true, NULL, 1.10::numeric, 12345678901234567890.5::numeric, 9007199254740993, 'NaN'::float8,
        '-Infinity'::float4, 0.1::float8, '\\x00ff'::bytea, '2024-02-29'::date, ARRAY[[1, 2], [3, NULL]],
        '1 day 02:00'::interval, 'infinity'::timestamp, 'NaN'::numeric, '{"a": 1}'::jsonb, point(1, 2), ''`;
      expect(await rowsOf('app', sql)).toEqual([
        [
          ...[true, null, '1.10', '12345678901234567890.5', '9007199254740993', 'NaN', '-Infinity', 0.1, 'AP8='],
          ...['2024-02-29', '{{1,2},{3,NULL}}', '1 day 02:00:00', 'infinity', 'NaN', '{"a": 1}', '(1,2)', ''],
        ],
      ]);
      const params = ['9007199254740993', 1.5, true, null, 'ü\u{1f600}'];
      const typed = 'SELECT $1::bigint, $2::numeric, $3::boolean, $4::text, $5::text';
      expect(await rowsOf('app', typed, { params })).toEqual([['9007199254740993', '1.5', true, null, 'ü\u{1f600}']]);
    });

    test('shows the tables and indexes that the user may read, and plans', async () => {
      const data = await dataOf(ask('database_schema', { connection: 'app' }));
      expect(data.rows).toEqual([
        ['users', 'table', 'id', 'integer', 1, 1, null, null],
        ['users', 'table', 'name', 'text', 0, 0, null, null],
        ['users', 'table', 'paid', 'numeric(12,2)', 0, 0, null, null],
      ]);
      expect(data.indexes).toContainEqual({
        table: 'users',
        name: 'users_paid',
        unique: false,
        columns: ['paid', null],
      });
      expect(await codeOf(ask('database_schema', { connection: 'app', table: 'hidden' }))).toBe('NOT_FOUND');
      const plan = await dataOf(ask('database_explain', { connection: 'app', sql: 'SELECT * FROM users' }));
      expect(JSON.stringify(plan.rows)).toContain('Seq Scan on users');
    });

    test('cuts rows, bytes and cells, and says so', async () => {
      const many = 'SELECT i FROM generate_series(1, 50000) i';
      expect(await dataOf(query('app', many, { maxRows: 10 }))).toMatchObject({
        rowCount: 10,
        truncated: true,
        truncatedBy: 'rows',
      });
      const wide = "SELECT repeat('x', 1000) FROM generate_series(1, 50000)";
      const cut = await dataOf(query('app', wide, { maxRows: 10_000 }));
      expect(cut).toMatchObject({ truncated: true, truncatedBy: 'bytes' });
      expect(cut.rowCount as number).toBeGreaterThan(500);
      expect(await codeOf(query('app', "SELECT repeat('x', 200000000)"))).toBe('OUTPUT_LIMIT');
      await until(async () => (await activity('reader')).length === 0);
      expect(await codeOf(query('app', 'SELECT 1'))).toBe('ok');
    });

    test('the database estimates what a statement costs, and one above the limit is COST_LIMIT', async () => {
      const cross = 'SELECT count(*) FROM users a, users b, users c';
      expect(await query('app', cross)).toMatchObject({
        success: false,
        error: { code: 'COST_LIMIT', message: expect.stringMatching(/costs \d+, and the connection allows 10000000/) },
      });
      expect(await codeOf(query('cheap', 'SELECT * FROM users'))).toBe('COST_LIMIT');
      expect(await codeOf(query('cheap', 'SELECT 1'))).toBe('ok');
    });

    test.each([
      ['SELECT nowhere FROM users', 'INPUT_INVALID', /column "nowhere" does not exist/],
      ['SELECT * FROM hidden', 'ACCESS_DENIED', /no right/],
      ['SELECT name::int FROM users', 'INPUT_INVALID', /can not be read as its type/],
      ['SELECT 1 / (id - 1) FROM users', 'INPUT_INVALID', /divides by zero/],
      ['SELECT $1::int', 'INPUT_INVALID', /parameter/],
      ['-- nothing', 'INPUT_INVALID', /syntax error/],
    ])('says why %s fails, without a value of a row', async (sql, code, message) => {
      const result = await query('app', sql);
      expect(result).toMatchObject({ success: false, error: { code, message: expect.stringMatching(message) } });
      expect(JSON.stringify(result)).not.toContain('row-canary');
    });
  });

  describe('the connection itself', () => {
    test.each([
      ['boss', 'UNSUPPORTED', /rights beyond its database.*boss \(superuser\)/],
      ['climber', 'UNSUPPORTED', /pg_execute_server_program/],
      ['stranger', 'UPSTREAM_FAILED', /could not be verified/],
      ['public', 'ACCESS_DENIED', /refused/],
      ['wrong', 'AUTH_REQUIRED', /does not let `reader` in/],
      ['missing', 'AUTH_REQUIRED', /secret `nothing` is not configured/],
      ['gone', 'UPSTREAM_FAILED', /ECONNREFUSED/],
    ])('%s is refused with %s', async (name, code, message) => {
      const result = await query(name, 'SELECT 1');
      expect(result).toMatchObject({ success: false, error: { code, message: expect.stringMatching(message) } });
      expect(JSON.stringify(result)).not.toContain(PASSWORD);
    });

    test('takes a secret that was replaced', async () => {
      await runCli(daemon, ['secret', 'set', 'wrong'], { stdin: PASSWORD });
      expect(await rowsOf('wrong', 'SELECT 1')).toEqual([[1]]);
    });

    test('keeps the password out of hosts, command lines and environments', async () => {
      await query('app', 'SELECT 1');
      const uses = processesWith(daemon.stateDir).concat(processesWith('workers/database/process'));
      expect(uses.length).toBeGreaterThan(0);
      for (const pid of uses)
        for (const file of ['cmdline', 'environ']) {
          const path = `/proc/${pid}/${file}`;
          if (existsSync(path)) expect(readFileSync(path, 'latin1')).not.toContain(PASSWORD);
        }
    });
  });

  test('a statement that is cancelled ends at the server', async () => {
    const control = new AbortController();
    const sleeping = query('app', 'SELECT pg_sleep(60)', {});
    const running = ask(
      'database_query',
      { connection: 'app', sql: 'SELECT pg_sleep(50)' },
      { signal: control.signal },
    );
    await until(async () => (await activity('reader')).length === 2);
    control.abort();
    expect(await codeOf(running)).toBe('CANCELLED');
    await until(async () => (await activity('reader')).length === 1);
    await server.sql("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE usename = 'reader'");
    expect(await codeOf(sleeping)).toBe('TIMEOUT');
    const late = await ask('database_query', { connection: 'app', sql: 'SELECT pg_sleep(60)' }, { timeoutMs: 500 });
    expect(late).toMatchObject({ success: false, error: { code: 'TIMEOUT' } });
    await until(async () => (await activity('reader')).length === 0);
    expect(await codeOf(query('app', 'SELECT 1'))).toBe('ok');
  });

  test('a call leaves nothing for the next one', async () => {
    await query('app', "SELECT pg_advisory_lock(7), set_config('search_path', 'evil', false)");
    // The session is cleaned up when the answer is on its way.
    const locks = () => server.sql("SELECT count(*)::int FROM pg_locks WHERE locktype = 'advisory'");
    await until(async () => (await locks())[0]?.[0] === 0);
    expect(await rowsOf('app', "SELECT current_setting('search_path')")).toEqual([['"$user", public']]);
  });

  describe('a connection that writes', () => {
    test('asks a person, who sees how many rows it is about, and commits', async () => {
      const asked = answerNext('approve');
      const result = await query('rw', 'UPDATE users SET paid = $1 WHERE id < 11', { params: [5] });
      expect(result).toMatchObject({
        success: true,
        data: { changes: 10, rows: [] },
        metadata: { tier: 'external_api', undo: 'none' },
      });
      expect((await asked).diff).toMatch(/Update on users: about \d+ rows/);
      expect(await server.sql('SELECT count(*)::int FROM users WHERE paid = 5')).toEqual([[10]]);
    });

    test('changes nothing without a yes', async () => {
      const asked = answerNext('deny');
      expect(await codeOf(query('rw', 'DELETE FROM users'))).toBe('APPROVAL_DENIED');
      await asked;
      expect(await server.sql('SELECT count(*)::int FROM users')).toEqual([[2000]]);
    });

    test.each([
      ["INSERT INTO users (id, name) VALUES (-1, 'x')", 'CONFLICT', /check of the table/],
      ["INSERT INTO users (id, name) VALUES (9000, 'row-canary-1')", 'CONFLICT', /unique.*users_name_key/],
      ['SELECT * INTO copied FROM users', 'INPUT_INVALID', /./],
      ['CREATE TABLE t AS SELECT 1', 'INPUT_INVALID', /syntax error/],
    ])('%s changes nothing', async (sql, code, message) => {
      const asked = answerNext('approve').catch(() => {});
      const result = await query('rw', sql);
      expect(result).toMatchObject({ success: false, error: { code, message: expect.stringMatching(message) } });
      expect(JSON.stringify(result)).not.toContain('row-canary-1"');
      await Promise.race([asked, Promise.resolve()]);
      expect(await server.sql("SELECT to_regclass('copied'), count(*)::int FROM users")).toEqual([[null, 2000]]);
    });
  });

  test('the record holds statements, and no parameters, rows or passwords', async () => {
    await query('app', 'SELECT name, $1::text FROM users LIMIT 3', { params: ['param-canary'] });
    const { entries } = (await operator.request('audit.query', { tool: 'database_query' })) as { entries: object[] };
    const text = JSON.stringify(entries);
    expect(text).toContain('"sql":"SELECT name, $1::text FROM users LIMIT 3","params":["[redacted]"]');
    expect(text).toContain(`{"kind":"connect","target":"127.0.0.1:${server.port}"}`);
    expect(text).not.toMatch(/row-canary-\d+"|param-canary/);
    // The password is where the person put it, and nowhere else.
    const found = execFileSync('sh', ['-c', `grep -rlF ${PASSWORD} . || true`], { cwd: daemon.stateDir }).toString();
    expect(found.trim().split('\n').sort()).toEqual(['./secrets/db.secret', './secrets/wrong.secret']);
    expect(daemon.log()).not.toContain(PASSWORD);
  });

  test('doctor says which roles may fill the disk of the server with temporary files', async () => {
    const env = { RINGFENCE_CONFIG: join(daemon.stateDir, 'config.yaml') };
    const { stdout } = await runCli(daemon, ['doctor', '--json'], { env });
    const { findings } = JSON.parse(stdout) as { findings: { id: string }[] };
    expect(findings.find((it) => it.id === 'databases')).toEqual({
      id: 'databases',
      status: 'warning',
      found: "temp_file_limit is -1 for reader: one sort may fill the server's disk",
      fix: `As a superuser of the server: ALTER ROLE "reader" SET temp_file_limit = '1GB';`,
    });
  });

  test('the command line adds, lists, checks and removes a connection, and ends a query by Ctrl-C', async () => {
    const at = ['--host', '127.0.0.1', '--port', String(server.port), '--database', 'postgres', '--user', 'reader'];
    const safe = ['--secret', 'db', '--ca', server.ca, '--private'];
    const added = await runCli(daemon, ['database', 'add', 'stored', '--kind', 'postgres', ...at, ...safe]);
    expect(added.stderr + added.stdout).toContain(
      `stored stored  postgres  reader@127.0.0.1:${server.port}/postgres  tls verify  secret db  read  (state)`,
    );
    expect((await runCli(daemon, ['database', 'list'])).stdout).toContain('stored  postgres  reader@');
    expect((await runCli(daemon, ['database', 'check', 'stored'])).stdout).toContain('users');
    const asked = await runCli(daemon, ['query', 'stored', 'SELECT id, paid FROM users WHERE id = 20']);
    expect(asked.stdout).toBe('id   paid\n--  -----\n20  20.00\n');
    const running = beginCli(daemon, ['query', 'stored', 'SELECT pg_sleep(60)']);
    await until(async () => (await activity('reader')).length === 1);
    running.kill('SIGINT');
    expect(await endOf(running)).not.toBe(0);
    await until(async () => (await activity('reader')).length === 0);
    expect((await runCli(daemon, ['database', 'remove', 'stored'])).code).toBe(0);
    const unsafe = await runCli(daemon, ['database', 'add', 'x', '--kind', 'postgres', ...at, '--tls', 'off']);
    expect(unsafe).toMatchObject({ code: 2, stderr: expect.stringContaining('--tls') });
  });
});
