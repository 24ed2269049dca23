/** Statements by DuckDB on data files: values, bounds, what a statement may not do, and which files it reads. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { DuckDBInstance } from '@duckdb/node-api';
import { afterAll, afterEach, beforeEach, describe, expect, test } from 'vitest';
import { defaultLimits } from '../../../../src/base/limits.ts';
import { systemPowers } from '../../../../src/base/powers.ts';
import { databases as databasesPart, type FileSource, type Scalar } from '../../../../src/tools/context/databases.ts';
import { DuckDbChildren } from '../../../../workers/duckdb/children.ts';
import { databasesBy } from '../../../../workers/duckdb/databases-by-kind.ts';
import { SqliteChildren } from '../../../../workers/sqlite-child.ts';
import { ruleOf } from '../../../support/policy.ts';
import { makeWorkspace, type TestWorkspace, treeOf } from '../../../support/workspace.ts';

const limits = {
  ...defaultLimits,
  databaseResultBytes: 64 * 1024,
  databaseFolderEntriesMax: 30,
  databaseFolderFilesMax: 4,
};
const powers = systemPowers();
const sqlite = new SqliteChildren(limits, powers);
const duckdb = new DuckDbChildren(limits, powers);
const parts = databasesBy({ children: sqlite, duckdb });
afterAll(() => {
  sqlite[Symbol.dispose]();
  duckdb[Symbol.dispose]();
});
let ws: TestWorkspace;
let outside: string;
beforeEach(() => {
  ws = makeWorkspace({ limits });
  outside = mkdtempSync(join(tmpdir(), 'ringfence-out-'));
  writeFileSync(join(outside, 'o.csv'), 'v\noutside-canary\n');
  mkdirSync(at('data/sub'), { recursive: true });
  mkdirSync(at('other'));
  writeFileSync(at('data/people.csv'), 'id,name\n1,Ada\n2,Bob\n');
  writeFileSync(at('data/more.csv'), 'id,name\n3,Eve\n');
  writeFileSync(at('data/sub/events.json'), '{"at":"2024-01-02","n":1}\n{"at":"2024-01-03","n":2}\n');
  writeFileSync(at('other/secret.csv'), 'v\nother-canary\n');
});
afterEach(() => {
  ws[Symbol.dispose]();
  rmSync(outside, { recursive: true, force: true });
});

const at = (name: string) => join(ws.path, name);
const DATA: FileSource = { kind: 'duckdb', path: 'data', access: 'read' };

interface Asked {
  readonly source?: FileSource;
  readonly params?: readonly Scalar[] | Record<string, Scalar>;
  readonly maxRows?: number;
  readonly signal?: AbortSignal;
  readonly by?: TestWorkspace;
}
const databases = ({ by = ws, signal }: Asked = {}) =>
  by.context({ parts, ...(signal && { signal }) }).use(databasesPart);
const query = (sql: string, asked: Asked = {}) =>
  databases(asked).query(asked.source ?? DATA, { sql, params: asked.params ?? [], maxRows: asked.maxRows ?? 100 });
const codeOf = (asked: Promise<unknown>) =>
  asked.then(
    (it) => `no error: ${JSON.stringify(it)}`,
    (error) => error.code,
  );

/** Makes a DuckDB file in the workspace. */
async function makeFile(name: string, ...statements: string[]): Promise<void> {
  const instance = await DuckDBInstance.create(at(name));
  const connection = await instance.connect();
  for (const it of statements) await connection.run(it);
  connection.closeSync();
  instance.closeSync();
}

async function makeParquet(name: string, sql: string): Promise<void> {
  const instance = await DuckDBInstance.create(':memory:');
  const connection = await instance.connect();
  await connection.run(`COPY (${sql}) TO '${at(name)}' (FORMAT parquet)`);
  connection.closeSync();
  instance.closeSync();
}

