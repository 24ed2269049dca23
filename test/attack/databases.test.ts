/** Databases against a real daemon: files that rules hide, links, swaps, hostile files, statements that never end. */
import { execFileSync, spawn } from 'node:child_process';
import { copyFileSync, linkSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Client, ToolResult } from '../../src/client/client.ts';
import { startDaemon, type TestDaemon } from '../support/daemon.ts';
import { makeDatabase } from '../support/sqlite.ts';

const POLICY = `rules:
  - { id: hidden, match: { path: "hidden/**" }, decision: deny, reason: Nobody reads this., sensitive: true }
`;
const names = ['app', 'hidden/app', 'link', 'out', 'swapped/app', 'hard', 'secrets/app', 'hostile', '.git/hooks/app'];
const CONFIG = {
  databases: Object.fromEntries(
    names.flatMap((it) => {
      const name = it.replaceAll(/[^a-z]+/g, '-').replace(/^-/, '');
      return [
        [name, { kind: 'sqlite', path: `${it}.db` }],
        [`${name}-rw`, { kind: 'sqlite', path: `${it}.db`, access: 'write' }],
      ];
    }),
  ),
};
const CANARY = 'hidden-canary-4711';
const ENDLESS = 'WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n';

let daemon: TestDaemon;
let agent: Client;
beforeAll(async () => {
  daemon = await startDaemon({ policy: POLICY, config: CONFIG });
  agent = await daemon.connect();
  for (const folder of ['hidden', 'swapped', 'secrets', '.git/hooks']) mkdirSync(at(folder), { recursive: true });
  makeDatabase(at('app.db'), "CREATE TABLE t (v TEXT); INSERT INTO t VALUES ('shown')");
  makeDatabase(at('hidden/app.db'), `CREATE TABLE t (v TEXT); INSERT INTO t VALUES ('${CANARY}')`);
  for (const it of ['swapped', 'secrets', '.git/hooks']) copyFileSync(at('app.db'), at(`${it}/app.db`));
  symlinkSync('hidden/app.db', at('link.db'));
  symlinkSync(join(daemon.stateDir, 'audit.db'), at('out.db'));
});
afterAll(async () => {
  await agent[Symbol.asyncDispose]();
  await daemon[Symbol.asyncDispose]();
});

const at = (name: string) => join(daemon.workspace, name);
const query = (connection: string, sql: string, by = agent) =>
  by.call('database_query' as string, { connection, sql } as never) as Promise<ToolResult>;
const codeOf = async (asked: Promise<ToolResult>) => {
  const result = await asked;
  return result.success ? 'ok' : result.error.code;
};

describe('a file', () => {
  test.each([
    ['hidden-app', 'SENSITIVE_FILE'],
    ['link', 'SENSITIVE_FILE'],
    ['out', 'ACCESS_DENIED'],
    ['secrets-app', 'SENSITIVE_FILE'],
  ])("a file that rules or links keep from agents can't be queried as database %s", async (name, code) => {
    expect(await codeOf(query(name, 'SELECT v FROM t'))).toBe(code);
    expect(await codeOf(query(`${name}-rw`, "UPDATE t SET v = 'x'"))).toMatch(/^(SENSITIVE_FILE|ACCESS_DENIED)$/);
  });

  test('a database file that programs outside the sandbox trust is not written', async () => {
    const before = readFileSync(at('.git/hooks/app.db'));
    expect(await codeOf(query('git-hooks-app-rw', "UPDATE t SET v = 'x'"))).toMatch(/^(ACCESS_DENIED|POLICY_DENIED)$/);
    expect(readFileSync(at('.git/hooks/app.db')).equals(before)).toBe(true);
  });

  test('no function, pragma or table of SQLite opens a hidden file from another database', async () => {
    for (const sql of [
      "ATTACH 'hidden/app.db' AS h",
      `ATTACH 'file:${at('hidden/app.db')}?immutable=1' AS h`,
      `SELECT readfile('${at('hidden/app.db')}')`,
      `SELECT load_extension('${at('hidden/app.db')}')`,
      `SELECT * FROM fsdir('${at('hidden')}')`,
      `VACUUM INTO '${at('hidden/copy.db')}'`,
      `CREATE VIRTUAL TABLE v USING csv(filename='${at('hidden/app.db')}')`,
      "PRAGMA temp_store_directory = 'hidden'",
    ])
      for (const name of ['app', 'app-rw']) expect(await codeOf(query(name, sql)), sql).toMatch(/DENIED|INVALID/);
  });

  test('a query reads no hidden file that another program swaps in for the database', async () => {
    // A command sees no hidden file, so the swap is made from outside, as another program of the person would.
    const swapper = `const fs = require('node:fs'); const [a, b, c] = process.argv.slice(1);
      const pause = () => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1);
      for (;;) { fs.renameSync(a, c); fs.symlinkSync(b, a); pause(); fs.unlinkSync(a); fs.renameSync(c, a); pause(); }`;
    const args = ['-e', swapper, at('swapped'), at('hidden'), at('.kept')];
    const child = spawn(process.execPath, args, { stdio: 'ignore' });
    try {
      const codes = new Set<string>();
      const untilMs = performance.now() + 20_000;
      for (let round = 0; round < 200 && performance.now() < untilMs; round += 1) {
        const result = await query('swapped-app', 'SELECT v FROM t');
        expect(JSON.stringify(result)).not.toContain(CANARY);
        codes.add(result.success ? 'ok' : result.error.code);
      }
      expect([...codes].filter((it) => it === 'INTERNAL' || it === 'HOST_CRASHED')).toEqual([]);
    } finally {
      child.kill('SIGKILL');
    }
  }, 120_000);

  test('a database file with a second name is read under the rules for that name alone', async () => {
    // A hard link is no way to a hidden file: making one needs to see it.
    linkSync(at('app.db'), at('hard.db'));
    expect(await codeOf(query('hard', 'SELECT v FROM t'))).toBe('ok');
  });
});

