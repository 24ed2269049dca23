/** Tables of a page as GFM tables. */
import { type Element, isTag } from 'domhandler';
import type { Holders } from './elements.ts';

/** Cells of a row, with those that it spans; the same for each row of a table. */
export interface Table {
  readonly rows: readonly (readonly (Element | undefined)[])[];
  readonly hasHeader: boolean;
}

/** A cell may claim to span any number of columns, each of which is written in every row. */
const COLUMNS_MAX = 64;

/** Elements in a cell that a line of a table can't hold. */
const TOO_LARGE: ReadonlySet<string> = new Set(['pre', 'blockquote', 'h1', 'h2', 'h3', 'h4', 'h5', 'h6']);

/** The table as rows; undefined if it only arranges parts of the page. */
export function readTable(table: Element, holders: Holders): Table | undefined {
  const { role } = table.attribs;
  if (role === 'presentation' || role === 'none' || holders.tables.has(table)) return undefined;
  const trs = rowsOf(table);
  const cells = trs.map(cellsOf);
  if (cells.flat().some(({ children }) => children.some((it) => isTag(it) && TOO_LARGE.has(it.name)))) return undefined;
  const rows = withSpans(cells.filter((it) => it.length > 0));
  const width = rows.reduce((most, row) => Math.max(most, row.findLastIndex((it) => it !== undefined) + 1), 0);
  if (width < 2) return undefined;
  const [first] = trs;
  const isHead = first?.parent && isTag(first.parent) && first.parent.name === 'thead';
  const hasHeader = isHead || (cells[0] ?? []).every((it) => it.name === 'th');
  return { rows: rows.map((row) => Array.from({ length: width }, (_, column) => row[column])), hasHeader };
}

const childrenNamed = (parent: Element, names: readonly string[]): Element[] =>
  parent.children.filter((it): it is Element => isTag(it) && names.includes(it.name));

const rowsOf = (table: Element): Element[] =>
  childrenNamed(table, ['tr', 'thead', 'tbody', 'tfoot']).flatMap((it) =>
    it.name === 'tr' ? [it] : childrenNamed(it, ['tr']),
  );

const cellsOf = (row: Element): Element[] => childrenNamed(row, ['td', 'th']);

/** Puts each cell into its column: cells that span rows or columns leave empty ones behind. */
function withSpans(rows: readonly (readonly Element[])[]): (Element | undefined)[][] {
  /** For each column, how many more rows a cell above takes. */
  const taken: number[] = [];
  return rows.map((cells) => {
    const row: (Element | undefined)[] = [];
    const skip = () => {
      while (row.length < COLUMNS_MAX && (taken[row.length] ?? 0) > 0) {
        taken[row.length] = (taken[row.length] ?? 0) - 1;
        row.push(undefined);
      }
    };
    for (const cell of cells) {
      skip();
      const down = spanOf(cell.attribs.rowspan) - 1;
      for (let across = spanOf(cell.attribs.colspan); across > 0 && row.length < COLUMNS_MAX; across -= 1) {
        taken[row.length] = down;
        row.push(across === spanOf(cell.attribs.colspan) ? cell : undefined);
      }
    }
    skip();
    return row;
  });
}

/** HTML bounds `colspan` by 1 000 and `rowspan` by 65 534. */
function spanOf(text = '1'): number {
  const span = Number.parseInt(text, 10);
  return span >= 1 ? Math.min(span, 65_534) : 1;
}
