/**
 * One login at a MySQL or MariaDB server. Statements are prepared, so that there is one, after the server has taken
 * EXPLAIN before it, so that it is a query or a change, in a transaction that can't write unless the connection may.
 */
import { type Connection, createConnection, type FieldPacket, type QueryError, type ResultSetHeader } from 'mysql2';
import type { AskedOfServer, DatabaseQuery, TableIndex } from '../../../src/tools/context/databases.ts';
import { noTable, Refused } from '../../sqlite/refusals.ts';
import { TableWriter } from '../../sqlite/table-writer.ts';
import { BoundedStream } from '../bounded-stream.ts';
import { type Answer, type ServerSession, type SessionParts, settled } from '../session.ts';
import { LOGIN_BYTES_MAX, SHORT_BYTES_MAX } from '../wire-bounds.ts';
import { columnsOf, toCell } from './cells.ts';
import { toRefused } from './refusals.ts';
import { INDEXES, TABLES } from './schema.ts';
import { assertExplained, assertStatement, grantsBeyond, isChange } from './statements.ts';

type Values = readonly (string | number | boolean | null)[];
type SchemaRequest = Extract<AskedOfServer, { what: 'schema' }>;

interface Ran {
  readonly fields: readonly FieldPacket[];
  readonly header?: ResultSetHeader | undefined;
}

export class MysqlSession implements ServerSession {
  readonly #parts: SessionParts;
  readonly #connection: Connection;
  readonly #stream: BoundedStream;
  #isMariaDb = false;
  #isLost = false;
  #isCancelled = false;

  private constructor(parts: SessionParts, connection: Connection, stream: BoundedStream) {
    this.#parts = parts;
    this.#connection = connection;
    this.#stream = stream;
    const ended = () => {
      this.#isLost = true;
    };
    connection.on('error', ended); // Each statement tells its own.
    stream.on('close', ended);
  }

  /** Logs in, and refuses a user whose rights reach beyond databases. Throws Refused. */
  static async open(parts: SessionParts): Promise<MysqlSession> {
    const session = await MysqlSession.#login(parts);
    try {
      const writer = session.#writer(1_000);
      await session.#run('SHOW GRANTS', [], writer);
      const beyond = grantsBeyond(writer.end([]).rows.map(([it]) => String(it)));
      const version = session.#writer(1);
      await session.#run('SELECT VERSION()', [], version);
      session.#isMariaDb = /mariadb/i.test(String(version.end([]).rows[0]?.[0]));
      if (beyond.length === 0) return session;
      const first = (beyond[0] as string).replace(/ IDENTIFIED .*$/is, '').slice(0, 200);
      throw new Refused(
        'UNSUPPORTED',
        `the user \`${parts.connector.login.user}\` has rights beyond its database: ${first.toWellFormed()}`,
        'Ask the person to configure a user with grants on single databases only.',
      );
    } catch (error) {
      session.end();
      throw error;
    }
  }

