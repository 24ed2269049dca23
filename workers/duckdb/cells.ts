/** Values of DuckDB as JSON that loses nothing. */
import { DuckDBBlobValue, type DuckDBValue } from '@duckdb/node-api';
import type { ServerCell } from '../../src/tools/context/databases.ts';

/** Numbers where JSON holds them exactly, blobs as base64, and all other types as the text that DuckDB writes. */
export function toCell(value: DuckDBValue): ServerCell {
  if (value === null || typeof value === 'boolean' || typeof value === 'string') return value;
  if (typeof value === 'number') return Number.isFinite(value) ? value : String(value);
  if (typeof value === 'bigint') {
    const number = Number(value);
    return Number.isSafeInteger(number) ? number : value.toString();
  }
  if (value instanceof DuckDBBlobValue) return Buffer.from(value.bytes).toString('base64');
  return String(value);
}

/** Bytes that a number or a truth value counts as. */
const PLAIN_BYTES = 16;

export const bytesOf = (cell: ServerCell): number => (typeof cell === 'string' ? Buffer.byteLength(cell) : PLAIN_BYTES);
