/** Values of SQLite as JSON that loses nothing. */
import type { Cell, Column, ColumnType, PlainCell } from '../../src/tools/context/databases.ts';
import type { AnsweredTable } from './messages.ts';
import { type RowBounds, TableWriter } from './table-writer.ts';

export type SqliteValue = null | number | bigint | string | Uint8Array;
type StorageClass = 'integer' | 'real' | 'text' | 'blob';

export interface ColumnName {
  readonly name: string;
  readonly declared: string | null;
}

/** Collects rows of SQLite, and the types of their values. */
export class SqliteTableWriter {
  readonly #names: readonly ColumnName[];
  readonly #bounds: RowBounds;
  readonly #rows: TableWriter<SqliteValue>;
  readonly #classes: Set<StorageClass>[];

  constructor(names: readonly ColumnName[], maxRows: number, bounds: RowBounds) {
    this.#names = names;
    this.#bounds = bounds;
    this.#rows = new TableWriter(maxRows, bounds);
    this.#classes = names.map(() => new Set());
  }

  /** Adds a row and keeps it; false if it is beyond the bounds, as all later ones would be. */
  add(row: SqliteValue[]): boolean {
    let bytes = 0;
    for (const it of row) bytes += bytesOf(it);
    this.#rows.add(bytes, () => row);
    if (this.#rows.isFull) return false;
    for (let at = 0; at < row.length; at += 1) {
      const it = row[at] as SqliteValue;
      if (it !== null) this.#classes[at]?.add(classOf(it));
    }
    return true;
  }

  /** Throws Refused if not even the first row was small enough. */
  end(): AnsweredTable {
    const columns = this.#names.map(({ name, declared }, at): Column => {
      const type = typeOf(this.#classes[at] as Set<StorageClass>, declared);
      return { name, type, ...(declared !== null && { declared }) };
    });
    const areMixed = columns.map(({ type }) => type === 'mixed');
    const cellsOfRow = areMixed.reduce((sum, isMixed) => sum + (isMixed ? MIXED_CELLS : 1), 1);
    const most = Math.max(1, Math.floor(this.#bounds.cellsMax / cellsOfRow));
    const { rows: kept, truncatedBy } = this.#rows.end(columns);
    const rows = kept.slice(0, most).map((row) => row.map((it, at) => toCell(it, areMixed[at] === true)));
    return { columns, rows, truncatedBy: most < kept.length ? 'cells' : truncatedBy };
  }
}

function bytesOf(value: SqliteValue): number {
  if (typeof value === 'string') return Buffer.byteLength(value);
  if (value instanceof Uint8Array) return Math.ceil(value.length / 3) * 4;
  return NUMBER_BYTES;
}

/** How many cells one counts for that says its type: an object with two keys and two values. */
const MIXED_CELLS = 5;

/** Bytes that a number or NULL counts as. */
const NUMBER_BYTES = 12;

function classOf(value: Exclude<SqliteValue, null>): StorageClass {
  if (typeof value === 'bigint') return 'integer';
  if (typeof value === 'number') return 'real';
  return typeof value === 'string' ? 'text' : 'blob';
}

function typeOf(classes: ReadonlySet<StorageClass>, declared: string | null): ColumnType {
  const [first, second, ...more] = classes;
  if (first === undefined) return affinityOf(declared);
  if (second === undefined) return first;
  const areNumbers = more.length === 0 && classes.has('integer') && classes.has('real');
  return areNumbers ? 'numeric' : 'mixed';
}

/** What a column without values would hold, by SQLite's rules for declared types. */
function affinityOf(declared: string | null): ColumnType {
  if (declared === null || declared === '') return 'null';
  if (/int/i.test(declared)) return 'integer';
  if (/char|clob|text/i.test(declared)) return 'text';
  if (/blob/i.test(declared)) return 'blob';
  return /real|floa|doub/i.test(declared) ? 'real' : 'numeric';
}

function toCell(value: SqliteValue, isMixed: boolean): Cell {
  if (value === null) return null;
  const plain = toPlain(value);
  return isMixed ? { type: classOf(value), value: plain } : plain;
}

function toPlain(value: Exclude<SqliteValue, null>): Exclude<PlainCell, null> {
  if (typeof value === 'bigint') {
    const number = Number(value);
    return Number.isSafeInteger(number) ? number : value.toString();
  }
  if (typeof value === 'number') return Number.isFinite(value) ? value : String(value);
  return typeof value === 'string' ? value : Buffer.from(value).toString('base64');
}
