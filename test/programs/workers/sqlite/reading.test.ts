/** Statements on read connections: values, bounds, what a statement may not do, and which file it reads. */
import { mkdirSync, renameSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import * as fc from 'fast-check';
import { afterAll, afterEach, beforeEach, describe, expect, test } from 'vitest';
import { defaultLimits } from '../../../../src/base/limits.ts';
import { systemPowers } from '../../../../src/base/powers.ts';
import { databases, type FileSource, type Scalar } from '../../../../src/tools/context/databases.ts';
import { databasesBy } from '../../../../workers/duckdb/databases-by-kind.ts';
import { SqliteChildren } from '../../../../workers/sqlite-child.ts';
import { ruleOf } from '../../../support/policy.ts';
import { makeDatabase, rowsOf } from '../../../support/sqlite.ts';
import { makeWorkspace, type TestWorkspace, treeOf } from '../../../support/workspace.ts';

const limits = { ...defaultLimits, databaseResultBytes: 64 * 1024, databaseLockMs: 200 };
const sqlite = new SqliteChildren(limits, systemPowers());
const parts = databasesBy({ children: sqlite });
afterAll(() => sqlite[Symbol.dispose]());
let ws: TestWorkspace;
beforeEach(() => {
  ws = makeWorkspace({ limits });
  makeDatabase(
    at('app.db'),
    "CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT); INSERT INTO t VALUES (1, 'Ada'), (2, NULL)",
  );
});
afterEach(() => ws[Symbol.dispose]());

const at = (name: string) => join(ws.path, name);
const APP: FileSource = { kind: 'sqlite', path: 'app.db', access: 'read' };

interface Asked {
  readonly source?: FileSource;
  readonly params?: readonly Scalar[] | Record<string, Scalar>;
  readonly maxRows?: number;
  readonly signal?: AbortSignal;
}
function query(sql: string, { source = APP, params = [], maxRows = 100, signal }: Asked = {}) {
  return ws
    .context({ parts, ...(signal && { signal }) })
    .use(databases)
    .query(source, { sql, params, maxRows });
}
const codeOf = (asked: Promise<unknown>) =>
  asked.then(
    () => 'no error',
    (error) => error.code,
  );

describe('rows', () => {
  test('come with the names, types and declared types of their columns', async () => {
    expect(await query('SELECT id, name, id + 0.5 AS half FROM t')).toEqual({
      columns: [
        { name: 'id', type: 'integer', declared: 'INTEGER' },
        { name: 'name', type: 'text', declared: 'TEXT' },
        { name: 'half', type: 'real' },
      ],
      rows: [
        [1, 'Ada', 1.5],
        [2, null, 2.5],
      ],
      durationMs: expect.any(Number),
    });
  });

  test.each([
    ['9007199254740991', [9007199254740991], 'integer'],
    ['9007199254740993', ['9007199254740993'], 'integer'],
    ['-9223372036854775808', ['-9223372036854775808'], 'integer'],
    ['9e999', ['Infinity'], 'real'],
    ['-9e999', ['-Infinity'], 'real'],
    ["x'00ff80'", ['AP+A'], 'blob'],
    ["x''", [''], 'blob'],
    ["''", [''], 'text'],
    ["'a' || char(0) || 'b'", ['a\0b'], 'text'],
    ['NULL', [null], 'null'],
    ['9e999 - 9e999', [null], 'null'],
  ])('hold %s exactly', async (sql, row, type) => {
    const { rows, columns } = await query(`SELECT ${sql} AS it`);
    expect({ rows, type: columns[0]?.type }).toEqual({ rows: [row], type });
  });

  test('rows whose types differ say their type in each cell', async () => {
    const { columns, rows } = await query("SELECT * FROM (VALUES (1), ('1'), (x'31'), (NULL), (9007199254740993))");
    expect(columns[0]?.type).toBe('mixed');
    expect(rows.flat()).toEqual([
      { type: 'integer', value: 1 },
      { type: 'text', value: '1' },
      { type: 'blob', value: 'MQ==' },
      null,
      { type: 'integer', value: '9007199254740993' },
    ]);
  });

  test('integers and reals in rows are numbers', async () => {
    const { columns, rows } = await query('SELECT * FROM (VALUES (1), (1.5), (9007199254740993))');
    expect([columns[0]?.type, rows.flat()]).toEqual(['numeric', [1, 1.5, '9007199254740993']]);
  });

  test('an empty result still has the types of its columns', async () => {
    const { columns, rows } = await query('SELECT id, name, 1 + 1 FROM t WHERE 0');
    expect([columns.map(({ type }) => type), rows]).toEqual([['integer', 'text', 'null'], []]);
  });

  test('lose nothing, whatever a database holds', async () => {
    const value = fc.oneof(
      fc.constant(null),
      fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }),
      fc.constantFrom(0, 5, -1, 2 ** 53, 0.5),
      fc.double({ noNaN: true }).map((it) => (Object.is(it, -0) ? 0 : it)),
      fc.string({ unit: 'grapheme' }).filter((it) => it.isWellFormed()),
      fc.uint8Array({ maxLength: 40 }),
    );
    let file = 0;
    await fc.assert(
      fc.asyncProperty(fc.array(fc.tuple(value, value), { minLength: 1, maxLength: 8 }), async (rows) => {
        const name = `p${file++}.db`;
        {
          using database = new DatabaseSync(at(name));
          database.exec('CREATE TABLE v (n INTEGER PRIMARY KEY, a, b)');
          const insert = database.prepare('INSERT INTO v (a, b) VALUES (?, ?)');
          for (const row of rows) insert.run(...row);
        }
        const table = await query('SELECT a, b FROM v ORDER BY n', { source: { ...APP, path: name } });
        const back = table.rows.map((row) => row.map((it, column) => fromCell(it, table.columns[column]?.type)));
        const meant = rows.map((row) => row.map((it, column) => toComparable(it, table.columns[column]?.type)));
        expect(back).toEqual(meant);
        rmSync(at(name));
      }),
      { numRuns: 60 },
    );
  }, 60_000);
});

