/** MariaDB connections of a real daemon, at a real server. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Client, ToolResult } from '../../src/client/client.ts';
import { beginCli, endOf, runCli } from '../support/cli.ts';
import { dataOf, type OpenDaemon, openDaemon, until } from '../support/daemon.ts';
import { missingMariadb, startMariadb, type TestMariadb } from '../support/mariadb.ts';

const PASSWORD = 'password-canary-5110';

describe.skipIf(missingMariadb !== undefined)(`MariaDB${missingMariadb ? ` (${missingMariadb})` : ''}`, () => {
  let server: TestMariadb;
  let daemon: OpenDaemon;
  let agent: Client;
  let operator: Client;
  const query = (connection: string, sql: string, more: object = {}, options = {}) =>
    agent.call('database_query', { connection, sql, ...more } as never, options) as Promise<
      ToolResult<Record<string, unknown>>
    >;
  const running = () =>
    server.sql("SELECT id FROM information_schema.processlist WHERE info LIKE '%SLEEP(5%' AND user = 'agent'");

  beforeAll(async () => {
    server = await startMariadb();
    await server.sql(`CREATE DATABASE shop; USE shop;
      CREATE TABLE users (id int PRIMARY KEY, name varchar(20) UNIQUE, paid decimal(12,2), raw blob, big bigint);
      INSERT INTO users VALUES (1, 'row-canary-1', 1.10, x'00ff', 9007199254740993), (2, 'row-canary-2', 2, NULL, 7);
      CREATE USER agent IDENTIFIED BY '${PASSWORD}'; GRANT SELECT, INSERT, UPDATE, DELETE ON shop.* TO agent`);
    const at = { kind: 'mysql', host: 'localhost', port: server.port, database: 'shop', user: 'agent', secret: 'db' };
    const secure = { ...at, private: true, ca: server.ca };
    daemon = await openDaemon({ config: { databases: { shop: secure, rw: { ...secure, access: 'write' } } } });
    await runCli(daemon, ['secret', 'set', 'db'], { stdin: PASSWORD });
    agent = await daemon.connect();
    operator = await daemon.connect({ role: 'operator' });
  });
  afterAll(async () => {
    await agent?.[Symbol.asyncDispose]();
    await operator?.[Symbol.asyncDispose]();
    await daemon?.[Symbol.asyncDispose]();
    await server?.[Symbol.asyncDispose]();
  });

  test('gives rows with their types, and loses nothing of a value', async () => {
    const data = await dataOf(query('shop', 'SELECT * FROM users WHERE id = ?', { params: [1] }));
    expect(data).toMatchObject({
      columns: [
        { name: 'id', type: 'int' },
        { name: 'name', type: 'varchar' },
        { name: 'paid', type: 'decimal' },
        { name: 'raw', type: 'blob' },
        { name: 'big', type: 'bigint' },
      ],
      rows: [[1, 'row-canary-1', '1.10', 'AP8=', '9007199254740993']],
      truncated: false,
    });
    const cut = await dataOf(query('shop', 'SELECT seq FROM seq_1_to_100000', { maxRows: 5 }));
    expect(cut).toMatchObject({ rowCount: 5, truncatedBy: 'rows' });
  });

  test('shows tables and plans', async () => {
    const schema = await dataOf(agent.call('database_schema' as string, { connection: 'shop' } as never));
    expect((schema as { rows: unknown[][] }).rows[0]).toEqual(['users', 'table', 'id', 'int(11)', 1, 1, null, null]);
    const plan = await dataOf(
      agent.call('database_explain' as string, { connection: 'shop', sql: 'SELECT * FROM users' } as never),
    );
    expect(JSON.stringify(plan)).toContain('SIMPLE');
  });

  test('a statement that is cancelled ends at the server', async () => {
    const control = new AbortController();
    const asked = query('shop', 'SELECT SLEEP(50)', {}, { signal: control.signal });
    await until(async () => (await running()).length === 1);
    control.abort();
    expect(await asked).toMatchObject({ success: false, error: { code: 'CANCELLED' } });
    await until(async () => (await running()).length === 0);
  });

  test('a login is kept for the next call, which finds nothing of the one before', async () => {
    const rowsOf = async (sql: string) => (await dataOf(query('shop', sql))).rows as unknown[][];
    const locks = () => server.sql("SELECT IS_USED_LOCK('kept')");
    const [[login] = []] = await rowsOf("SELECT CONNECTION_ID(), GET_LOCK('kept', 1), @kept := 5");
    // The session is cleaned up when the answer is on its way.
    await until(async () => (await locks())[0]?.[0] === null);
    const probe = "SELECT CONNECTION_ID(), @kept, DATABASE(), @@character_set_client, @@in_transaction, '😀'";
    await until(async () => (await rowsOf(probe))[0]?.[0] === login);
    expect(await rowsOf(probe)).toEqual([[login, null, 'shop', 'utf8mb4', 1, '😀']]);
    // An error of a statement does not end it.
    expect(await query('shop', 'SELECT (SELECT id FROM users)')).toMatchObject({ success: false });
    await until(async () => (await rowsOf(probe))[0]?.[0] === login);
    await server.sql(`KILL ${Number(login)}`);
    // A call may come before the end of that login.
    await until(async () => (await query('shop', probe)).success);
    expect((await rowsOf(probe))[0]?.[0]).not.toBe(login);
  });

  test('the command line adds, lists, checks and removes a connection, and ends a query by Ctrl-C', async () => {
    const at = ['--host', 'localhost', '--port', String(server.port), '--database', 'shop', '--user', 'agent'];
    const safe = ['--secret', 'db', '--ca', server.ca, '--private'];
    const added = await runCli(daemon, ['database', 'add', 'stored', '--kind', 'mysql', ...at, ...safe]);
    expect(added.stderr + added.stdout).toContain(
      `stored stored  mysql  agent@localhost:${server.port}/shop  tls verify  secret db  read  (state)`,
    );
    expect((await runCli(daemon, ['database', 'list'])).stdout).toContain('stored  mysql  agent@');
    expect((await runCli(daemon, ['database', 'check', 'stored'])).stdout).toContain('users');
    const asked = ['query', 'stored', 'SELECT id, big FROM users WHERE id = ?', '--params', '[1]'];
    expect((await runCli(daemon, asked)).stdout).toBe(
      'id               big\n--  ----------------\n 1  9007199254740993\n',
    );
    expect((await runCli(daemon, [...asked, '--csv'])).stdout).toBe('id,big\r\n1,9007199254740993\r\n');
    const long = beginCli(daemon, ['query', 'stored', 'SELECT SLEEP(51)']);
    await until(async () => (await running()).length === 1);
    long.kill('SIGINT');
    expect(await endOf(long)).not.toBe(0);
    await until(async () => (await running()).length === 0);
    expect((await runCli(daemon, ['database', 'remove', 'stored'])).code).toBe(0);
    const byAddress = ['--host', '127.0.0.1', ...at.slice(2)];
    const unverified = await runCli(daemon, ['database', 'add', 'x', '--kind', 'mysql', ...byAddress, ...safe]);
    expect(unverified).toMatchObject({ code: 2, stderr: expect.stringContaining('takes a name, not an address') });
  });

  test('a change is asked about, and says why it fails without values of rows', async () => {
    const answering = (async () => {
      for await (const it of operator.notifications(['approvals'])) {
        if (it.method !== 'approval.requested') continue;
        const { approval } = it.params as { approval: { approvalId: string; diff?: string } };
        await operator.request('approvals.resolve', { approvalId: approval.approvalId, decision: 'approve' });
        return approval.diff;
      }
      return undefined;
    })();
    const changed = await query('rw', 'UPDATE users SET paid = 5 WHERE id = ?', { params: [2] });
    expect(changed).toMatchObject({ success: true, data: { changes: 1 }, metadata: { tier: 'external_api' } });
    expect(await answering).toBe('Change of rows that the server does not estimate\n');
    expect(await server.sql('SELECT paid FROM shop.users WHERE id = 2')).toEqual([['5.00']]);
    const refused = await query('shop', 'DELETE FROM users');
    expect(refused).toMatchObject({ success: false, error: { code: 'ACCESS_DENIED' } });
  });
});