describe('data files', () => {
  test('data files are queried by their names, alone, together and joined', async () => {
    await makeParquet('data/ages.parquet', 'SELECT 1 AS id, 36 AS age');
    expect(await query("SELECT * FROM 'people.csv' ORDER BY id")).toEqual({
      columns: [
        { name: 'id', type: 'BIGINT' },
        { name: 'name', type: 'VARCHAR' },
      ],
      rows: [
        [1, 'Ada'],
        [2, 'Bob'],
      ],
      durationMs: expect.any(Number),
    });
    expect((await query("SELECT count(*) FROM '*.csv'")).rows).toEqual([[3]]);
    expect((await query("SELECT n FROM 'sub/events.json' WHERE \"at\" > DATE '2024-01-02'")).rows).toEqual([[2]]);
    const joined = "SELECT name, age FROM 'people.csv' JOIN 'ages.parquet' USING (id)";
    expect((await query(joined)).rows).toEqual([['Ada', 36]]);
    expect((await query(`SELECT count(*) FROM '${at('data/people.csv')}'`)).rows).toEqual([[2]]);
  });

  test('data files are described, summarized and read without SELECT', async () => {
    for (const sql of [
      "FROM 'people.csv'",
      '-- all\n(SELECT 1) UNION (SELECT 2)',
      "DESCRIBE FROM 'people.csv'",
      "SUMMARIZE FROM 'people.csv'",
    ])
      expect((await query(sql)).rows, sql).toHaveLength(2);
    expect(
      (await query("PIVOT 'people.csv' ON name IN ('Ada', 'Bob') USING max(id)")).columns.map((it) => it.name),
    ).toContain('Ada');
  });

  test('take values of params by position and by name', async () => {
    expect((await query("SELECT name FROM 'people.csv' WHERE id = ?", { params: [2] })).rows).toEqual([['Bob']]);
    const params = { id: 1, $name: 'Ada' };
    expect((await query("SELECT id FROM 'people.csv' WHERE id = $id AND name = $name", { params })).rows).toEqual([
      [1],
    ]);
    const all = await query('SELECT ?, ?, ?, ?, ?', { params: [1, 1.5, 'x', true, null] });
    expect(all.rows).toEqual([[1, 1.5, 'x', true, null]]);
    for (const wrong of [[], [1, 2], { other: 1 }])
      expect(await codeOf(query('SELECT ?', { params: wrong }))).toBe('INPUT_INVALID');
  });

  test('hold values exactly, with their types', async () => {
    const values = [
      ['9007199254740993', '9007199254740993', 'BIGINT'],
      ['170141183460469231731687303715884105727::HUGEINT', '170141183460469231731687303715884105727', 'HUGEINT'],
      ['1.50::DECIMAL(5,2)', '1.50', 'DECIMAL(5,2)'],
      ["'\\x00\\xFF\\x80'::BLOB", 'AP+A', 'BLOB'],
      ["'nan'::DOUBLE", 'NaN', 'DOUBLE'],
      ["'-inf'::DOUBLE", '-Infinity', 'DOUBLE'],
      ["TIMESTAMP '2024-01-02 03:04:05.123456'", '2024-01-02 03:04:05.123456', 'TIMESTAMP'],
      ["DATE '2024-01-02'", '2024-01-02', 'DATE'],
      ['[1, 2, NULL]', '[1, 2, NULL]', 'INTEGER[]'],
      ["{'a': 1, 'b': 'x'}", "{'a': 1, 'b': 'x'}", 'STRUCT("a" INTEGER, "b" VARCHAR)'],
      ["'00000000-0000-0000-0000-000000000001'::UUID", '00000000-0000-0000-0000-000000000001', 'UUID'],
      ['1::TINYINT', 1, 'TINYINT'],
      ['0.1::DOUBLE', 0.1, 'DOUBLE'],
      ['true', true, 'BOOLEAN'],
      ["''", '', 'VARCHAR'],
      ['NULL', null, 'INTEGER'],
    ] as const;
    const { rows, columns } = await query(`SELECT ${values.map(([sql]) => sql).join()}`);
    expect(rows).toEqual([values.map(([, value]) => value)]);
    expect(columns.map((it) => it.type)).toEqual(values.map(([, , type]) => type));
  });

  test('give as many rows, bytes and cells as a result may hold', async () => {
    const rows = await query('FROM range(5000)', { maxRows: 7 });
    expect([rows.rows.length, rows.truncatedBy]).toEqual([7, 'rows']);
    const bytes = await query("SELECT repeat('x', 1000) FROM range(5000)", { maxRows: 5000 });
    expect([bytes.rows.length < 70, bytes.truncatedBy]).toEqual([true, 'bytes']);
    expect(await codeOf(query("SELECT repeat('x', 70000)"))).toBe('OUTPUT_LIMIT');
  });

  test('data files of many rows are grouped within the memory of a statement', async () => {
    const lines = Array.from({ length: 200_000 }, (_, it) => `${it},${it % 7}`);
    writeFileSync(at('data/big.csv'), `id,k\n${lines.join('\n')}\n`);
    const { rows } = await query("SELECT k, count(*) FROM 'big.csv' GROUP BY k ORDER BY k LIMIT 1");
    expect(rows).toEqual([[0, 28_572]]);
  });

  test('compressed or damaged data files end at most their own query', async () => {
    writeFileSync(at('data/bad.parquet'), 'PAR1 not a parquet file PAR1');
    writeFileSync(at('data/bad.json'), '{"a": ');
    for (const it of ['bad.parquet', 'bad.json'])
      expect(await codeOf(query(`SELECT * FROM '${it}'`))).toMatch(/^(INPUT_INVALID|UNSUPPORTED)$/);
    expect((await query('SELECT 1')).rows).toEqual([[1]]);
  });
});