  static async #login(parts: SessionParts): Promise<MysqlSession> {
    const { connector, limits } = parts;
    const { host, port, user, database, password, tls, caPem } = connector.login;
    const stream = new BoundedStream(await connector.connect(), LOGIN_BYTES_MAX);
    const connection = createConnection({
      stream,
      host,
      port,
      user,
      database,
      ...(password !== undefined && { password }),
      ...(tls === 'verify' && {
        ssl: { rejectUnauthorized: true, verifyIdentity: true, ...(caPem !== undefined && { ca: caPem }) },
      }),
      // Without encryption, these give the password to whoever sends a key.
      ...(tls === 'off' && { authPlugins: { caching_sha2_password: notInTheClear, sha256_password: notInTheClear } }),
      connectTimeout: limits.egressConnectMs,
      flags: ['-LOCAL_FILES'],
      charset: 'utf8mb4',
      rowsAsArray: true,
      supportBigNumbers: true,
      bigNumberStrings: true,
      dateStrings: true,
      jsonStrings: true,
      disableEval: true,
    });
    const session = new MysqlSession(parts, connection, stream);
    await new Promise<void>((resolve, reject) => {
      connection.once('connect', () => resolve());
      connection.once('error', (error: QueryError) => reject(refusedLogin(error, `${host}:${port}`)));
    });
    return session;
  }

  async run(asked: AskedOfServer, withinMs: number): Promise<Answer> {
    try {
      return await this.#answer(asked, withinMs);
    } catch (error) {
      if (this.#isCancelled) throw new Refused('CANCELLED', 'the statement was cancelled');
      throw error;
    }
  }

  get isUsable(): boolean {
    return !this.#isLost && !this.#isCancelled;
  }

  /** The protocol's own reset ends the transaction, locks, temporary tables, variables and prepared statements. */
  async reset(): Promise<void> {
    if (!this.isUsable) return;
    this.#stream.allow(SHORT_BYTES_MAX);
    const { promise, resolve } = Promise.withResolvers<void>();
    let isClean = false;
    this.#connection.reset((error) => {
      isClean = !error; // Old servers don't know it: the next call has a login of its own.
      resolve();
    });
    this.#stream.once('close', resolve);
    await settled(promise, this.#parts);
    this.#stream.off('close', resolve);
    if (!isClean) this.end();
  }

  async cancel(): Promise<void> {
    this.#isCancelled = true;
    await this.#kill();
    this.end();
  }

  end(): void {
    this.#isLost = true;
    this.#connection.destroy();
  }

  async #answer(asked: AskedOfServer, withinMs: number): Promise<Answer> {
    const rowsMax = asked.what === 'schema' ? asked.maxRows : asked.query.maxRows;
    const mayWrite = this.#parts.connector.login.access === 'write';
    // EXPLAIN evaluates functions, which may write.
    await this.#begin(withinMs, rowsMax, mayWrite && asked.what === 'query' ? 'WRITE' : 'ONLY');
    if (asked.what === 'schema') return await this.#schema(asked);
    const { sql, params, maxRows } = asked.query;
    assertStatement(sql, mayWrite);
    if (asked.what === 'estimate' && isChange(sql)) return NOT_ESTIMATED;
    if (asked.what !== 'query') {
      assertExplained(sql);
      const plan = this.#writer(maxRows);
      const { fields } = await this.#run(`EXPLAIN ${sql}`, toValues(params), plan);
      const explained = plan.end(columnsOf(fields));
      return asked.what === 'explain' ? explained : estimateOf(explained);
    }
    // The grammar of EXPLAIN takes queries and changes only. Preparing it is enough for that.
    await this.#prepare(`EXPLAIN ${sql}`);
    const writer = this.#writer(maxRows);
    const ran = await this.#run(sql, toValues(params), writer);
    const table = writer.end(columnsOf(ran.fields));
    if (!mayWrite) return table;
    if (this.#stream.isOver) throw new Refused('OUTPUT_LIMIT', 'the result is too large; nothing was changed');
    await this.#run('COMMIT', [], this.#writer(1));
    return { ...table, changes: ran.header?.affectedRows ?? 0 };
  }

  /** Begins a transaction that takes no longer, waits for no locks, and gives no more rows than it may. */
  async #begin(withinMs: number, maxRows: number, access: 'WRITE' | 'ONLY'): Promise<void> {
    const { connector, limits } = this.#parts;
    const { maxCost = limits.databaseCostMax } = connector.login;
    const milliseconds = Math.ceil(withinMs);
    const lockSeconds = Math.max(1, Math.ceil(limits.databaseLockMs / 1000));
    const settings = {
      ...(this.#isMariaDb ? { max_statement_time: milliseconds / 1000 } : { max_execution_time: milliseconds }),
      innodb_lock_wait_timeout: lockSeconds,
      lock_wait_timeout: lockSeconds,
      sql_big_selects: 0,
      max_join_size: Math.ceil(maxCost),
      sql_select_limit: maxRows + 1,
    };
    const all = Object.entries(settings).map(([name, value]) => `SESSION ${name} = ${value}`);
    // A session that was reset has the character set of the server.
    await this.#plain(`SET NAMES utf8mb4, ${all.join(', ')}`);
    await this.#plain(`START TRANSACTION READ ${access}`);
  }

  async #schema({ table = '', maxRows }: SchemaRequest): Promise<Answer> {
    const writer = this.#writer(maxRows);
    const { fields } = await this.#run(TABLES, [table, table], writer);
    const found = writer.end(columnsOf(fields));
    if (table !== '' && found.rows.length === 0) throw noTable(table);
    const most = this.#writer(this.#parts.limits.databaseIndexesMax);
    await this.#run(INDEXES, [table, table], most);
    const indexes = most.end([]).rows.map(([of, name, unique, columns]): TableIndex => {
      return { table: String(of), name: String(name), unique: unique === 1, columns: String(columns).split('\0') };
    });
    return { ...found, indexes };
  }

  /** Runs a prepared statement. Throws Refused. */
  #run(sql: string, values: Values, writer: TableWriter): Promise<Ran> {
    const { databaseWireBytes } = this.#parts.limits;
    this.#stream.allow(databaseWireBytes);
    const { promise, resolve, reject } = Promise.withResolvers<Ran>();
    let fields: readonly FieldPacket[] = [];
    let header: ResultSetHeader | undefined;
    const running = this.#connection.execute({ sql, values: [...values], rowsAsArray: true });
    let [isAnswered, isEnded] = [false, false];
    const ended = () => {
      if (isEnded) return;
      isEnded = true;
      if (this.#stream.isOver) {
        writer.cut('bytes');
        resolve({ fields });
        void this.#kill();
      } else if (isAnswered && !this.#isLost) resolve({ fields, header });
      else {
        // The driver ends a statement without an error after a message that it does not expect, such as LOCAL INFILE.
        reject(this.#isLost ? lost() : new Refused('UPSTREAM_FAILED', 'the database answered with what is no result'));
        this.end();
      }
    };
    // Undefined for a statement without rows.
    running.on('fields', (all: FieldPacket[] | undefined) => {
      isAnswered = true;
      fields = all ?? [];
    });
    running.on('result', (row: unknown) => {
      if (!Array.isArray(row)) header = row as ResultSetHeader;
      else writer.add(sizeOf(row), () => row.map((it, at) => toCell(it, fields[at] as FieldPacket)));
    });
    running.on('error', (error: QueryError) => {
      if (this.#stream.isOver) return ended();
      isEnded = true;
      reject(toRefused(error));
    });
    running.on('end', ended);
    this.#stream.once('close', ended);
    if (this.#isLost) ended();
    return promise.finally(() => this.#stream.off('close', ended));
  }

  /** Has the server read a statement, and forget it. Throws Refused. */
  async #prepare(sql: string): Promise<void> {
    this.#stream.allow(this.#parts.limits.databaseWireBytes);
    const work = Promise.withResolvers<void>();
    this.#connection.prepare(sql, (error, statement) => {
      if (error) return work.reject(toRefused(error));
      statement.close();
      work.resolve();
    });
    await this.#orLost(work);
  }

  /** Runs a statement of ours that the server does not prepare. Throws Refused. */
  async #plain(sql: string): Promise<void> {
    this.#stream.allow(SHORT_BYTES_MAX);
    const work = Promise.withResolvers<void>();
    this.#connection.query(sql, (error) => (error ? work.reject(toRefused(error)) : work.resolve()));
    await this.#orLost(work);
  }

  /** The driver forgets what it was asked when the connection is closed on this side. */
  async #orLost({ promise, reject }: PromiseWithResolvers<void>): Promise<void> {
    const ended = () => reject(lost());
    if (this.#isLost) ended();
    this.#stream.once('close', ended);
    await promise.finally(() => this.#stream.off('close', ended));
  }

  /** Has the server end what this session runs, by another one. */
  async #kill(): Promise<void> {
    const { threadId } = this.#connection;
    const work = async () => {
      const other = await MysqlSession.#login(this.#parts);
      await other.#plain(`KILL QUERY ${Number(threadId)}`);
      other.end();
    };
    await settled(work(), this.#parts);
  }

  #writer(maxRows: number): TableWriter {
    const { databaseResultBytes: resultBytes, databaseCellsMax: cellsMax } = this.#parts.limits;
    return new TableWriter(maxRows, { resultBytes, cellsMax });
  }
}

