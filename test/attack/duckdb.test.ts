/** DuckDB connections against a real daemon: files that rules hide, writing, reaching out, statements that never end. */
import { execFileSync } from 'node:child_process';
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Client, ToolResult } from '../../src/client/client.ts';
import { startDaemon, type TestDaemon } from '../support/daemon.ts';
import { treeOf } from '../support/workspace.ts';

const POLICY = `rules:
  - { id: hidden, match: { path: "**/hidden/**" }, decision: deny, reason: Nobody reads this., sensitive: true }
  - { id: pay, match: { path: "**/pay.csv" }, decision: ask, reason: A person looks. }
`;
const duckdb = (path: string) => ({ kind: 'duckdb', path });
const CONFIG = {
  databases: { plain: duckdb('plain'), mixed: duckdb('mixed'), hidden: duckdb('mixed/hidden'), link: duckdb('link') },
};
const CROSS = 'SELECT count(*) FROM range(1000000) a, range(1000000) b, range(1000) c WHERE a.range * b.range = -1';

let daemon: TestDaemon;
let agent: Client;
beforeAll(async () => {
  daemon = await startDaemon({ policy: POLICY, config: CONFIG });
  agent = await daemon.connect();
  for (const it of ['plain', 'mixed/hidden', 'other']) mkdirSync(at(it), { recursive: true });
  writeFileSync(at('plain/a.csv'), 'id,name\n1,Ada\n2,Bob\n');
  writeFileSync(at('mixed/a.csv'), 'id\n1\n');
  writeFileSync(at('mixed/.env'), 'KEY=canary\n');
  writeFileSync(at('mixed/pay.csv'), 'v\ncanary\n');
  writeFileSync(at('mixed/hidden/a.csv'), 'v\ncanary\n');
  writeFileSync(at('other/a.csv'), 'v\ncanary\n');
  symlinkSync('../other/a.csv', at('plain/link.csv'));
  symlinkSync(daemon.stateDir, at('plain/state'));
  symlinkSync(daemon.stateDir, at('link'));
});
afterAll(async () => {
  await agent[Symbol.asyncDispose]();
  await daemon[Symbol.asyncDispose]();
});

const at = (name: string) => join(daemon.workspace, name);
const call = (tool: string, input: object, options = {}) =>
  agent.call(tool as string, input as never, options) as Promise<ToolResult>;
const query = (connection: string, sql: string, options = {}) => call('database_query', { connection, sql }, options);
const codeOf = (result: ToolResult) => (result.success ? 'ok' : result.error.code);

/** Processes that run statements by DuckDB. */
const running = (): number =>
  execFileSync('ps', ['-eo', 'args', '--no-headers'], { encoding: 'utf8' })
    .split('\n')
    .filter((it) => it.includes(join('workers', 'duckdb', 'process')) && it.includes(process.cwd())).length;