describe('a statement', () => {
  test.each([
    "COPY (SELECT 1) TO 'out.csv'",
    "COPY people FROM 'people.csv'",
    'CREATE TABLE t (a INT)',
    "CREATE TABLE t AS FROM 'people.csv'",
    'CREATE SECRET s (TYPE http)',
    "ATTACH 'x.duckdb'",
    "ATTACH '/tmp/x.duckdb' AS x (TYPE sqlite)",
    'INSTALL httpfs',
    'LOAD httpfs',
    'SET threads = 8',
    'SET enable_external_access = true',
    'RESET lock_configuration',
    'PRAGMA threads = 8',
    'PRAGMA enable_profiling',
    "EXPORT DATABASE 'out'",
    "IMPORT DATABASE 'out'",
    'CALL pragma_version()',
    "EXPLAIN ANALYZE COPY (SELECT 1) TO 'out.csv'",
    'PREPARE p AS SELECT 1',
    "EXPORT DATABASE 'out' -- SELECT",
    "--\rEXPORT DATABASE 'out' --\nSELECT 1",
    "/* /* */ SELECT */ EXPORT DATABASE 'out'",
    'WITH x AS (SELECT 1 AS a) INSERT INTO t FROM x',
    'BEGIN',
    'VACUUM',
    'CHECKPOINT',
    "SELECT * FROM 'https://example.org/a.csv'",
    "SELECT * FROM sqlite_scan('a.db', 't')",
  ])('a statement that does not read is refused, and changes nothing: %s', async (sql) => {
    const before = treeOf(ws.path);
    expect(await codeOf(query(sql))).toMatch(/^(ACCESS_DENIED|INPUT_INVALID|UNSUPPORTED|NOT_FOUND)$/);
    expect(treeOf(ws.path)).toEqual(before);
  });

  test.each([
    'SELECT 1; SELECT 2',
    "SELECT 1; COPY (SELECT 1) TO 'out.csv'",
    ' ',
    '-- nothing',
    'SELECT FROM',
    'SELECT no',
  ])('a text other than one valid statement is INPUT_INVALID: %s', async (sql) => {
    expect(await codeOf(query(sql))).toBe('INPUT_INVALID');
    expect(treeOf(at('data'))['out.csv']).toBeUndefined();
  });

  test('a statement has the memory and the threads of its limits, and no temporary files', async () => {
    const names = ['threads', 'memory_limit', 'temp_directory', 'lock_configuration', 'enable_external_access'];
    const { rows } = await query(`SELECT ${names.map((it) => `current_setting('${it}')`).join()}`);
    expect(rows).toEqual([[2, '256.0 MiB', '', true, false]]);
  });

  test('writes no log', async () => {
    const path = at('data/log');
    const on = `FROM enable_logging(level = 'trace', storage = 'file', storage_path = '${path}')`;
    for (const sql of [`SELECT * ${on}`, `SELECT write_log('x', level := 'error') ${on}`]) await codeOf(query(sql));
    expect(Object.keys(treeOf(at('data')))).not.toContain('log');
  });

  test('a statement is explained without running', async () => {
    const explain = (sql: string) => databases().explain(DATA, { sql, params: [], maxRows: 100 });
    expect(JSON.stringify((await explain("SELECT * FROM 'people.csv'")).rows)).toMatch(/READ_CSV/);
    expect(await codeOf(explain("ANALYZE COPY (SELECT 1) TO 'out.csv'"))).toMatch(/^(ACCESS_DENIED|INPUT_INVALID)$/);
    expect(await codeOf(explain("COPY (SELECT 1) TO 'out.csv'"))).toBe('ACCESS_DENIED');
    expect(treeOf(at('data'))['out.csv']).toBeUndefined();
  });

  test('a statement whose error comes of rows does not say their values', async () => {
    writeFileSync(at('data/odd.csv'), 'id;a\n"canary-77;\n');
    for (const sql of [
      "SELECT CAST(name AS INT) FROM 'people.csv'",
      "SELECT error(name) FROM 'people.csv'",
      "SELECT * FROM read_csv('odd.csv', columns = {'a': 'INT'}, header = true)",
    ]) {
      const message = await query(sql).then(
        () => 'no error',
        (error) => `${error.code} ${error.message}`,
      );
      expect(message).toMatch(/^INPUT_INVALID/);
      expect(message).not.toMatch(/Ada|Bob|canary/);
    }
  });

  test.each([
    [
      'a cross join',
      'SELECT count(*) FROM range(1000000) a, range(1000000) b, range(1000) c WHERE a.range * b.range = -1',
    ],
    ['a recursion', 'WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT max(x) FROM n'],
  ])('an endless statement ends with its call: %s', async (_, sql) => {
    const control = new AbortController();
    const asked = codeOf(query(sql, { signal: control.signal }));
    setTimeout(() => control.abort(Object.assign(new Error('cut'), { code: 'CUT' })), 300);
    expect(await asked).toBe('CUT');
    expect((await query('SELECT 1')).rows).toEqual([[1]]);
  });

  test.each([
    ['one value of 200 MB', "SELECT repeat('x', 200000000)"],
    ['many large values', "SELECT repeat('x', 10000000) || range FROM range(2000)"],
    ['a large list', 'SELECT range(500000000)'],
    [
      'a sort that does not fit',
      'SELECT * FROM (SELECT hash(range) h, range::VARCHAR || h FROM range(30000000)) ORDER BY h',
    ],
    ['an aggregate that does not fit', 'SELECT list(range) FROM range(100000000)'],
  ])(
    'a statement that needs too much memory is refused: %s',
    async (_, sql) => {
      expect(await codeOf(query(sql))).toMatch(/^(MEMORY_LIMIT|OUTPUT_LIMIT|HOST_CRASHED)$/);
      expect((await query('SELECT 1')).rows).toEqual([[1]]);
    },
    60_000,
  );
});

