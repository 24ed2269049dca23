/** Statements on connections that may write: one transaction each, the file kept for undo, nothing half done. */
import * as fs from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterAll, afterEach, beforeEach, describe, expect, test } from 'vitest';
import { defaultLimits } from '../../../../src/base/limits.ts';
import { systemPowers } from '../../../../src/base/powers.ts';
import { databases, type FileSource, type Scalar } from '../../../../src/tools/context/databases.ts';
import type { ContextOptions } from '../../../../workers/context/context-options.ts';
import { databasesBy } from '../../../../workers/duckdb/databases-by-kind.ts';
import { asRefused } from '../../../../workers/sqlite/refusals.ts';
import { SqliteChildren } from '../../../../workers/sqlite-child.ts';
import { Spool } from '../../../../workers/undo/spool.ts';
import { temporaryDir, until } from '../../../support/daemon.ts';
import { ruleOf } from '../../../support/policy.ts';
import { makeDatabase, openElsewhere, rowsOf } from '../../../support/sqlite.ts';
import { makeWorkspace, type TestWorkspace } from '../../../support/workspace.ts';

const limits = { ...defaultLimits, databaseLockMs: 200 };
const sqlite = new SqliteChildren(limits, systemPowers());
const parts = databasesBy({ children: sqlite });
afterAll(() => sqlite[Symbol.dispose]());
const SQL = `CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT UNIQUE, age INT CHECK (age < 200));
  INSERT INTO t VALUES (1, 'Ada', 36), (2, 'Bob', 40);`;
const APP: FileSource = { kind: 'sqlite', path: 'app.db', access: 'write' };

let ws: TestWorkspace;
let spool: string;
let calls = 0;
beforeEach(() => {
  ws = makeWorkspace({ limits });
  spool = temporaryDir('spool');
  makeDatabase(at('app.db'), SQL);
});
afterEach(() => {
  ws[Symbol.dispose]();
  fs.rmSync(spool, { recursive: true, force: true });
});

const at = (name: string) => join(ws.path, name);
const names = (file = 'app.db') => rowsOf(at(file), 'SELECT name FROM t ORDER BY id').flat();
const files = () => fs.readdirSync(ws.path).sort();
const newKey = () => (++calls).toString(16).padStart(64, '0');

interface Asked extends Partial<ContextOptions> {
  readonly source?: FileSource;
  readonly params?: readonly Scalar[];
  readonly in?: TestWorkspace;
}
async function change(sql: string, { source = APP, params = [], in: where = ws, ...options }: Asked = {}) {
  const key = newKey();
  const context = where.context({ parts, journal: { folder: spool, key }, ...options });
  try {
    const table = await context.use(databases).query(source, { sql, params, maxRows: 10 });
    return { ...table, key, context };
  } finally {
    report = context.endJournal();
  }
}
let report: ReturnType<ReturnType<TestWorkspace['context']>['endJournal']>;
const codeOf = (asked: Promise<unknown>) =>
  asked.then(
    () => 'no error',
    (error) => error.code,
  );
const undo = (key: string, paths = ['app.db']) =>
  ws.context({ journal: { folder: spool, key: newKey() } }).undo({ keys: [key], paths, force: false });

