/**
 * Tables and colours for a person at a terminal: faint heads, a state as a sign and a word, times from now, one line a row, never wrapped.
 * Nothing of it goes through a pipe.
 */
import { styleText } from 'node:util';
import { charactersIn, showLine } from '../../base/text/shown-text.ts';
import { print } from '../output.ts';

type Style = Parameters<typeof styleText>[0];

/** Text in a style, where standard output is a terminal and NO_COLOR is not set. */
export const paint = (style: Style, text: string): string => styleText(style, text, { stream: process.stdout });

/** Whether a person reads standard output. */
export const isTerminal = (): boolean => process.stdout.isTTY === true;

export interface Column {
  readonly head: string;
  readonly align?: 'right';
  /** Takes the room that the others leave, and is cut on the left where that is too little. */
  readonly grows?: true;
  readonly style?: Style;
}

export type Cell = string | { readonly text: string; readonly style?: Style | undefined };

const GAP = '  ';
const COLUMNS = 100;
/** Fewest characters of the column that grows. */
const GROWN_MIN = 16;

/** Prints rows below their heads, as wide as the terminal. */
export function printTable(columns: readonly Column[], rows: readonly (readonly Cell[])[]): void {
  const texts = rows.map((row) => row.map((it) => showLine(typeof it === 'string' ? it : it.text)));
  const widths = columns.map(({ head }, at) =>
    Math.max(head.length, ...texts.map((row) => charactersIn(row[at] ?? ''))),
  );
  const grown = columns.findIndex((it) => it.grows);
  const others = widths.reduce((sum, it, at) => sum + (at === grown ? 0 : it + GAP.length), 0);
  const room = Math.max(GROWN_MIN, (process.stdout.columns || COLUMNS) - others - GAP.length);
  if (grown >= 0) widths[grown] = Math.min(widths[grown] as number, room);
  const line = (cells: readonly string[], styleOf: (at: number) => Style | undefined) =>
    GAP +
    cells
      .map((it, at) => {
        const text = cutLeft(it, widths[at] as number);
        const pad = ' '.repeat((widths[at] as number) - charactersIn(text));
        const style = styleOf(at);
        const shown = style ? paint(style, text) : text;
        return columns[at]?.align === 'right' ? pad + shown : at === cells.length - 1 ? shown : shown + pad;
      })
      .join(GAP);
  print(
    line(
      columns.map(({ head }) => head),
      () => 'dim',
    ),
  );
  for (const [at, row] of texts.entries())
    print(
      line(row, (column) => {
        const cell = rows[at]?.[column];
        return (typeof cell === 'object' ? cell.style : undefined) ?? columns[column]?.style;
      }),
    );
}

/** The end of a text that is too long: of a path or a command it tells the most. */
const cutLeft = (text: string, width: number): string =>
  charactersIn(text) <= width
    ? text
    : `…${Array.from(text)
        .slice(1 - width)
        .join('')}`;

/** `3 s`, `12 min`, `4 h`, `2 days`. */
export function since(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (seconds < 90) return `${seconds} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 90) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  if (hours >= 48) return `${Math.round(hours / 24)} days`;
  return minutes % 60 === 0 ? `${hours} h` : `${hours} h ${minutes % 60} min`;
}

/** `12 ms`, `1.2 s`, `48 s`, `3 min`. */
export const took = (ms: number): string =>
  ms < 1000 ? `${Math.round(ms)} ms` : ms < 60_000 ? `${(ms / 1000).toFixed(1)} s` : since(ms);

/** How a call is: a sign and a word, in red only if it failed. */
export function stateCell(word: string): Cell {
  const of = (sign: string, style?: Style): Cell => ({ text: `${sign} ${word}`, style });
  if (word === 'ok' || word === 'done') return of('✓', 'dim');
  if (word === 'running' || word === 'under way' || word === 'detached' || word === 'background')
    return of('▶', 'green');
  if (word === 'waits for you' || word === 'asked') return of('?', ['yellow', 'bold']);
  if (word === 'queued' || word === 'unknown') return of('·', 'dim');
  if (word === 'paused') return of('‖', 'yellow');
  return REFUSED.test(word) ? of('⊘') : of('✗', 'red');
}

const REFUSED =
  /^(?:refused|cancelled|CANCELLED|ACCESS_DENIED|SENSITIVE_FILE|POLICY_DENIED|APPROVAL_\w+|TOOL_DISABLED|SANDBOX_DENIED|RATE_LIMITED|QUEUE_FULL|COST_LIMIT)/;
