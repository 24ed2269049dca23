/**
 * One login at a PostgreSQL server. What an agent wrote runs with `DECLARE … CURSOR FOR` before it, whose grammar takes
 * nothing but queries, in a transaction that can't write; or, for connections that may write, as one prepared statement.
 */
import { serialize } from 'pg-protocol';
import { parseJson } from '../../../src/base/text/json.ts';
import type { AskedOfServer, DatabaseQuery, TableIndex } from '../../../src/tools/context/databases.ts';
import { noTable, Refused } from '../../sqlite/refusals.ts';
import { TableWriter } from '../../sqlite/table-writer.ts';
import { type Answer, type ServerSession, type SessionParts, settled } from '../session.ts';
import { LOGIN_BYTES_MAX, SHORT_BYTES_MAX } from '../wire-bounds.ts';
import { ConnectionLost, command, type RowsOf, runStatements, statement, type Taken, toValues } from './exchange.ts';
import { type Line, login, requestCancel } from './login.ts';
import { changeIn, costOf, estimatedRows, type Plan, toPlan } from './plan.ts';
import { INDEXES, ROLES, settingsOf, TABLES, TYPE_NAMES } from './schema.ts';
import { TypeNames } from './types.ts';
import { assertNoWriter } from './writers.ts';

type SchemaRequest = Extract<AskedOfServer, { what: 'schema' }>;

const CURSOR = 'ringfence_rows';

export class PostgresSession implements ServerSession {
  readonly #parts: SessionParts;
  readonly #line: Line;
  readonly #types = new TypeNames();
  #isCancelled = false;

  private constructor(parts: SessionParts, line: Line) {
    this.#parts = parts;
    this.#line = line;
  }

  /** Logs in, and refuses a user whose rights reach beyond the database. Throws Refused. */
  static async open(parts: SessionParts): Promise<PostgresSession> {
    const session = new PostgresSession(parts, await login(parts));
    try {
      await session.#refusingLoss(() => session.#assertPlainRole());
      return session;
    } catch (error) {
      session.end();
      throw error;
    }
  }

  get isUsable(): boolean {
    return !this.#line.stream.destroyed && !this.#isCancelled;
  }