describe('a change', () => {
  test('a change is committed, counted, noted, and can be undone as a whole', async () => {
    const before = fs.readFileSync(at('app.db'));
    const { changes, rows, context, key } = await change('UPDATE t SET age = age + ?', { params: [1] });
    expect({ changes, rows }).toEqual({ changes: 2, rows: [] });
    expect(context.usage(0).filesChanged).toEqual([{ path: 'app.db', kind: 'modify' }]);
    expect(report).toMatchObject({ undo: 'full', paths: ['app.db'] });
    expect(rowsOf(at('app.db'), 'SELECT age FROM t').flat()).toEqual([37, 41]);
    expect(await undo(key)).toMatchObject({ restored: ['app.db'], conflicts: [] });
    expect(fs.readFileSync(at('app.db')).equals(before)).toBe(true);
    expect(files()).toEqual(['app.db']);
  });

  test('a change of a large file can be undone', async () => {
    makeDatabase(at('app.db'), 'CREATE TABLE big (v); INSERT INTO big VALUES (zeroblob(3000000))');
    const before = fs.readFileSync(at('app.db'));
    const { key } = await change('DELETE FROM big');
    expect(report).toMatchObject({ undo: 'full' });
    await undo(key);
    expect(fs.readFileSync(at('app.db')).equals(before)).toBe(true);
  });

  test('gives the rows that it returns, and is whole even if not all of them are given', async () => {
    const sql =
      "INSERT INTO t (name) SELECT 'n' || value FROM json_each('[1,2,3,4,5,6,7,8,9,10,11,12]') RETURNING name";
    const { rows, truncatedBy, changes } = await change(sql);
    expect([rows.length, truncatedBy, changes]).toEqual([10, 'rows', 12]);
    expect(names()).toHaveLength(14);
  });

  test('a change is not undone over later changes', async () => {
    const { key } = await change('DELETE FROM t WHERE id = 1');
    makeDatabase(at('app.db'), "INSERT INTO t VALUES (3, 'Cy', 1)");
    expect(await undo(key)).toMatchObject({ restored: [], conflicts: ['app.db'] });
    expect(names()).toEqual(['Bob', 'Cy']);
  });

  test('a statement that changes nothing leaves nothing to undo', async () => {
    for (const sql of ['DELETE FROM t WHERE id = 9', 'SELECT * FROM t']) {
      expect((await change(sql)).changes).toBe(0);
      expect(report).toBeUndefined();
    }
  });

  test('a change by a trigger alone counts', async () => {
    makeDatabase(
      at('app.db'),
      'CREATE VIEW v AS SELECT name FROM t; CREATE TRIGGER i INSTEAD OF INSERT ON v BEGIN INSERT INTO t (name) VALUES (new.name); END',
    );
    expect((await change("INSERT INTO v VALUES ('Eve')")).changes).toBe(1);
    expect(report).toMatchObject({ undo: 'full' });
  });

  test('a program that has the file open sees a change', async () => {
    using reader = new DatabaseSync(at('app.db'));
    const count = () => reader.prepare('SELECT count(*) AS n FROM t').get()?.n;
    expect(count()).toBe(2);
    await change('DELETE FROM t WHERE id = 1');
    expect(count()).toBe(1);
    reader.exec('DELETE FROM t');
    expect(names()).toEqual([]);
  });
});

describe('a statement that fails', () => {
  test.each([
    ["INSERT INTO t (name) VALUES ('new'), ('Ada')", 'CONFLICT', 'UNIQUE constraint failed: t.name'],
    ['UPDATE t SET age = age + 163', 'CONFLICT', 'constraint'],
    ['INSERT INTO t (id) VALUES (3), (1)', 'CONFLICT', 'constraint'],
    ["INSERT INTO t (id) VALUES ('x')", 'INPUT_INVALID', 'type'],
    ['DELETE FROM t; DELETE FROM t', 'INPUT_INVALID', 'more than one statement'],
    ['DELETE FROM t WHERE id = ?', 'INPUT_INVALID', 'no value'],
  ])('changes nothing: %s', async (sql, code, message) => {
    const before = fs.readFileSync(at('app.db'));
    await expect(change(sql)).rejects.toMatchObject({ code, message: expect.stringContaining(message) });
    expect(report).toBeUndefined();
    expect(fs.readFileSync(at('app.db')).equals(before)).toBe(true);
    expect(files()).toEqual(['app.db']);
  });

  test("an error of a trigger does not show the trigger's message", async () => {
    makeDatabase(at('app.db'), "CREATE TRIGGER r BEFORE DELETE ON t BEGIN SELECT RAISE(ABORT, 'name is hunter2'); END");
    await expect(change('DELETE FROM t')).rejects.toMatchObject({
      code: 'CONFLICT',
      message: 'a constraint or a trigger of the table refused the change',
    });
  });

  test.each([
    'DROP TABLE t',
    'CREATE TABLE u (a)',
    'ALTER TABLE t RENAME TO u',
    'CREATE TRIGGER x AFTER INSERT ON t BEGIN SELECT 1; END',
    'PRAGMA journal_mode = OFF',
    'PRAGMA writable_schema = 1',
    "UPDATE sqlite_schema SET sql = ''",
    "ATTACH 'x.db' AS x",
    "VACUUM INTO 'x.db'",
    'VACUUM',
    'COMMIT',
    'ROLLBACK',
    'BEGIN',
    'REINDEX t',
    "SELECT load_extension('x')",
  ])('a statement that no connection may run fails: %s', async (sql) => {
    expect(await codeOf(change(sql))).toMatch(/^(ACCESS_DENIED|INPUT_INVALID)$/);
    expect(names()).toEqual(['Ada', 'Bob']);
    expect(files()).toEqual(['app.db']);
  });
});