/** The value that a cell stands for; blobs as lists of bytes. */
function fromCell(cell: unknown, type: string | undefined): unknown {
  if (cell === null) return null;
  if (typeof cell === 'object') return fromCell((cell as { value: unknown }).value, (cell as { type: string }).type);
  if (type === 'blob') return [...Buffer.from(cell as string, 'base64')];
  if (type === 'integer') return BigInt(cell as string | number);
  if (type === 'text') return cell;
  if (type === 'numeric') return typeof cell === 'string' && /^-?\d+$/.test(cell) ? BigInt(cell) : numeric(cell);
  return Number(cell);
}
/** A value as `fromCell` gives it. */
function toComparable(value: unknown, type: string | undefined): unknown {
  if (value instanceof Uint8Array) return [...value];
  return type === 'numeric' ? numeric(value) : value;
}

/** An integer of a numeric column and a real without fraction are the same number. */
function numeric(value: unknown): unknown {
  if (value === null || typeof value === 'bigint') return value;
  return Number.isSafeInteger(value) ? BigInt(value as number) : Number(value);
}

describe('parameters', () => {
  test.each([
    [['1'], '1', 'text'],
    [[1], 1, 'integer'],
    [[1.5], 1.5, 'real'],
    [[true], 1, 'integer'],
    [[null], null, 'null'],
    [{ it: "'; DROP TABLE t" }, "'; DROP TABLE t", 'text'],
    [{ ':it': 2 }, 2, 'integer'],
  ])('%j are values of their type', async (params, value, type) => {
    const sql = Array.isArray(params) ? 'SELECT ?, typeof(?1)' : 'SELECT :it, typeof(:it)';
    expect((await query(sql, { params })).rows).toEqual([[value, type]]);
  });

  test.each([
    ['SELECT ?', []],
    ['SELECT ?, ?', [1]],
    ['SELECT 1', [1]],
    ['SELECT :a', { b: 1 }],
    ['SELECT :a, :b', { a: 1 }],
  ])('must be as many as %s has: %j', async (sql, params) => {
    expect(await codeOf(query(sql, { params }))).toBe('INPUT_INVALID');
  });
});

