/** Database connections of a real daemon: who adds them, what rules see, what the record holds, the command line. */
import { chmodSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Client, createClient, type ToolResult } from '../../src/client/client.ts';
import { beginCli, endOf, runCli } from '../support/cli.ts';
import { dataOf, type OpenDaemon, openDaemon, until } from '../support/daemon.ts';
import { connectMcp } from '../support/mcp.ts';
import { makeDatabase, openElsewhere, rowsOf } from '../support/sqlite.ts';

const POLICY = `rules:
  - { id: hidden, match: { path: private/** }, decision: deny, reason: Nobody reads this. }
  - { id: payroll, match: { database: "pay*" }, decision: deny, reason: Salaries are not for agents. }
  - { id: asked, match: { database: careful }, decision: ask, reason: A person looks at each statement. }
`;
const CONFIG = {
  databases: {
    app: { kind: 'sqlite', path: 'app.db' },
    rw: { kind: 'sqlite', path: './app.db', access: 'write' },
    careful: { kind: 'sqlite', path: 'app.db', access: 'write' },
    payroll: { kind: 'sqlite', path: 'app.db' },
    private: { kind: 'sqlite', path: 'private/app.db' },
  },
};
const ENDLESS = 'WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n';
const SQL =
  "CREATE TABLE users (id INTEGER PRIMARY KEY, name TEXT); INSERT INTO users VALUES (1, 'Ada'), (2, 'Bob, \"B\"')";

let daemon: OpenDaemon;
let agent: Client;
let operator: Client;
beforeAll(async () => {
  daemon = await openDaemon({ policy: POLICY, config: CONFIG });
  makeDatabase(at('app.db'), SQL);
  agent = await daemon.connect();
  operator = await daemon.connect({ role: 'operator' });
});
afterAll(async () => {
  await agent[Symbol.asyncDispose]();
  await operator[Symbol.asyncDispose]();
  await daemon[Symbol.asyncDispose]();
});

const at = (name: string) => join(daemon.workspace, name);
const ask = (tool: string, input: object, options = {}) =>
  agent.call(tool, input as never, options) as Promise<ToolResult<Record<string, unknown>>>;
const query = (connection: string, sql: string, more: object = {}) =>
  ask('database_query', { connection, sql, ...more });
const codeOf = async (asked: Promise<ToolResult>) => {
  const result = await asked;
  return result.success ? 'ok' : result.error.code;
};