describe('a database with a write-ahead log', () => {
  beforeEach(() => makeDatabase(at('app.db'), 'PRAGMA journal_mode = WAL'));

  test('a database with a write-ahead log is changed and undone in one file', async () => {
    const { key } = await change('DELETE FROM t WHERE id = 1');
    expect(files()).toEqual(['app.db']);
    expect(names()).toEqual(['Bob']);
    expect(await undo(key)).toMatchObject({ restored: ['app.db'] });
    expect(names()).toEqual(['Ada', 'Bob']);
  });

  test('a database that another program has open is not changed, since undo would miss what is in the log', async () => {
    await using _ = await openElsewhere(at('app.db'), "INSERT INTO t VALUES (3, 'Cy', 1)");
    expect(await codeOf(change('DELETE FROM t'))).toBe('CONFLICT');
    expect(names()).toEqual(['Ada', 'Bob', 'Cy']);
  });

  test('a database whose writer crashed is changed with the rows of its log, and undone to them', async () => {
    {
      await using _ = await openElsewhere(at('app.db'), "INSERT INTO t VALUES (3, 'Cy', 1)");
      for (const end of ['', '-wal']) fs.copyFileSync(at(`app.db${end}`), at(`crashed.db${end}`));
    }
    const { key } = await change('DELETE FROM t WHERE id = 1', { source: { ...APP, path: 'crashed.db' } });
    expect(names('crashed.db')).toEqual(['Bob', 'Cy']);
    expect(await undo(key, ['crashed.db'])).toMatchObject({ restored: ['crashed.db'] });
    expect(names('crashed.db')).toEqual(['Ada', 'Bob', 'Cy']);
  });
});

describe('a change that is cut off', () => {
  const ENDLESS =
    'WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) UPDATE t SET age = (SELECT max(x) FROM n WHERE x < 0)';

  test('a change that is cut off is rolled back at once', async () => {
    makeDatabase(
      at('app.db'),
      'CREATE TABLE big (v); INSERT INTO big SELECT randomblob(1000) FROM json_each(json_array(1,2,3,4,5))',
    );
    const before = fs.readFileSync(at('app.db'));
    const ending = new AbortController();
    const running = codeOf(
      change(ENDLESS, { signal: ending.signal }).catch(({ message }) => Promise.reject({ code: message })),
    );
    await until(() => fs.existsSync(at('app.db-journal')) || fs.existsSync(at('app.db')), 20_000);
    await new Promise((resolve) => setTimeout(resolve, 500));
    ending.abort(new Error('enough'));
    expect(await running).toBe('enough');
    expect(report).toBeUndefined();
    await until(() => !fs.existsSync(at('app.db-journal')), 20_000);
    expect(fs.readFileSync(at('app.db')).equals(before)).toBe(true);
    expect((await change('DELETE FROM t')).changes).toBe(2);
  }, 60_000);

  test('a change whose host ends keeps what SQLite committed', async () => {
    const { key } = await change('DELETE FROM t WHERE id = 1');
    // As if the host had ended between the commit and the second entry.
    const [file] = fs.readdirSync(spool).filter((it) => it.startsWith(key)) as [string];
    const path = join(spool, file);
    const text = fs.readFileSync(path, 'latin1');
    const second = text.lastIndexOf('{"kind"');
    fs.truncateSync(path, Buffer.byteLength(text.slice(0, second), 'latin1'));
    await ws.context().rollBack(new Spool(spool, key));
    expect(names()).toEqual(['Bob']);
  });
});