describe('bounds', () => {
  const numbers = (count: number) =>
    `WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n LIMIT ${count}) SELECT x FROM n`;

  test('cut rows, and say so only if there are more', async () => {
    expect(await query(numbers(5), { maxRows: 4 })).toMatchObject({ truncatedBy: 'rows', rows: [[1], [2], [3], [4]] });
    expect((await query(numbers(5), { maxRows: 5 })).truncatedBy).toBeUndefined();
  });

  test('cut bytes', async () => {
    const { rows, truncatedBy } = await query("SELECT printf('%.*c', 10000, 'x') FROM t, t AS u, t AS v");
    expect([rows.length, truncatedBy]).toEqual([6, 'bytes']);
  });

  test('cut cells, so that a result fits into a message, and count those that say their type as more', async () => {
    const few = { ...limits, databaseCellsMax: 30 };
    const rowsOf = async (sql: string) => {
      const asked = { sql, params: [], maxRows: 100 };
      const { rows, truncatedBy } = await makeWorkspace({ at: ws.path, limits: few })
        .context({ parts })
        .use(databases)
        .query(APP, asked);
      return [rows.length, truncatedBy];
    };
    const mixed = "SELECT iif(x % 2, x, 'x'), x FROM n";
    const n = 'WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n LIMIT 50)';
    expect(await rowsOf(`${n} SELECT x, x FROM n`)).toEqual([10, 'cells']);
    expect(await rowsOf(`${n} ${mixed}`)).toEqual([4, 'cells']);
    expect(await rowsOf(`${n} SELECT x, x FROM n LIMIT 10`)).toEqual([10, undefined]);
  });

  test.each([
    ["SELECT printf('%.*c', 100000, 'x')", 'OUTPUT_LIMIT'],
    ["SELECT printf('%.*c', 200000000, 'x')", 'OUTPUT_LIMIT'],
    ['SELECT zeroblob(200000000)', 'OUTPUT_LIMIT'],
    ['SELECT length(randomblob(100000000))', 'OUTPUT_LIMIT'],
    ["SELECT length(replace(hex(zeroblob(8000000)), '0', 'xxxxxxxx'))", 'OUTPUT_LIMIT'],
    [
      'WITH RECURSIVE b(x) AS (SELECT zeroblob(10000000) UNION ALL SELECT randomblob(10000000) FROM b) SELECT length(x) FROM b ORDER BY x',
      'MEMORY_LIMIT',
    ],
    ["WITH RECURSIVE b(x) AS (SELECT 'x' UNION ALL SELECT x || x FROM b) SELECT max(length(x)) FROM b", 'OUTPUT_LIMIT'],
  ])(
    'refuse %s',
    async (sql, code) => {
      expect(await codeOf(query(sql))).toBe(code);
      expect((await query('SELECT 1')).rows).toEqual([[1]]);
    },
    30_000,
  );

  test.each([
    'SELECT count(*) FROM t a, t b, t c, t d, t e, t f, t g, t h, t i, t j, t k, t l, t m, t n, t o, t p, t q, t r, t s, t u, t v, t w, t x, t y, t z, t aa, t bb, t cc, t dd, t ee, t ff, t gg, t hh, t ii, t jj, t kk',
    'WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n',
  ])(
    'a statement that does not end is ended with its call: %s',
    async (sql) => {
      const ending = new AbortController();
      const running = codeOf(
        query(sql, { signal: ending.signal }).catch((error) => Promise.reject({ code: error.message })),
      );
      await new Promise((resolve) => setTimeout(resolve, 300));
      const startedMs = performance.now();
      ending.abort(new Error('enough'));
      expect(await running).toBe('enough');
      expect(performance.now() - startedMs).toBeLessThan(5_000);
      expect((await query('SELECT 1')).rows).toEqual([[1]]);
    },
    30_000,
  );
});

