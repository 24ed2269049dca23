/** Finds the lines of a text that are most like a search text that was not found; looks at each character once. */
export interface ClosestLines {
  /** Counted from 1. */
  readonly startLine: number;
  readonly endLine: number;
  /** Similarity of the compared line, 0 to 100. */
  readonly percent: number;
  /** The lines side by side: `-` as searched for, `+` as in the text, a space for equal lines. */
  readonly hint: string;
  /** Whether only spaces and tabs differ. */
  readonly onlySpace: boolean;
}

/** The most characters of a line that are compared, lines of a search, and lines and characters of the hint. */
const LINE_CHARS_MAX = 512;
const SEARCH_LINES_MAX = 100;
const HINT_LINES = 12;
const HINT_CHARS = 160;
/** The least similarity worth showing. */
const PERCENT_MIN = 40;
/** Number of counters for pairs of characters; pairs that share a counter make lines look slightly more alike. */
const SLOTS = 4096;

/** Finds the nearest lines; both texts use `\n`. Undefined if nothing is similar enough. */
export function nearestTo(search: string, text: string): ClosestLines | undefined {
  const wanted = search.replace(/^\n+/, '').replace(/\n$/, '').split('\n', SEARCH_LINES_MAX);
  const lengths = wanted.map((it) => it.trim().length);
  const telling = lengths.indexOf(Math.max(...lengths));
  const likeness = likenessTo((wanted[telling] as string).trim());
  let best = { percent: 0, line: 0 };
  let line = 0;
  for (let at = 0; at <= text.length; line++) {
    const newline = text.indexOf('\n', at);
    const end = newline < 0 ? text.length : newline;
    const percent = likeness(text.slice(at, Math.min(end, at + LINE_CHARS_MAX)).trim());
    if (percent > best.percent) best = { percent, line };
    at = end + 1;
  }
  if (best.percent < PERCENT_MIN) return undefined;
  const first = Math.max(0, best.line - telling);
  const found = linesFrom(text, first, wanted.length);
  return {
    startLine: first + 1,
    endLine: first + found.length,
    percent: best.percent,
    hint: hintOf(wanted, found),
    onlySpace: squeeze(wanted.join('\n')) === squeeze(found.join('\n')),
  };
}

const squeeze = (text: string): string => text.replaceAll(/\s+/g, ' ').trim();

/** Gives a function for the similarity of a line, 0 to 100, measured by shared pairs of characters. */
function likenessTo(line: string): (other: string) => number {
  const wanted = line.slice(0, LINE_CHARS_MAX);
  const counts = new Uint16Array(SLOTS);
  const slot = (text: string, at: number) => (text.charCodeAt(at) * 31 + text.charCodeAt(at + 1)) & (SLOTS - 1);
  for (let at = 0; at + 1 < wanted.length; at++) add(counts, slot(wanted, at), 1);
  const left = new Uint16Array(SLOTS);
  return (other) => {
    if (other === wanted) return 100;
    const total = Math.max(0, wanted.length - 1) + Math.max(0, other.length - 1);
    // Lines of very different lengths can't be much alike.
    if (total === 0 || 200 * Math.min(wanted.length, other.length) < PERCENT_MIN * total) return 0;
    left.set(counts);
    let shared = 0;
    for (let at = 0; at + 1 < other.length; at++) {
      const it = slot(other, at);
      if ((left[it] as number) > 0) {
        add(left, it, -1);
        shared += 1;
      }
    }
    return Math.min(99, Math.floor((200 * shared) / total));
  };
}

function add(counts: Uint16Array, at: number, by: number): void {
  counts[at] = (counts[at] as number) + by;
}

function linesFrom(text: string, first: number, count: number): string[] {
  let at = 0;
  for (let line = 0; line < first; line++) at = text.indexOf('\n', at) + 1;
  const lines: string[] = [];
  while (lines.length < count && at <= text.length) {
    const newline = text.indexOf('\n', at);
    const end = newline < 0 ? text.length : newline;
    lines.push(text.slice(at, end));
    at = end + 1;
  }
  return lines;
}

function hintOf(wanted: readonly string[], found: readonly string[]): string {
  const hints: string[] = [];
  for (let at = 0; at < Math.max(wanted.length, found.length) && hints.length < HINT_LINES; at++) {
    const [old, now] = [wanted[at], found[at]];
    if (old === now) hints.push(` ${cut(old as string)}`);
    else {
      if (old !== undefined) hints.push(`-${withEscapes(cut(old))}`);
      if (now !== undefined) hints.push(`+${withEscapes(cut(now))}`);
    }
  }
  return hints.join('\n');
}

/** Characters that look like others or like nothing, as escapes. */
const withEscapes = (line: string): string =>
  line.replaceAll(
    /[\p{M}\p{Cf}\u00a0\u2007\u202f\u2018-\u201f]/gu,
    (it) => `\\u{${(it.codePointAt(0) ?? 0).toString(16)}}`,
  );

const cut = (line: string): string => (line.length > HINT_CHARS ? `${line.slice(0, HINT_CHARS)}…` : line);
