/** Output of programs as text with colours. Only colours and weights are kept: output moves no cursor and makes no link. */

export interface Span {
  readonly text: string;
  /** Classes of the page's style sheet: `c1` … `c15`, `b` for bold, `i`, `u`. */
  readonly kind: string;
}

/** The colour and weight that hold at one point of an output. */
export interface Ink {
  readonly color?: number;
  readonly marks: string;
}

export const PLAIN: Ink = { marks: '' };

const [ESCAPE, BELL] = ['\u001b', '\u0007'];
/** An escape sequence: colours (CSI … m), other CSI, OSC up to its end, or two characters. */
const SEQUENCE = new RegExp(
  [
    String.raw`${ESCAPE}\[([0-9;:]*)([ -/]*[@-~])`,
    String.raw`${ESCAPE}\][^${BELL}${ESCAPE}]*(?:${BELL}|${ESCAPE}\\|$)`,
    `${ESCAPE}[ -/]*[0-~]`,
  ].join('|'),
  'g',
);
/** Characters that are left out: controls but tab and line feed. */
const CONTROL = /[^\P{Cc}\t\n]/gu;

/** The spans of a text, and the ink that holds behind it. */
export function spansOf(text: string, from: Ink): { spans: Span[]; ink: Ink } {
  const spans: Span[] = [];
  let ink = from;
  let at = 0;
  const add = (part: string) => {
    const shown = part.replaceAll('\r\n', '\n').replaceAll(CONTROL, '');
    if (shown) spans.push({ text: shown, kind: kindOf(ink) });
  };
  for (const match of text.matchAll(SEQUENCE)) {
    add(text.slice(at, match.index));
    at = match.index + match[0].length;
    if (match[2] === 'm') ink = inked(ink, match[1] ?? '');
  }
  add(text.slice(at));
  return { spans, ink };
}

const kindOf = ({ color, marks }: Ink): string =>
  [color === undefined ? '' : `c${color}`, ...marks.split('')].join(' ').trim();

const MARKS: Readonly<Record<number, string>> = { 1: 'b', 3: 'i', 4: 'u' };
const ENDS: Readonly<Record<number, string>> = { 22: 'b', 23: 'i', 24: 'u' };

/** The ink after a colour sequence. Colours beyond the sixteen are left out, and so are backgrounds. */
function inked(ink: Ink, parameters: string): Ink {
  const codes = parameters === '' ? [0] : parameters.split(/[;:]/).map(Number);
  let { color, marks } = ink;
  for (let at = 0; at < codes.length; at++) {
    const code = codes[at] as number;
    if (code === 0) [color, marks] = [undefined, ''];
    else if (MARKS[code]) marks = marks.includes(MARKS[code]) ? marks : marks + MARKS[code];
    else if (ENDS[code]) marks = marks.replace(ENDS[code], '');
    else if (code >= 30 && code <= 37) color = code - 30;
    else if (code >= 90 && code <= 97) color = code - 82;
    else if (code === 39) color = undefined;
    else if (code === 38 || code === 48) at += codes[at + 1] === 5 ? 2 : 4;
  }
  return { marks, ...(color !== undefined && { color }) };
}