describe('an agent', () => {
  test('queries, explains and lists what the operator configured, by its name', async () => {
    const result = await query('app', 'SELECT name FROM users WHERE id = ?', { params: [1] });
    expect(result).toMatchObject({
      success: true,
      data: {
        columns: [{ name: 'name', type: 'text', declared: 'TEXT' }],
        rows: [['Ada']],
        rowCount: 1,
        truncated: false,
      },
      metadata: { tier: 'read_only', undo: 'none' },
    });
    const { rows } = (await dataOf(ask('database_schema', { connection: 'app' }))) as { rows: unknown[][] };
    expect(rows.map((it) => it[2])).toEqual(['id', 'name']);
    const plan = await dataOf(ask('database_explain', { connection: 'app', sql: 'SELECT * FROM users' }));
    expect(JSON.stringify(plan)).toContain('SCAN users');
  });

  test('an agent with a policy that only reads is shown the tools, and may use connections that read', async () => {
    const { socket, workspace } = daemon;
    await using reader = await createClient({ socket, workspace, policy: 'read-only' });
    const { tools } = (await reader.request('tools.list', { tools: 'all' })) as { tools: Record<string, unknown>[] };
    const shown = tools.find((it) => it.name === 'database_query');
    expect(shown).toMatchObject({ tier: 'read_only', decision: 'allow' });
    const codes = ['app', 'rw'].map(async (connection) => {
      return codeOf(reader.call('database_query', { connection, sql: 'SELECT 1' }));
    });
    expect(await Promise.all(codes)).toEqual(['ok', 'POLICY_DENIED']);
  });

  test('an agent that names no connection is told which there are, or gets the only one', async () => {
    const result = await ask('query_database', { query: 'SELECT 1' });
    expect(result).toMatchObject({
      error: { code: 'INPUT_INVALID', suggestion: 'The connections are: app, careful, payroll, private, rw.' },
    });
    await using single = await openDaemon({ config: { databases: { app: CONFIG.databases.app } } });
    makeDatabase(join(single.workspace, 'app.db'), SQL);
    await using other = await single.connect();
    expect(
      await other.call('query_database' as string, { query: 'SELECT name FROM users WHERE id = 1' }),
    ).toMatchObject({
      data: { rows: [['Ada']] },
    });
    expect(await other.call('database_schema', { database: 'app' } as never)).toMatchObject({ success: true });
    await using none = await openDaemon();
    await using third = await none.connect();
    expect(await third.call('query_database' as string, { query: 'SELECT 1' })).toMatchObject({
      error: { code: 'NOT_FOUND', suggestion: expect.stringContaining('ringfence database add') },
    });
  });

  test.each(['query_database', 'supabase_query'])('an agent may call %s', async (name) => {
    const result = await ask(name, { connection: 'app', query: 'SELECT :a', params: { a: 1 }, maxRows: 5 });
    expect(result).toMatchObject({ success: true, tool: 'database_query', data: { rows: [[1]] } });
  });

  test('an agent gets the names of connections, and can give no file, URL or connection of its own', async () => {
    const result = await query('nobody', 'SELECT 1');
    expect(result).toMatchObject({
      success: false,
      error: { code: 'NOT_FOUND', suggestion: 'The connections are: app, careful, payroll, private, rw.' },
    });
    for (const name of [
      'app.db',
      './app.db',
      'file:app.db',
      'sqlite://app.db',
      '__proto__',
      'constructor',
      '../databases/app',
    ])
      expect(await codeOf(query(name, 'SELECT 1')), name).toBe('NOT_FOUND');
    const source = { kind: 'sqlite', path: '../../etc/passwd', access: 'write' };
    expect(await codeOf(query('app', 'SELECT 1', { source }))).toBe('INPUT_INVALID');
  });

  test('MCP lists the database tools only for an agent that asks for all', async () => {
    await using mcp = await connectMcp(daemon);
    const names = (await mcp.listTools()).tools.map((it) => it.name);
    expect(names.filter((it) => it.startsWith('database_'))).toEqual([]);
    const called = await mcp.callTool({ name: 'database_query', arguments: { connection: 'app', sql: 'SELECT 7' } });
    expect(called.isError).toBeFalsy();
  });
});

test('a result of any shape fits into a message', async () => {
  const n = 'WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n LIMIT 10000)';
  for (const [columns, cells] of [
    ['x, x, x, x, x', 60_000],
    [Array.from({ length: 50 }, () => 'x').join(), 80_000],
    ["iif(x % 2, x, 'x'), iif(x % 2, x, 'y'), iif(x % 2, x, 'z')", 80_000],
    [Array.from({ length: 1000 }, () => 'x').join(), 80_000],
  ] as const) {
    const data = await dataOf(query('app', `${n} SELECT ${columns} FROM n`, { maxRows: 10_000 }));
    expect(data.rowCount as number).toBeGreaterThan(0);
    expect((data.rowCount as number) * ((data.columns as object[]).length + 1)).toBeLessThanOrEqual(cells);
  }
});