describe('the file', () => {
  test('a file is not changed if a rule, a mask or its name forbids it', async () => {
    for (const rule of [ruleOf('deny', { write: '**/*.db' }), ruleOf('deny', { read: '**/*.db-wal' })]) {
      const ruled = makeWorkspace({ at: ws.path, limits, rules: [rule] });
      expect(await codeOf(change('DELETE FROM t', { in: ruled }))).toBe('POLICY_DENIED');
    }
    fs.mkdirSync(at('.git/hooks'), { recursive: true });
    fs.copyFileSync(at('app.db'), at('.git/hooks/app.db'));
    const source = { ...APP, path: '.git/hooks/app.db' };
    expect(await codeOf(change('DELETE FROM t', { source }))).toBe('ACCESS_DENIED');
    expect(await codeOf(change('DELETE FROM t', { readOnly: true }))).toBe('SANDBOX_DENIED');
    expect(names()).toEqual(['Ada', 'Bob']);
  });

  test('a read-only file is refused as such', () => {
    using readOnly = new DatabaseSync(at('app.db'), { readOnly: true });
    let thrown: unknown;
    try {
      readOnly.exec('DELETE FROM t');
    } catch (error) {
      thrown = error;
    }
    expect(asRefused(thrown, 'run').refusal).toEqual({
      code: 'ACCESS_DENIED',
      message: 'the database file may not be written',
    });
  });

  test('a link, a folder or a missing file is refused', async () => {
    fs.symlinkSync('app.db', at('link.db'));
    fs.mkdirSync(at('folder.db'));
    const code = (path: string) => codeOf(change('DELETE FROM t', { source: { ...APP, path } }));
    expect(await code('link.db')).toBe('ACCESS_DENIED');
    expect(await code('folder.db')).toBe('UNSUPPORTED');
    expect(await code('missing.db')).toBe('NOT_FOUND');
    expect(await code('../app.db')).toBe('ACCESS_DENIED');
    expect(files()).toEqual(['app.db', 'folder.db', 'link.db']);
  });

  test('a file is not changed if it is too large to be kept for undo', async () => {
    const small = makeWorkspace({ at: ws.path, limits: { ...limits, journalCallBytesMax: 4096 } });
    await expect(change('DELETE FROM t', { in: small })).rejects.toMatchObject({
      code: 'FILE_LIMIT',
      message: expect.stringContaining('undo keeps files up to 4096'),
    });
    expect(names()).toEqual(['Ada', 'Bob']);
  });

  test('a file is not changed if it differs from what a person approved', async () => {
    const preImages = await ws.context({ parts }).use(databases).preImages(APP);
    expect(preImages.map(({ path }) => path)).toEqual(['app.db', 'app.db-wal', 'app.db-journal']);
    makeDatabase(at('app.db'), "INSERT INTO t VALUES (3, 'Cy', 1)");
    expect(await codeOf(change('DELETE FROM t', { preImages }))).toBe('APPROVAL_STALE');
    const now = await ws.context({ parts }).use(databases).preImages(APP);
    expect((await change('DELETE FROM t', { preImages: now })).changes).toBe(3);
  });

  test('gets no link of a stranger as its journal or log', async () => {
    fs.writeFileSync(at('victim'), 'kept');
    for (const end of ['-journal', '-wal']) fs.symlinkSync('victim', at(`app.db${end}`));
    await change('DELETE FROM t WHERE id = 1').catch(() => {});
    expect(fs.readFileSync(at('victim'), 'utf8')).toBe('kept');
  });
});