const lost = (): Refused => new Refused('UPSTREAM_FAILED', 'the connection to the database was lost');

function notInTheClear(): never {
  throw new Error('the password is not sent without encryption');
}

function refusedLogin(error: QueryError, at: string): Refused {
  if (error.code === 'ER_ACCESS_DENIED_ERROR' || error.code === 'ER_BAD_DB_ERROR') return toRefused(error);
  return new Refused('UPSTREAM_FAILED', `${at} can't be used: ${(error.code ?? 'it gave no answer').slice(0, 100)}`);
}

/** Only a session that could write knows how many rows a change touches. */
const NOT_ESTIMATED: Answer = { columns: [], rows: [['Change', null, null]] };

const toValues = (params: DatabaseQuery['params']): Values => Object.values(params);

const sizeOf = (row: readonly unknown[]): number =>
  row.reduce<number>((sum, it) => sum + (typeof it === 'string' || Buffer.isBuffer(it) ? it.length : 8), 0);

/** How many rows the server expects a query to read first, from its plan. */
function estimateOf({ columns, rows }: Answer): Answer {
  const at = (name: string) => columns.findIndex((it) => it.name === name);
  const [first = []] = rows;
  return { columns, rows: [['Query', ...['table', 'rows'].map((it) => first[at(it)] ?? null)]] };
}