describe('the policy', () => {
  test('decides by the name of the connection, and by its file', async () => {
    const denied = await query('payroll', 'SELECT 1');
    expect(denied).toMatchObject({ success: false, error: { code: 'POLICY_DENIED', rule: 'payroll' } });
    const hidden = await query('private', 'SELECT 1');
    expect(hidden).toMatchObject({ success: false, error: { code: 'POLICY_DENIED', rule: 'hidden' } });
  });

  test('asks about a statement; a yes is for the file as the person saw it', async () => {
    const asked = operator.notifications(['approvals']);
    const answer = async (decision: 'approve' | 'deny', before?: () => void) => {
      for (;;) {
        const { value: it } = await asked.next();
        if (it?.method !== 'approval.requested') continue;
        const { approval } = it.params as {
          approval: { approvalId: string; effects: object[]; undo?: string; input: object };
        };
        before?.();
        await operator.request('approvals.resolve', { approvalId: approval.approvalId, decision });
        return approval;
      }
    };
    const first = query('careful', "INSERT INTO users (name) VALUES ('Cy')");
    const approval = await answer('approve');
    expect(await first).toMatchObject({
      success: true,
      data: { changes: 1 },
      metadata: { undo: 'full', tier: 'write' },
    });
    expect(approval).toMatchObject({ undo: 'full', input: { connection: 'careful' } });
    expect(approval.effects).toContainEqual({ kind: 'query', target: 'careful' });
    expect(approval.effects).toContainEqual({ kind: 'write', target: 'app.db', replaces: true });
    const stale = query('careful', 'DELETE FROM users');
    await answer('approve', () => makeDatabase(at('app.db'), "INSERT INTO users (name) VALUES ('Dee')"));
    expect(await codeOf(stale)).toBe('APPROVAL_STALE');
    const no = query('careful', 'DELETE FROM users');
    await answer('deny');
    expect(await codeOf(no)).toBe('APPROVAL_DENIED');
    expect(rowsOf(at('app.db'), 'SELECT count(*) FROM users')).toEqual([[4]]);
  });
});

describe('a connection that may write', () => {
  test('changes rows, and the call is undone', async () => {
    const before = rowsOf(at('app.db'), 'SELECT * FROM users');
    const result = await query('rw', 'DELETE FROM users WHERE id > ?', { params: [0] });
    expect(result).toMatchObject({
      success: true,
      data: { changes: before.length, rows: [] },
      metadata: { tier: 'write', undo: 'full', filesChanged: [{ path: 'app.db', kind: 'modify' }] },
    });
    expect(rowsOf(at('app.db'), 'SELECT * FROM users')).toEqual([]);
    expect(await agent.undo(result.callId)).toMatchObject({ restored: ['app.db'] });
    expect(rowsOf(at('app.db'), 'SELECT * FROM users')).toEqual(before);
  });

  test('a connection that may write is refused in a session that only reads', async () => {
    const result = await runCli(daemon, [
      'call',
      'database_query',
      'connection=rw',
      'sql=DELETE FROM users',
      '--mode',
      'read',
    ]);
    expect(result.stderr).toContain('POLICY_DENIED');
    expect(rowsOf(at('app.db'), 'SELECT count(*) FROM users')).not.toEqual([[0]]);
  });

  test('a write to a database is CONFLICT while another program holds the lock', async () => {
    await using _ = await openElsewhere(at('app.db'), 'BEGIN EXCLUSIVE');
    expect(await codeOf(query('rw', 'DELETE FROM users'))).toBe('CONFLICT');
  });
});

describe('the record', () => {
  test('holds statements and no values: neither of parameters nor of rows', async () => {
    makeDatabase(at('app.db'), "INSERT INTO users (name) VALUES ('row-canary-1')");
    await query('app', "SELECT name, ? FROM users WHERE name LIKE 'row-canary%'", { params: ['param-canary-1'] });
    await query('app', 'SELECT :it', { params: { it: 'param-canary-2' } });
    await query('rw', "UPDATE users SET name = ? WHERE name LIKE 'row-canary%'", { params: ['param-canary-3'] });
    await query('app', "SELECT 'sk-ant-REDACTED'");
    const { entries } = (await operator.request('audit.query', { tool: 'database_query' })) as { entries: object[] };
    const text = JSON.stringify(entries);
    expect(text).toContain('"sql":"SELECT :it","params":{"it":"[redacted]"}');
    expect(text).toContain('{"kind":"query","target":"app"}');
    expect(text).not.toMatch(/canary-\d/);
    expect(text).not.toContain('sk-ant-api03');
  });
});

