/** Collects the rows of a statement up to the bounds of a result. */
import type { Column, ServerCell } from '../../src/tools/context/databases.ts';
import type { AnsweredTable, StatementBounds } from './messages.ts';
import { Refused } from './refusals.ts';

export type RowBounds = Pick<StatementBounds, 'resultBytes' | 'cellsMax'>;

/** Quotes and a comma around a cell. */
const CELL_BYTES = 4;

export class TableWriter<Value = ServerCell> {
  /** The rows that fit. */
  readonly rows: Value[][] = [];
  readonly #maxRows: number;
  readonly #bounds: RowBounds;
  #bytes = 0;
  #cutBy: AnsweredTable['truncatedBy'];

  constructor(maxRows: number, bounds: RowBounds) {
    this.#maxRows = maxRows;
    this.#bounds = bounds;
  }

  /** Whether a row came that did not fit; no further one is kept. */
  get isFull(): boolean {
    return this.#cutBy !== undefined;
  }

  /** Keeps a row if it fits; `bytes` is the size of its values, as they were read or as they will be sent. */
  add(bytes: number, toRow: () => Value[]): void {
    if (this.isFull) return;
    const { resultBytes, cellsMax } = this.#bounds;
    if (this.rows.length >= this.#maxRows) return this.cut('rows');
    const row = toRow();
    this.#bytes += bytes + row.length * CELL_BYTES;
    if (this.#bytes > resultBytes) return this.cut('bytes');
    if ((this.rows.length + 1) * (row.length + 1) > cellsMax) return this.cut('cells');
    this.rows.push(row);
  }

  /** Marks the rows as cut. */
  cut(by: NonNullable<AnsweredTable['truncatedBy']>): void {
    this.#cutBy ??= by;
  }

  /** Throws Refused if not even the first row was small enough. */
  end(columns: Column[]) {
    if (this.rows.length === 0 && this.#cutBy === 'bytes')
      throw new Refused(
        'OUTPUT_LIMIT',
        `the first row alone has more than ${this.#bounds.resultBytes} bytes`,
        'Select fewer columns, or a part of a value with substr().',
      );
    return { columns, rows: this.rows, truncatedBy: this.#cutBy };
  }
}