describe('a hostile file', () => {
  test('costs its own query and nothing else, whatever is wrong in it', async () => {
    const good = at('good.db');
    makeDatabase(
      good,
      `CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT); CREATE INDEX i ON t (v);
       CREATE VIRTUAL TABLE f USING fts5(body); INSERT INTO f VALUES ('a b c'), ('d e f');
       INSERT INTO t SELECT value, hex(randomblob(50)) FROM json_each('[1,2,3,4,5,6,7,8,9]');`,
    );
    const bytes = readFileSync(good);
    const change = fc.array(fc.tuple(fc.nat(bytes.length - 1), fc.nat(255)), { minLength: 1, maxLength: 40 });
    await fc.assert(
      fc.asyncProperty(change, fc.boolean(), async (changes, isCut) => {
        const hostile = Buffer.from(bytes);
        for (const [offset, byte] of changes) hostile[offset] = byte;
        writeFileSync(at('hostile.db'), isCut ? hostile.subarray(0, (changes[0]?.[0] ?? 0) + 1) : hostile);
        for (const sql of [
          'SELECT * FROM t ORDER BY v',
          "SELECT * FROM f WHERE f MATCH 'a'",
          'SELECT * FROM sqlite_schema',
        ])
          expect(await codeOf(query('hostile', sql))).not.toBe('INTERNAL');
        expect(await codeOf(query('app', 'SELECT 1'))).toBe('ok');
      }),
      { numRuns: 25 },
    );
  }, 120_000);

  test('a hostile file with views and triggers does no more than a statement may', async () => {
    rmSync(at('hostile.db'), { force: true });
    makeDatabase(
      at('hostile.db'),
      `CREATE TABLE t (v); INSERT INTO t VALUES (1);
       CREATE VIEW evil AS SELECT load_extension('/tmp/x.so');
       CREATE VIEW bomb AS ${ENDLESS};
       CREATE TRIGGER w AFTER UPDATE ON t BEGIN SELECT load_extension('/tmp/x.so'); END;`,
    );
    expect(await codeOf(query('hostile', 'SELECT * FROM evil'))).toMatch(/^(ACCESS_DENIED|INPUT_INVALID)$/);
    expect(await codeOf(query('hostile-rw', 'UPDATE t SET v = 2'))).toMatch(/^(ACCESS_DENIED|INPUT_INVALID)$/);
    const bomb = agent.call('database_query' as string, { connection: 'hostile', sql: 'SELECT * FROM bomb' } as never, {
      timeoutMs: 1_000,
    });
    expect(await codeOf(bomb as Promise<ToolResult>)).toBe('TIMEOUT');
  });
});

describe('statements that never end', () => {
  test('do not keep others from querying, and leave no process behind', async () => {
    await using other = await daemon.connect();
    await query('app', 'SELECT 1', other);
    const control = new AbortController();
    const bombs = Array.from({ length: 3 }, () =>
      agent.call('database_query' as string, { connection: 'app', sql: ENDLESS } as never, { signal: control.signal }),
    );
    expect(await codeOf(query('app', 'SELECT 1', other))).toBe('ok');
    control.abort();
    for (const it of bombs) expect(await codeOf(it as Promise<ToolResult>)).toBe('CANCELLED');
    await expect.poll(() => busyStatements(), { timeout: 20_000, interval: 500 }).toBe(0);
  }, 60_000);
});

/** Processes for statements that used most of a processor in the last moments. */
function busyStatements(): number {
  const list = execFileSync('ps', ['-eo', 'pid,state,args', '--no-headers'], { encoding: 'utf8' });
  const running = list.split('\n').filter((it) => /sqlite-process/.test(it) && /^\s*\d+\s+R/.test(it));
  return running.length;
}