describe('a statement', () => {
  test.each([
    "INSERT INTO t VALUES (3, 'x')",
    'UPDATE t SET name = 1',
    'DELETE FROM t',
    'DROP TABLE t',
    'CREATE TABLE u (a)',
    'CREATE TEMP TABLE u (a)',
    'CREATE VIRTUAL TABLE u USING fts5(a)',
    "ATTACH DATABASE '/etc/passwd' AS p",
    "ATTACH DATABASE 'file:/etc/passwd?immutable=1' AS p",
    "ATTACH ':memory:' AS m",
    'PRAGMA user_version = 7',
    'PRAGMA journal_mode = DELETE',
    "PRAGMA temp_store_directory = '/etc'",
    "SELECT * FROM pragma_table_info('t')",
    'VACUUM',
    "VACUUM INTO 'copy.db'",
    'BEGIN',
    'SAVEPOINT a',
    'ANALYZE',
    "SELECT load_extension('/tmp/x.so')",
    "SELECT fts3_tokenizer('simple')",
    'EXPLAIN DELETE FROM t',
  ])('a statement that does not read is refused: %s', async (sql) => {
    const before = treeOf(ws.path);
    expect(await codeOf(query(sql))).toMatch(/^(ACCESS_DENIED|INPUT_INVALID)$/);
    expect(treeOf(ws.path)).toEqual(before);
  });

  test('stays alone: a second one is refused, and spaces, comments and semicolons after it are not', async () => {
    for (const it of [
      'SELECT 1; SELECT 2',
      'SELECT 1; DELETE FROM t',
      'SELECT 1;;x',
      'SELECT 1 /* a */; -- b\n;SELECT 2',
      'SELECT 1; /* a */ x',
    ])
      expect(await codeOf(query(it)), it).toBe('INPUT_INVALID');
    for (const it of ['SELECT 1;', 'SELECT 1 ; -- b', 'SELECT 1;; \n/* a ; */ --', '/* x */ SELECT 1; /* open'])
      expect((await query(it)).rows, it).toEqual([[1]]);
    for (const it of ['', ' ', ';', '-- only', '/* only */']) expect(await codeOf(query(it)), it).toBe('INPUT_INVALID');
  });

  test('a statement whose error comes of its text says what is wrong with it', async () => {
    await expect(query('SELEC 1')).rejects.toThrow(/near "SELEC": syntax error/);
    await expect(query('SELECT nowhere FROM t')).rejects.toThrow(/no such column: nowhere/);
    await expect(query('PRAGMA table_info(t)')).rejects.toMatchObject({ extras: { suggestion: /database_schema/ } });
  });

  test('a statement whose error comes of rows does not say their values', async () => {
    makeDatabase(at('s.db'), "CREATE TABLE s (v); INSERT INTO s VALUES ('hunter2secret')");
    const source = { ...APP, path: 's.db' };
    for (const sql of [
      "SELECT json_extract('{}', v) FROM s",
      'SELECT json(v) FROM s',
      "SELECT 1 FROM s WHERE 'a' LIKE 'a' ESCAPE v",
    ]) {
      const said = await query(sql, { source }).then(String, String);
      expect(said, sql).toMatch(/failed while it ran/);
      expect(said).not.toContain('hunter2');
    }
  });
});