describe('a folder', () => {
  test.each([
    '/etc/passwd',
    '../other/secret.csv',
    'sub/../../other/secret.csv',
    'link.csv',
    'links/secret.csv',
    'link*',
    'link?/*.csv',
    '*/secret.csv',
    '**/secret.csv',
    'l*/../../other/secret.csv',
    'file:../other/secret.csv',
    'file:///etc/passwd',
    '/proc/self/environ',
    '/proc/self/cwd/../other/secret.csv',
  ])("files outside the connection's folder are not read: %s", async (name) => {
    symlinkSync('../other/secret.csv', at('data/link.csv'));
    symlinkSync('../other', at('data/links'));
    symlinkSync(outside, at('data/linkx'));
    for (const sql of ["SELECT * FROM read_text('NAME')", "SELECT * FROM 'NAME'"]) {
      const got = await codeOf(query(sql.replace('NAME', name)));
      expect(got).not.toMatch(/canary|root:/);
    }
    expect(await codeOf(query(`SELECT * FROM read_text('${join(outside, 'o.csv')}')`))).toBe('ACCESS_DENIED');
    expect(await codeOf(query("SELECT * FROM glob('../*')"))).toBe('ACCESS_DENIED');
  });

  test('a folder with a file that a rule refuses gives the others, by their names', async () => {
    writeFileSync(at('data/.env'), 'KEY=env-canary\n');
    for (const decision of ['deny', 'ask'] as const) {
      const ruled = makeWorkspace({ at: ws.path, limits, rules: [ruleOf(decision, { path: '**/.env' })] });
      expect((await query("SELECT count(*) FROM 'people.csv'", { by: ruled })).rows).toEqual([[2]]);
      for (const sql of ["SELECT * FROM read_text('.env')", "SELECT * FROM read_text('*')", "SELECT * FROM glob('*')"])
        expect(await codeOf(query(sql, { by: ruled }))).toBe('ACCESS_DENIED');
    }
  });

  test('a folder that a rule refuses, lies outside or has too many entries is not read', async () => {
    for (const path of ['../x', outside])
      expect(await codeOf(query('SELECT 1', { source: { ...DATA, path } }))).toBe('ACCESS_DENIED');
    expect(await codeOf(query('SELECT 1', { source: { ...DATA, path: 'nowhere' } }))).toBe('NOT_FOUND');
    symlinkSync(outside, at('away'));
    expect(await codeOf(query('SELECT 1', { source: { ...DATA, path: 'away' } }))).toBe('ACCESS_DENIED');
    for (let it = 0; it < 30; it += 1) writeFileSync(at(`data/f${it}.txt`), '');
    expect(await codeOf(query('SELECT 1'))).toBe('FILE_LIMIT');
  });

  test('shows the columns of its data files', async () => {
    await makeParquet('data/ages.parquet', 'SELECT 1 AS id, 1.5::DECIMAL(4,1) AS age');
    writeFileSync(at('data/notes.txt'), 'text');
    const { table, indexes } = await databases().schema(DATA, undefined, 100);
    expect(table.rows.map((it) => it.slice(0, 4))).toEqual([
      ['ages.parquet', 'parquet', 'id', 'INTEGER'],
      ['ages.parquet', 'parquet', 'age', 'DECIMAL(4,1)'],
      ['more.csv', 'csv', 'id', 'BIGINT'],
      ['more.csv', 'csv', 'name', 'VARCHAR'],
      ['people.csv', 'csv', 'id', 'BIGINT'],
      ['people.csv', 'csv', 'name', 'VARCHAR'],
      ['sub/events.json', 'json', 'at', 'DATE'],
      ['sub/events.json', 'json', 'n', 'BIGINT'],
    ]);
    expect([table.truncatedBy, indexes]).toEqual([undefined, []]);
    writeFileSync(at("data/a'b.csv"), 'x\n1\n');
    const more = await databases().schema(DATA, undefined, 100);
    expect([more.table.rows[0]?.slice(0, 3), more.table.truncatedBy]).toEqual([["a'b.csv", 'csv', 'x'], 'rows']);
    expect((await databases().schema(DATA, 'people.csv', 100)).table.rows).toHaveLength(2);
    expect(await codeOf(databases().schema(DATA, '../other/secret.csv', 100))).toBe('NOT_FOUND');
  });
});