describe('a statement that runs long', () => {
  test('ends at once when it is cancelled, and leaves its host fit for the next one', async () => {
    await query('app', 'SELECT 1');
    const control = new AbortController();
    const running = agent.call('database_query' as string, { connection: 'app', sql: ENDLESS } as never, {
      signal: control.signal,
    });
    await new Promise((resolve) => setTimeout(resolve, 500));
    const startedMs = performance.now();
    control.abort();
    expect(await codeOf(running as Promise<ToolResult>)).toBe('CANCELLED');
    expect(performance.now() - startedMs).toBeLessThan(5_000);
    expect(await codeOf(query('app', 'SELECT 1'))).toBe('ok');
  });

  test('ends at its time limit', async () => {
    expect(await codeOf(ask('database_query', { connection: 'app', sql: ENDLESS }, { timeoutMs: 500 }))).toBe(
      'TIMEOUT',
    );
    expect(await codeOf(query('app', 'SELECT 1'))).toBe('ok');
  });

  test('does not keep other calls from running', async () => {
    const control = new AbortController();
    const running = agent.call('database_query' as string, { connection: 'app', sql: ENDLESS } as never, {
      signal: control.signal,
    });
    writeFileSync(at('a.txt'), 'a');
    expect(await codeOf(ask('file_read', { path: 'a.txt' }))).toBe('ok');
    control.abort();
    await running;
  });
});

describe('ringfence query', () => {
  test('prints a table, CSV or JSON', async () => {
    const sql = 'SELECT id, name, NULL AS empty FROM users WHERE id < 3 ORDER BY id';
    const table = await runCli(daemon, ['query', 'app', sql]);
    expect(table.stdout).toBe('id  name      empty\n--  --------  -----\n 1  Ada       NULL\n 2  Bob, "B"  NULL\n');
    expect(table.stderr).toMatch(/2 rows · [\d.]+ ms/);
    const csv = await runCli(daemon, ['query', 'app', sql, '--csv']);
    expect(csv.stdout).toBe('id,name,empty\r\n1,Ada,\r\n2,"Bob, ""B""",\r\n');
    const json = await runCli(daemon, ['query', 'app', 'SELECT :a', '--params', '{"a":"x"}', '--json']);
    expect(JSON.parse(json.stdout)).toMatchObject({ success: true, data: { rows: [['x']] } });
  });

  test('says what is cut, and what is wrong', async () => {
    const cut = await runCli(daemon, ['query', 'app', 'SELECT * FROM users', '--max-rows', '1']);
    expect([cut.code, cut.stderr]).toEqual([0, expect.stringContaining('only the first 1 row')]);
    const wrong = await runCli(daemon, ['query', 'app', 'SELEC 1']);
    expect([wrong.code, wrong.stderr]).toEqual([1, expect.stringContaining('near "SELEC": syntax error')]);
    const params = await runCli(daemon, ['query', 'app', 'SELECT ?', '--params', 'x']);
    expect([params.code, params.stderr]).toEqual([2, expect.stringContaining('--params takes a JSON array or object')]);
    const denied = await runCli(daemon, ['query', 'payroll', 'SELECT 1']);
    expect(denied.code).toBe(4);
  });

  test('escapes what a row would do to a terminal', async () => {
    const { stdout } = await runCli(daemon, ['query', 'app', "SELECT char(27) || '[31mred' || char(10) || 'x' AS it"]);
    expect(stdout).not.toContain('\u001b');
    expect(stdout.split('\n')).toHaveLength(4);
  });

  test('ends by Ctrl-C', async () => {
    const child = beginCli(daemon, ['query', 'app', ENDLESS]);
    const output = buffer(child.stderr);
    await until(async () => {
      const { calls } = (await operator.request('calls.list', { everywhere: true })) as {
        calls: { effects: { target: string }[] }[];
      };
      return calls.some((it) => it.effects.some(({ target }) => target === 'app'));
    });
    child.kill('SIGINT');
    expect(await endOf(child)).toBe(130);
    await output;
  });
});