describe('the file', () => {
  const other = (path: string) => query('SELECT 1 FROM sqlite_schema', { source: { ...APP, path } });

  test('must be a database in the workspace that the rules let be read', async () => {
    writeFileSync(at('text.db'), 'no database at all, but a text that is long enough to be one\n'.repeat(20));
    mkdirSync(at('folder.db'));
    symlinkSync('/etc/passwd', at('out.db'));
    symlinkSync('app.db', at('link.db'));
    expect(await codeOf(other('text.db'))).toBe('UNSUPPORTED');
    expect(await codeOf(other('folder.db'))).toBe('UNSUPPORTED');
    expect(await codeOf(other('missing.db'))).toBe('NOT_FOUND');
    expect(await codeOf(other('../app.db'))).toBe('ACCESS_DENIED');
    expect(await codeOf(other(at('app.db')))).toBe('ACCESS_DENIED');
    expect(await codeOf(other('out.db'))).toBe('ACCESS_DENIED');
    expect(await codeOf(other('file:app.db'))).toBe('NOT_FOUND');
    expect(await codeOf(other('app.db?mode=rwc'))).toBe('NOT_FOUND');
    expect(await codeOf(other('link.db'))).toBe('no error');
  });

  test('a database file may have a name that means something in a URL', async () => {
    const name = 'a b?mode=memory#%20.db';
    makeDatabase(at('plain.db'), "CREATE TABLE u (a); INSERT INTO u VALUES ('right')");
    renameSync(at('plain.db'), at(name));
    expect((await query('SELECT a FROM u', { source: { ...APP, path: name } })).rows).toEqual([['right']]);
  });

  test.each(['**/app.db', '**/*-wal', '**/*-journal'])(
    'a database file is not read if a rule denies %s',
    async (path) => {
      using ruled = makeWorkspace({ at: ws.path, limits, rules: [ruleOf('deny', { path })] });
      const asked = ruled.context({ parts }).use(databases).query(APP, { sql: 'SELECT 1', params: [], maxRows: 1 });
      expect(await codeOf(asked)).toBe('POLICY_DENIED');
      ws = makeWorkspace({ limits });
    },
  );

  test('a database file is refused if another one replaces it while SQLite opens it', async () => {
    makeDatabase(at('other.db'), "CREATE TABLE t (id, name); INSERT INTO t VALUES (9, 'other')");
    let swaps = 0;
    let isOver = false;
    const swapping = (async () => {
      for (; !isOver; swaps += 1) {
        renameSync(at('app.db'), at('kept.db'));
        symlinkSync('other.db', at('app.db'));
        await new Promise((resolve) => setImmediate(resolve));
        rmSync(at('app.db'));
        renameSync(at('kept.db'), at('app.db'));
        await new Promise((resolve) => setImmediate(resolve));
      }
    })();
    // The rules let either be read; which file was checked shows in the rows.
    using ruled = makeWorkspace({ at: ws.path, limits, rules: [ruleOf('deny', { path: 'other.db' })] });
    for (let round = 0; round < 150; round += 1) {
      const asked = ruled
        .context({ parts })
        .use(databases)
        .query(APP, { sql: 'SELECT name FROM t', params: [], maxRows: 1 });
      const got = await asked.then(
        (it) => it.rows[0]?.[0],
        (error) => error.code,
      );
      expect(got).not.toBe('other');
    }
    isOver = true;
    await swapping;
    expect(swaps).toBeGreaterThan(0);
    ws = makeWorkspace({ limits });
  }, 60_000);

  test('a file with a write-ahead log is read while another program writes, and when none does', async () => {
    const source = { ...APP, path: 'wal.db' };
    const writer = new DatabaseSync(at('wal.db'));
    writer.exec('PRAGMA journal_mode = WAL; CREATE TABLE w (a); INSERT INTO w VALUES (1)');
    expect((await query('SELECT count(*) FROM w', { source })).rows).toEqual([[1]]);
    writer.exec('BEGIN IMMEDIATE; INSERT INTO w VALUES (2)');
    expect((await query('SELECT count(*) FROM w', { source })).rows).toEqual([[1]]);
    writer.exec('COMMIT');
    expect((await query('SELECT count(*) FROM w', { source })).rows).toEqual([[2]]);
    writer.close();
    expect((await query('SELECT count(*) FROM w', { source })).rows).toEqual([[2]]);
    expect(rowsOf(at('wal.db'), 'SELECT count(*) FROM w')).toEqual([[2]]);
  });

  test('a file that another program has locked is CONFLICT', async () => {
    using writer = new DatabaseSync(at('app.db'));
    writer.exec('BEGIN EXCLUSIVE');
    expect(await codeOf(query('SELECT 1 FROM t'))).toBe('CONFLICT');
  });

  test('a query leaves the file unchanged', async () => {
    const before = statSync(at('app.db'), { bigint: true });
    await query('SELECT * FROM t');
    const after = statSync(at('app.db'), { bigint: true });
    expect([after.mtimeNs, after.size, treeOf(ws.path)['app.db-journal']]).toEqual([
      before.mtimeNs,
      before.size,
      undefined,
    ]);
  });
});

