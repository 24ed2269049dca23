/** Collects the rows of a server up to the bounds of a result. */
import type { Column, ServerCell } from '../../src/tools/context/databases.ts';
import { Refused } from '../sqlite/refusals.ts';
import type { Answer } from './session.ts';

export interface RowBounds {
  readonly maxRows: number;
  readonly bytesMax: number;
  readonly cellsMax: number;
}

/** Quotes and a comma around a cell. */
const CELL_BYTES = 4;

export class TableWriter {
  readonly #bounds: RowBounds;
  readonly #rows: ServerCell[][] = [];
  #bytes = 0;
  #cutBy: Answer['truncatedBy'];

  constructor(bounds: RowBounds) {
    this.#bounds = bounds;
  }

  /** Whether a row came that did not fit; no further one is kept. */
  get isFull(): boolean {
    return this.#cutBy !== undefined;
  }

  /** Keeps a row if it fits; `bytes` is its size as the server sent it. */
  add(bytes: number, toRow: () => ServerCell[]): void {
    if (this.isFull) return;
    const { maxRows, bytesMax, cellsMax } = this.#bounds;
    if (this.#rows.length >= maxRows) return this.cut('rows');
    const row = toRow();
    this.#bytes += bytes + row.length * CELL_BYTES;
    if (this.#bytes > bytesMax) return this.cut('bytes');
    if ((this.#rows.length + 1) * (row.length + 1) > cellsMax) return this.cut('cells');
    this.#rows.push(row);
  }

  /** Marks the rows as cut. */
  cut(by: NonNullable<Answer['truncatedBy']>): void {
    this.#cutBy ??= by;
  }

  /** Throws Refused if not even the first row was small enough. */
  end(columns: Column[]): Pick<Answer, 'columns' | 'rows' | 'truncatedBy'> {
    if (this.#rows.length === 0 && this.#cutBy === 'bytes')
      throw new Refused(
        'OUTPUT_LIMIT',
        `the first row alone has more than ${this.#bounds.bytesMax} bytes`,
        'Select fewer columns, or a part of a value with substr().',
      );
    return { columns, rows: this.#rows, ...(this.#cutBy && { truncatedBy: this.#cutBy }) };
  }
}