describe('ringfence database', () => {
  test('adds, lists, checks and removes connections, which a running daemon has at once', async () => {
    expect(
      (await runCli(daemon, ['database', 'add', 'mine', '--kind', 'sqlite', '--path', 'app.db'])).stdout,
    ).toContain('stored mine  sqlite  app.db  read  (state)');
    expect(await codeOf(query('mine', 'SELECT 1'))).toBe('ok');
    const list = await runCli(daemon, ['database', 'list', '--json']);
    expect(JSON.parse(list.stdout)).toContainEqual({
      name: 'mine',
      place: 'state',
      kind: 'sqlite',
      path: 'app.db',
      access: 'read',
    });
    expect((await runCli(daemon, ['database', 'check', 'mine'])).stdout).toContain('users');
    expect((await runCli(daemon, ['database', 'check', 'nobody'])).code).toBe(1);
    expect((await runCli(daemon, ['database', 'remove', 'mine'])).code).toBe(0);
    expect(await codeOf(query('mine', 'SELECT 1'))).toBe('NOT_FOUND');
    expect((await runCli(daemon, ['database', 'remove', 'mine'])).code).toBe(1);
  });

  test.each([
    [['x', '--kind', 'oracle', '--path', 'a.db'], '--kind'],
    [['x', '--kind', 'sqlite', '--path', '/etc/passwd'], '--path takes a path below the workspace'],
    [['x', '--kind', 'sqlite', '--path', '../a.db'], '--path takes a path below the workspace'],
    [['x', '--kind', 'sqlite', '--path', 'a/../../b.db'], '--path takes a path below the workspace'],
    [['x', '--kind', 'sqlite', '--path', 'a.db', '--access', 'all'], '--access'],
    [['x', '--kind', 'duckdb', '--path', 'data', '--access', 'write'], '--access takes `read` only for duckdb'],
    [['x', '--kind', 'duckdb', '--path', '.'], '--path takes a path below the workspace'],
    [['../x', '--kind', 'sqlite', '--path', 'a.db'], 'the name takes'],
    [['X', '--kind', 'sqlite', '--path', 'a.db'], 'the name takes'],
  ])('refuses %j', async (words, message) => {
    const { code, stderr } = await runCli(daemon, ['database', 'add', ...words]);
    expect([code, stderr]).toEqual([2, expect.stringContaining(message)]);
  });

  test('adds a folder of data files, which is queried and checked', async () => {
    mkdirSync(at('tables'), { recursive: true });
    writeFileSync(at('tables/people.csv'), 'id,name\n1,Ada\n');
    const added = await runCli(daemon, ['database', 'add', 'tables', '--kind', 'duckdb', '--path', 'tables']);
    expect(added.stdout).toContain('stored tables  duckdb  tables  read  (state)');
    const asked = await runCli(daemon, ['query', 'tables', "select name from 'people.csv'", '--csv']);
    expect([asked.code, asked.stdout]).toEqual([0, 'name\r\nAda\r\n']);
    expect((await runCli(daemon, ['database', 'check', 'tables'])).stdout).toContain('people.csv');
    await runCli(daemon, ['database', 'remove', 'tables']);
  });

  test('takes no file that others may write', async () => {
    await runCli(daemon, ['database', 'add', 'open', '--kind', 'sqlite', '--path', 'app.db']);
    const folder = join(daemon.stateDir, 'databases');
    expect(readdirSync(folder)).toEqual(['open.json']);
    chmodSync(join(folder, 'open.json'), 0o666);
    expect(await codeOf(query('open', 'SELECT 1'))).toBe('UNSUPPORTED');
    const list = await runCli(daemon, ['database', 'list']);
    expect([list.code, list.stdout]).toEqual([1, expect.stringContaining('open  off: others may write')]);
    await runCli(daemon, ['database', 'remove', 'open']);
  });
});

test('a config with a wrong connection is refused by its key', async () => {
  const config = { databases: { app: { kind: 'sqlite', path: '/etc/passwd' } } };
  const { code, stderr } = await checkConfig(config);
  expect([code, stderr]).toEqual([2, expect.stringContaining('databases.app.path')]);
});

async function checkConfig(config: object) {
  const path = at('config.yaml');
  writeFileSync(path, JSON.stringify(config));
  const { code, stdout, stderr } = await runCli(daemon, ['config', 'check', path]);
  return { code, stderr: stdout + stderr };
}