describe('the schema', () => {
  const SQL = `
    CREATE TABLE users (id INTEGER PRIMARY KEY, mail TEXT NOT NULL UNIQUE, age INT DEFAULT 18);
    CREATE TABLE posts (id INTEGER PRIMARY KEY, author INTEGER REFERENCES users (id), text);
    CREATE INDEX by_author ON posts (author, lower(text));
    CREATE VIEW grown AS SELECT * FROM users WHERE age >= 18;
    CREATE VIRTUAL TABLE search USING fts5(body);`;

  test('lists columns, keys, references, views and indexes', async () => {
    makeDatabase(at('s.db'), SQL);
    const { table, indexes } = await ws
      .context({ parts })
      .use(databases)
      .schema({ ...APP, path: 's.db' }, undefined, 100);
    const rows = table.rows.map((row) => row.map((it) => String((it as string | number | null) ?? '')).join('|'));
    expect(table.columns.map(({ name }) => name).join('|')).toBe(
      'table|kind|column|type|notNull|primaryKey|default|references',
    );
    expect(rows).toContain('users|table|mail|TEXT|1|0||');
    expect(rows).toContain('users|table|age|INT|0|0|18|');
    expect(rows).toContain('posts|table|author|INTEGER|0|0||users(id)');
    expect(rows).toContain('grown|view|mail|TEXT|0|0||');
    expect(rows.filter((it) => it.startsWith('search'))).toEqual(['search|virtual|body||0|0||']);
    expect(indexes).toContainEqual({ table: 'posts', name: 'by_author', unique: false, columns: ['author', null] });
    expect(indexes).toContainEqual(expect.objectContaining({ table: 'users', unique: true, columns: ['mail'] }));
  });

  test('a schema of a hostile size is cut', async () => {
    const columns = Array.from({ length: 200 }, (_, at) => `c${at}`).join();
    const indexes = Array.from({ length: 300 }, (_, at) => `CREATE INDEX i${at} ON wide (${columns});`).join('\n');
    makeDatabase(at('s.db'), `CREATE TABLE wide (${columns}); ${indexes}`);
    const schema = await ws
      .context({ parts })
      .use(databases)
      .schema({ ...APP, path: 's.db' }, undefined, 1000);
    expect(schema.indexes).toHaveLength(250);
    expect(schema.indexes[0]?.columns).toHaveLength(32);
    expect(schema.table.truncatedBy).toBe('cells');
  });

  test('the schema of one table is found by its name, whatever characters that holds', async () => {
    makeDatabase(at('s.db'), `CREATE TABLE "a'; DROP" (x); CREATE TABLE b (y)`);
    const schema = (name: string) =>
      ws
        .context({ parts })
        .use(databases)
        .schema({ ...APP, path: 's.db' }, name, 100);
    expect((await schema("a'; DROP")).table.rows.map((it) => it[2])).toEqual(['x']);
    expect(await codeOf(schema('c'))).toBe('NOT_FOUND');
  });

  test('explains a statement without running it', async () => {
    makeDatabase(at('s.db'), SQL);
    const asked = { sql: 'SELECT * FROM users WHERE mail = ?', params: ['a'], maxRows: 10 };
    const { rows } = await ws
      .context({ parts })
      .use(databases)
      .explain({ ...APP, path: 's.db' }, asked);
    expect(JSON.stringify(rows)).toMatch(/SEARCH users USING INDEX/);
  });
});
