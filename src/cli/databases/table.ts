/** Results of queries as a table for people, and as CSV for programs. */

import { charactersIn, visibleInLine } from '../../base/text/shown-text.ts';
import type { Cell, Column } from '../../tools/context/databases.ts';

export interface ShownTable {
  readonly columns: readonly Column[];
  readonly rows: readonly (readonly Cell[])[];
}

const CELL_CHARS_MAX = 60;
const NUMBERS = /^(small|big|tiny|medium)?int(eger|\(|$)|^(real|numeric|decimal|float|double)\b/i;

/** Lines of a table: names, a rule, rows. Long cells are cut; what could control a terminal is escaped. */
export function toLines({ columns, rows }: ShownTable): string[] {
  const cells = [columns.map(({ name }) => name), ...rows.map((row) => row.map((it) => textOf(it) ?? 'NULL'))].map(
    (row) => row.map(cut),
  );
  const widths = columns.map((_, at) => cells.reduce((most, row) => Math.max(most, charactersIn(row[at] ?? '')), 0));
  const lines = cells.map((row) => row.map((it, at) => padded(it, widths[at] ?? 0, columns[at]?.type)).join('  '));
  const rule = widths.map((it) => '-'.repeat(it)).join('  ');
  return [lines[0] ?? '', rule, ...lines.slice(1)].map((it) => it.trimEnd());
}

/** RFC 4180, with names in the first line. NULL is empty, and an empty text is `""`. */
export function toCsv({ columns, rows }: ShownTable): string {
  const lines = [columns.map(({ name }) => quoted(name)), ...rows.map((row) => row.map((it) => field(it)))];
  return `${lines.map((it) => it.join(',')).join('\r\n')}\r\n`;
}

const textOf = (cell: Cell): string | undefined =>
  cell === null ? undefined : String(typeof cell === 'object' ? cell.value : cell);

const cut = (text: string): string =>
  text.length <= CELL_CHARS_MAX
    ? visibleInLine(text)
    : `${visibleInLine(text.slice(0, CELL_CHARS_MAX - 1).toWellFormed())}…`;

function padded(text: string, width: number, type: string | undefined): string {
  const spaces = ' '.repeat(Math.max(0, width - charactersIn(text)));
  return type !== undefined && NUMBERS.test(type) ? spaces + text : text + spaces;
}

function field(cell: Cell): string {
  const text = textOf(cell);
  return text === undefined ? '' : quoted(text);
}

const quoted = (text: string): string =>
  text === '' || /[",\r\n]|^\s|\s$/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
