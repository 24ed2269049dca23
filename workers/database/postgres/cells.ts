/** Values of PostgreSQL, which sends all as text, as JSON that loses nothing. */
import type { ServerCell } from '../../../src/tools/context/databases.ts';

/** Identifiers of types in `pg_type`, which never change. */
const BOOL = 16;
const BYTEA = 17;
const SMALL_INTEGERS: ReadonlySet<number> = new Set([21, 23, 26]);
const BIGINT = 20;
const FLOATS: ReadonlySet<number> = new Set([700, 701]);

/** Numbers where JSON holds them exactly, booleans, bytes as base64; everything else stays the text that the server sent. */
export function toCell(text: string | null, typeId: number): ServerCell {
  if (text === null) return null;
  if (typeId === BOOL) return text === 't';
  if (typeId === BYTEA) return Buffer.from(text.slice('\\x'.length), 'hex').toString('base64');
  const number = Number(text);
  if (SMALL_INTEGERS.has(typeId) || typeId === BIGINT) return Number.isSafeInteger(number) ? number : text;
  if (FLOATS.has(typeId)) return Number.isFinite(number) ? number : text;
  return text;
}