describe('a DuckDB file', () => {
  const FILE: FileSource = { ...DATA, path: 'data/app.duckdb' };

  test('a DuckDB file is read, with its tables and views, and stays unchanged', async () => {
    await makeFile(
      'data/app.duckdb',
      'CREATE TABLE users (id INTEGER PRIMARY KEY, name VARCHAR NOT NULL)',
      'CREATE TABLE posts (id INTEGER, author INTEGER REFERENCES users (id))',
      "INSERT INTO users VALUES (1, 'Ada')",
      'CREATE VIEW names AS SELECT name FROM users',
      `CREATE VIEW evil AS SELECT * FROM read_text('${at('data/people.csv')}')`,
    );
    const before = treeOf(at('data'));
    expect((await query('SELECT * FROM names', { source: FILE })).rows).toEqual([['Ada']]);
    const { table } = await databases().schema(FILE, undefined, 100);
    const rows = table.rows.map((it) => it.map(String).join('|'));
    expect(rows).toContain('users|table|id|INTEGER|true|true|null|null');
    expect(rows).toContain('users|table|name|VARCHAR|true|false|null|null');
    expect(rows).toContain('posts|table|author|INTEGER|false|false|null|users(id)');
    expect(rows.some((it) => it.startsWith('names|view|name|VARCHAR'))).toBe(true);
    expect((await databases().schema(FILE, 'posts', 100)).table.rows).toHaveLength(2);
    expect(await codeOf(databases().schema(FILE, 'nothing', 100))).toBe('NOT_FOUND');
    expect(await codeOf(query('SELECT * FROM evil', { source: FILE }))).toBe('ACCESS_DENIED');
    expect(await codeOf(query("SELECT * FROM read_text('people.csv')", { source: FILE }))).toBe('ACCESS_DENIED');
    expect(await codeOf(query("INSERT INTO users VALUES (2, 'Bob')", { source: FILE }))).toBe('ACCESS_DENIED');
    expect(treeOf(at('data'))).toEqual(before);
  });

  test('a DuckDB file that another program writes is CONFLICT, and is read with the log that it left', async () => {
    await makeFile('data/app.duckdb', 'CREATE TABLE t (a INT)');
    const code = `import { DuckDBInstance } from '@duckdb/node-api';
      const instance = await DuckDBInstance.create(process.argv[1]);
      const connection = await instance.connect();
      await connection.run('INSERT INTO t VALUES (7)');
      process.stdout.write('open');
      setInterval(() => connection, 1000);`;
    const args = ['--input-type=module', '-e', code, at('data/app.duckdb')];
    const writer = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
    await once(writer.stdout, 'data');
    expect(await codeOf(query('SELECT * FROM t', { source: FILE }))).toBe('CONFLICT');
    const ended = once(writer, 'exit');
    writer.kill('SIGKILL');
    await ended;
    expect(Object.keys(treeOf(at('data')))).toContain('app.duckdb.wal');
    expect((await query('SELECT * FROM t', { source: FILE })).rows).toEqual([[7]]);
  });

  test('a file of another format, or a DuckDB file whose log a rule refuses, is not read', async () => {
    const other = (path: string) => query('SELECT 1', { source: { ...DATA, path } });
    expect(await codeOf(other('data/people.csv'))).toBe('UNSUPPORTED');
    await makeFile('data/app.duckdb', 'CREATE TABLE t (a INT)');
    const rules = [ruleOf('deny', { path: '**/*.wal' })];
    const ruled = makeWorkspace({ at: ws.path, limits, rules });
    expect(await codeOf(query('SELECT 1', { source: FILE, by: ruled }))).toBe('POLICY_DENIED');
  });
});

test('without the package the error says how to install it', async () => {
  using none = new DuckDbChildren(limits, powers, pathToFileURL(join(outside, 'x.js')).href);
  const asked = ws
    .context({ parts: databasesBy({ children: sqlite, duckdb: none }) })
    .use(databasesPart)
    .query(DATA, { sql: 'SELECT 1', params: [], maxRows: 1 });
  const error = await asked.catch((it) => it);
  expect([error.code, error.extras.suggestion]).toEqual([
    'UNSUPPORTED',
    expect.stringContaining('npm i @duckdb/node-api'),
  ]);
});