describe('a connection to a folder', () => {
  test('answers, explains, and shows what is there', async () => {
    const result = await query('plain', "SELECT name FROM 'a.csv' ORDER BY id");
    expect(result).toMatchObject({ success: true, data: { rows: [['Ada'], ['Bob']], truncated: false } });
    const plan = await call('database_explain', { connection: 'plain', sql: "SELECT name FROM 'a.csv'" });
    expect(JSON.stringify(plan)).toContain('READ_CSV');
    const schema = await call('database_schema', { connection: 'plain' });
    expect(schema).toMatchObject({
      data: {
        rows: [
          ['a.csv', 'csv', 'id', 'BIGINT'],
          ['a.csv', 'csv', 'name', 'VARCHAR'],
        ].map((it) => [...it, null, null, null, null]),
      },
    });
  });

  test('gives nothing that rules keep from agents', async () => {
    expect(await query('mixed', "SELECT * FROM 'a.csv'")).toMatchObject({ success: true, data: { rows: [[1]] } });
    for (const name of [
      '.env',
      'pay.csv',
      'hidden/a.csv',
      '*',
      '**',
      '**/*.csv',
      '[p]ay.csv',
      '.en?',
      at('mixed/.env'),
    ])
      for (const reader of ['read_text', 'read_csv', 'glob']) {
        const result = await query('mixed', `SELECT * FROM ${reader}('${name}')`);
        expect(codeOf(result), `${reader} ${name}`).not.toBe('ok');
        expect(JSON.stringify(result)).not.toContain('canary');
      }
    for (const it of ['hidden', 'link'])
      expect(codeOf(await query(it, 'SELECT 1'))).toMatch(/^(SENSITIVE_FILE|ACCESS_DENIED)$/);
    expect(JSON.stringify(await call('database_schema', { connection: 'mixed' }))).not.toMatch(/pay|env|hidden/);
  });

  test('reaches no file outside, and no host', async () => {
    for (const name of [
      ...['/etc/passwd', '../other/a.csv', at('other/a.csv'), 'link.csv', 'state/audit.db', '*/audit.db', 'l*'],
      ...['/proc/self/environ', join(daemon.stateDir, 'audit.db'), 'http://127.0.0.1:1/a.csv', 's3://b/a.csv'],
    ])
      for (const reader of ['read_text', 'read_csv']) {
        const result = await query('plain', `SELECT * FROM ${reader}('${name}')`);
        // A link to what the sandbox does not have is no file.
        if (result.success) expect(result.data, `${reader} ${name}`).toMatchObject({ rows: [] });
        else expect(codeOf(result), name).toMatch(/^(ACCESS_DENIED|INPUT_INVALID|UNSUPPORTED|NOT_FOUND)$/);
        expect(JSON.stringify(result)).not.toMatch(/canary|root:/);
      }
  });

  test('writes nothing, attaches nothing and loads nothing', async () => {
    const before = treeOf(at('plain'));
    for (const sql of [
      "COPY (SELECT 1) TO 'out.csv'",
      "EXPORT DATABASE 'out'",
      "/* /* */ SELECT */ EXPORT DATABASE 'out'",
      `ATTACH '${at('plain/new.duckdb')}'`,
      `ATTACH '${join(daemon.stateDir, 'audit.db')}' AS a (TYPE sqlite)`,
      'INSTALL httpfs',
      'LOAD httpfs',
      'SET enable_external_access = true',
      'PRAGMA threads = 64',
      "SELECT 1; COPY (SELECT 1) TO 'out.csv'",
      "EXPLAIN ANALYZE COPY (SELECT 1) TO 'out.csv'",
      'CREATE TABLE t (a INT)',
    ])
      expect(codeOf(await query('plain', sql)), sql).toMatch(/^(ACCESS_DENIED|INPUT_INVALID)$/);
    await query('plain', `SELECT * FROM enable_logging(storage = 'file', storage_path = '${at('plain/log')}')`);
    expect(treeOf(at('plain'))).toEqual(before);
  });
});

describe('a statement', () => {
  test('a statement that is too large or never ends costs its own call, and its process ends', async () => {
    const large = await query('plain', "SELECT repeat('x', 200000000)");
    expect(codeOf(large)).toMatch(/^(MEMORY_LIMIT|OUTPUT_LIMIT|HOST_CRASHED)$/);
    expect(codeOf(await query('plain', CROSS, { timeoutMs: 1_000 }))).toBe('TIMEOUT');
    const control = new AbortController();
    const cut = query('plain', CROSS, { signal: control.signal });
    await expect.poll(running, { timeout: 20_000 }).toBe(1);
    control.abort();
    expect(codeOf(await cut)).toBe('CANCELLED');
    expect(codeOf(await query('plain', "SELECT * FROM 'a.csv'"))).toBe('ok');
    await expect.poll(running, { timeout: 20_000 }).toBe(0);
  }, 60_000);
});