  run(asked: AskedOfServer, withinMs: number): Promise<Answer> {
    return this.#refusingLoss(async () => {
      if (asked.what === 'schema') return await this.#schema(asked, withinMs);
      if (!this.#mayWrite) assertNoWriter(asked.query.sql);
      if (asked.what === 'explain') return await this.#explain(asked.query, withinMs);
      const plan = await this.#plan(asked.query, withinMs, asked.what === 'query' ? this.#mayWrite : false);
      const change = changeIn(plan);
      if (asked.what === 'estimate') return estimateOf(change);
      return change ? await this.#change(asked.query, plan) : await this.#read(asked.query, plan);
    });
  }

  async reset(): Promise<void> {
    if (!this.isUsable) return;
    let isClean = false;
    const work = async () => {
      // The second lets go of locks and settings that outlive a transaction; it fails inside of one.
      for (const sql of ['ROLLBACK', 'DISCARD ALL'])
        await this.#run(command(sql), { phase: 'run', bytesMax: SHORT_BYTES_MAX, writer: this.#shortWriter() });
      isClean = true;
    };
    await settled(work(), this.#parts);
    if (!isClean) this.end();
  }

  async cancel(): Promise<void> {
    this.#isCancelled = true;
    await this.#cancelStatement();
    this.end();
  }

  end(): void {
    this.#line.stream.destroy();
  }

  get #mayWrite(): boolean {
    return this.#parts.connector.login.access === 'write';
  }

  async #cancelStatement(): Promise<void> {
    // If the server can't be reached, its statement_timeout ends the statement.
    await settled(requestCancel(this.#parts, this.#line.client), this.#parts);
  }

  async #refusingLoss<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      if (this.#isCancelled) throw new Refused('CANCELLED', 'the statement was cancelled');
      if (!(error instanceof ConnectionLost)) throw error;
      const why = error.message.slice(0, 200).toWellFormed();
      throw new Refused('UPSTREAM_FAILED', `the connection to the database was lost: ${why}`);
    }
  }

  async #assertPlainRole(): Promise<void> {
    const writer = this.#shortWriter();
    await this.#run(statement(ROLES), { phase: 'run', bytesMax: LOGIN_BYTES_MAX, writer });
    const { rows } = writer.end([]);
    if (rows.length === 0) return;
    const roles = rows.map(([name, why]) => `${name} (${why})`).join(', ');
    throw new Refused(
      'UNSUPPORTED',
      `the user \`${this.#parts.connector.login.user}\` has rights beyond its database, by the roles ${roles}`
        .slice(0, 500)
        .toWellFormed(),
      'Ask the person to configure a user without such rights: CREATE ROLE … LOGIN, and GRANT SELECT on its tables.',
    );
  }

  /** Plans a statement in a transaction that has begun. Throws Refused if it is too costly. */
  async #plan({ sql, params }: DatabaseQuery, withinMs: number, mayWrite: boolean): Promise<Plan> {
    const writer = this.#shortWriter();
    const explain = statement(`EXPLAIN (FORMAT JSON) ${sql}`, toValues(params));
    const begin = this.#beginning(withinMs, mayWrite);
    const bounds = { phase: 'plan', statementsBefore: begin.length, bytesMax: SHORT_BYTES_MAX, writer } as const;
    await this.#run([...begin.flatMap((it) => command(it)), ...explain], bounds);
    const plan = toPlan(writer.end([]).rows[0]?.[0]);
    const { maxCost = this.#parts.limits.databaseCostMax } = this.#parts.connector.login;
    const cost = costOf(plan);
    if (cost <= maxCost) return plan;
    throw new Refused(
      'COST_LIMIT',
      `the database estimates that the statement costs ${Math.ceil(cost)}, and the connection allows ${maxCost}`,
      'Add conditions, or join by columns with an index; database_explain shows the plan.',
    );
  }

  /** Statements that begin a transaction that takes no longer, waits for no locks, and uses no more memory than it may. */
  #beginning(withinMs: number, mayWrite = false): string[] {
    const { limits } = this.#parts;
    const bounds = {
      statementMs: withinMs,
      lockMs: Math.min(withinMs, limits.databaseLockMs),
      idleMs: limits.databaseIdleMs,
      sortKiB: limits.databaseSortBytes / 1024,
    };
    const begin = mayWrite ? 'BEGIN READ WRITE' : 'BEGIN READ ONLY';
    return [begin, ...settingsOf(bounds)];
  }

  async #read({ sql, params, maxRows }: DatabaseQuery, plan: Plan): Promise<Answer> {
    const writer = this.#writer(maxRows);
    const statements = [
      ...command(`DECLARE ${CURSOR} NO SCROLL CURSOR FOR ${sql}`, toValues(params)),
      // A cursor is a portal of the protocol. FETCH would keep all rows before it sends the first one.
      serialize.describe({ type: 'P', name: CURSOR }),
      serialize.execute({ portal: CURSOR, rows: maxRows + 1 }),
    ];
    const { databaseWireBytes: bytesMax } = this.#parts.limits;
    const taken = await this.#run(statements, { phase: 'run', statementsBefore: 1, bytesMax, writer });
    return { ...(await this.#tableOf(taken, writer)), cost: costOf(plan) };
  }

  /** Changes rows and commits, or changes nothing. */
  async #change({ sql, params, maxRows }: DatabaseQuery, plan: Plan): Promise<Answer> {
    const { limits } = this.#parts;
    if (!this.#mayWrite)
      throw new Refused('ACCESS_DENIED', 'the connection only reads', 'Ask the person for one with access: write.');
    const writer = this.#writer(maxRows);
    const bounds = { phase: 'run', bytesMax: limits.databaseWireBytes, writer } as const;
    const taken = await this.#run(statement(sql, toValues(params)), bounds);
    if (taken.isCut)
      throw new Refused('OUTPUT_LIMIT', 'the changed rows are too large to return; nothing was changed', FEWER);
    if (taken.tag.startsWith('SELECT') && taken.fields.length === 0)
      throw new Refused('ACCESS_DENIED', 'the connection does not allow SELECT INTO; nothing was changed');
    const table = await this.#tableOf(taken, writer);
    await this.#commit();
    const changes = Number(/\d+$/.exec(taken.tag)?.[0] ?? 0);
    return { ...table, changes, cost: costOf(plan) };
  }

  async #commit(): Promise<void> {
    const writer = this.#shortWriter();
    try {
      const { tag } = await this.#run(statement('COMMIT'), { phase: 'run', bytesMax: SHORT_BYTES_MAX, writer });
      if (tag !== 'COMMIT') throw new Refused('CONFLICT', 'the database did not keep the change');
    } catch (error) {
      if (error instanceof Refused) throw error;
      throw new Refused('UPSTREAM_FAILED', 'the connection was lost during COMMIT; look whether the change was kept');
    }
  }

  async #explain({ sql, params, maxRows }: DatabaseQuery, withinMs: number): Promise<Answer> {
    const writer = this.#writer(maxRows);
    const explain = statement(`EXPLAIN (FORMAT TEXT) ${sql}`, toValues(params));
    const { databaseWireBytes: bytesMax } = this.#parts.limits;
    const begin = this.#beginning(withinMs);
    const bounds = { phase: 'plan', statementsBefore: begin.length, bytesMax, writer } as const;
    const taken = await this.#run([...begin.flatMap((it) => command(it)), ...explain], bounds);
    return await this.#tableOf(taken, writer);
  }

  async #schema({ table: named, maxRows }: SchemaRequest, withinMs: number): Promise<Answer> {
    const table = named ?? null;
    const { databaseWireBytes: bytesMax, databaseIndexesMax, databaseIndexColumnsMax } = this.#parts.limits;
    const writer = this.#writer(maxRows);
    const begin = this.#beginning(withinMs);
    const tables = [...begin.flatMap((it) => command(it)), ...statement(TABLES, [table])];
    await this.#run(tables, { phase: 'run', statementsBefore: begin.length, bytesMax, writer });
    const found = writer.end(SCHEMA_COLUMNS.map((name) => ({ name, type: NUMBERS.has(name) ? 'integer' : 'text' })));
    if (table !== null && found.rows.length === 0) throw noTable(table);
    const most = this.#writer(databaseIndexesMax);
    const values = [table, `${databaseIndexColumnsMax}`, `${databaseIndexesMax + 1}`];
    await this.#run(statement(INDEXES, values), { phase: 'run', bytesMax, writer: most });
    const { rows, truncatedBy } = most.end([]);
    const indexes = rows.map(([of, name, unique, columns]): TableIndex => {
      const names = parseJson(String(columns ?? '[]')) as (string | null)[];
      return { table: String(of), name: String(name), unique: unique === 1, columns: names };
    });
    return { ...found, indexes, ...(truncatedBy && !found.truncatedBy && { truncatedBy: 'cells' as const }) };
  }

  async #tableOf({ fields, notices, isCut }: Taken, writer: TableWriter): Promise<Answer> {
    const unknown = this.#types.unknownIn(fields);
    if (unknown.length > 0 && !isCut) {
      const names = this.#writer(unknown.length);
      const asked = statement(TYPE_NAMES, [`{${unknown.join(',')}}`]);
      await this.#run(asked, { phase: 'run', bytesMax: SHORT_BYTES_MAX, writer: names });
      this.#types.learn(
        unknown,
        names.end([]).rows.map(([it]) => String(it)),
      );
    }
    return { ...writer.end(this.#types.columnsOf(fields)), ...(notices.length > 0 && { notices }) };
  }

  /** Throws Refused, ConnectionLost. */
  async #run(statements: readonly Buffer[], rowsOf: RowsOf): Promise<Taken> {
    const taken = await runStatements(this.#line, statements, rowsOf);
    if (taken.isCut) void this.#cancelStatement();
    return taken;
  }

  #writer(maxRows: number): TableWriter {
    const { databaseResultBytes: resultBytes, databaseCellsMax: cellsMax } = this.#parts.limits;
    return new TableWriter(maxRows, { resultBytes, cellsMax });
  }

  #shortWriter(): TableWriter {
    return new TableWriter(100, { resultBytes: SHORT_BYTES_MAX, cellsMax: 1_000 });
  }
}

const FEWER = 'Leave out RETURNING, or return fewer columns.';
const SCHEMA_COLUMNS = ['table', 'kind', 'column', 'type', 'notNull', 'primaryKey', 'default', 'references'];
const NUMBERS: ReadonlySet<string> = new Set(['notNull', 'primaryKey']);

/** What a statement would change, as one row. */
function estimateOf(change: Plan | undefined): Answer {
  const columns = ['operation', 'table', 'rows'].map((name) => ({ name, type: name === 'rows' ? 'integer' : 'text' }));
  const rows = change ? [[wordOf(change.Operation), wordOf(change['Relation Name']), estimatedRows(change)]] : [];
  return { columns, rows };
}

const wordOf = (value: unknown): string => (typeof value === 'string' ? value.slice(0, 200).toWellFormed() : '?');
