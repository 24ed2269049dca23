/** Values of SQLite as JSON that loses nothing. */
import type { Cell, Column, ColumnType, PlainCell } from '../../src/tools/context/databases.ts';
import type { AnsweredTable } from './messages.ts';

export type SqliteValue = null | number | bigint | string | Uint8Array;
type StorageClass = 'integer' | 'real' | 'text' | 'blob';

export interface ColumnName {
  readonly name: string;
  readonly declared: string | null;
}

export interface TableBounds {
  readonly maxRows: number;
  readonly bytesMax: number;
  readonly cellsMax: number;
}

/** Collects rows up to the bounds. */
export class TableWriter {
  readonly #names: readonly ColumnName[];
  readonly #bounds: TableBounds;
  readonly #rows: SqliteValue[][] = [];
  readonly #classes: Set<StorageClass>[];
  #bytes = 0;
  #cutBy: AnsweredTable['truncatedBy'];

  constructor(names: readonly ColumnName[], bounds: TableBounds) {
    this.#names = names;
    this.#bounds = bounds;
    this.#classes = names.map(() => new Set());
  }

  /** Adds a row and keeps it; false if it is beyond the bounds, as all later ones would be. */
  add(row: SqliteValue[]): boolean {
    const { maxRows, bytesMax, cellsMax } = this.#bounds;
    let bytes = this.#bytes;
    for (const it of row) bytes += bytesOf(it);
    const count = this.#rows.length;
    if (count >= maxRows) this.#cutBy = 'rows';
    else if (bytes > bytesMax) this.#cutBy = 'bytes';
    else if ((count + 1) * (row.length + 1) > cellsMax) this.#cutBy = 'cells';
    if (this.#cutBy) return false;
    this.#bytes = bytes;
    this.#rows.push(row);
    for (let at = 0; at < row.length; at += 1) {
      const it = row[at] as SqliteValue;
      if (it !== null) this.#classes[at]?.add(classOf(it));
    }
    return true;
  }

  /** Whether not even the first row was small enough. */
  get isFirstTooLarge(): boolean {
    return this.#cutBy === 'bytes' && this.#rows.length === 0;
  }

  end(): AnsweredTable {
    const columns = this.#names.map(({ name, declared }, at): Column => {
      const type = typeOf(this.#classes[at] as Set<StorageClass>, declared);
      return { name, type, ...(declared !== null && { declared }) };
    });
    const areMixed = columns.map(({ type }) => type === 'mixed');
    const cellsOfRow = areMixed.reduce((sum, isMixed) => sum + (isMixed ? MIXED_CELLS : 1), 1);
    const most = Math.max(1, Math.floor(this.#bounds.cellsMax / cellsOfRow));
    if (most < this.#rows.length) this.#cutBy = 'cells';
    const rows = this.#rows.slice(0, most).map((row) => row.map((it, at) => toCell(it, areMixed[at] === true)));
    return { columns, rows, ...(this.#cutBy && { truncatedBy: this.#cutBy }) };
  }
}

function bytesOf(value: SqliteValue): number {
  if (typeof value === 'string') return Buffer.byteLength(value) + CELL_BYTES;
  if (value instanceof Uint8Array) return Math.ceil(value.length / 3) * 4 + CELL_BYTES;
  return CELL_BYTES * 4;
}

/** How many cells one counts for that says its type: an object with two keys and two values. */
const MIXED_CELLS = 5;

/** Quotes and a comma around a cell; a number counts as four times that. */
const CELL_BYTES = 4;

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
