/** Values of MySQL and MariaDB as JSON that loses nothing, and the names of their types. */
import type { FieldPacket } from 'mysql2';
import type { Column, ServerCell } from '../../../src/tools/context/databases.ts';

/** Names of types by their numbers in the protocol. */
const NAMES: Readonly<Record<number, string>> = {
  0: 'decimal',
  1: 'tinyint',
  2: 'smallint',
  3: 'int',
  4: 'float',
  5: 'double',
  6: 'null',
  7: 'timestamp',
  8: 'bigint',
  9: 'mediumint',
  10: 'date',
  11: 'time',
  12: 'datetime',
  13: 'year',
  15: 'varchar',
  16: 'bit',
  245: 'json',
  246: 'decimal',
  247: 'enum',
  248: 'set',
  249: 'text',
  250: 'text',
  251: 'text',
  252: 'text',
  253: 'varchar',
  254: 'char',
  255: 'geometry',
};
const BLOB = 252;
const BIGINT = 8;
/** The character set of bytes. */
const BINARY = 63;

type Field = FieldPacket & { readonly columnType?: number; readonly characterSet?: number };

const isBytes = ({ columnType = 0, characterSet }: Field): boolean =>
  characterSet === BINARY && columnType >= 249 && columnType <= 254;

export function columnsOf(fields: readonly FieldPacket[]): Column[] {
  return fields.map((it: Field) => {
    const { columnType = BLOB } = it;
    const type = isBytes(it) ? (columnType > BLOB ? 'binary' : 'blob') : NAMES[columnType];
    return { name: it.name.toWellFormed(), type: type ?? 'unknown' };
  });
}

/** The driver gives decimals, dates and large integers as text. */
export function toCell(value: unknown, { columnType }: Field): ServerCell {
  if (value === null || value === undefined) return null;
  if (typeof value === 'number') return Number.isFinite(value) ? value : String(value);
  if (Buffer.isBuffer(value)) return value.toString('base64');
  if (typeof value !== 'string') return JSON.stringify(value).toWellFormed();
  const number = Number(value);
  return columnType === BIGINT && Number.isSafeInteger(number) ? number : value.toWellFormed();
}
