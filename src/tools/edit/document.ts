/** Edits a text and keeps its line endings, its BOM and everything outside of the edits. */
import { ToolError } from '../../base/errors.ts';
import { onlyMatch } from './alike.ts';
import { type Range, REPLACEMENTS_MAX, tooOften } from './replacing.ts';

const BOM = '\ufeff';

export type EditOperation =
  | { readonly type: 'replace'; readonly search: string; readonly replace: string; readonly all: boolean }
  | { readonly type: 'insert'; readonly line: number; readonly content: string }
  | { readonly type: 'delete'; readonly startLine: number; readonly endLine: number };

/** Thrown if a search text is not found, or found too often; the tool words the message. */
export class SearchError extends Error {
  /** Line numbers of the matches, from 1; at most `LINES_TOLD`. */
  readonly lines: readonly number[];
  readonly matches: number;

  constructor(matches: number, lines: readonly number[]) {
    super('the search text is not there exactly once');
    this.matches = matches;
    this.lines = lines;
  }
}

const LINES_TOLD = 20;

/**
 * A text under edit. Searches see every line ending as `\n`, so that `a\nb` is found in a file with `\r\n`; new text
 * gets the ending that most lines have.
 */
export class Document {
  readonly #bom: string;
  readonly #charsMax: number;
  #text: string;
  #inexact = 0;

  constructor(text: string, charsMax: number) {
    this.#bom = text.startsWith(BOM) ? BOM : '';
    this.#text = text.slice(this.#bom.length);
    this.#charsMax = charsMax;
  }

  /** How many replacements matched although the text there differs in the form of characters. */
  get inexact(): number {
    return this.#inexact;
  }

  /** The whole text, with its BOM. */
  get text(): string {
    return this.#bom + this.#text;
  }

  /** The text as searches see it: without BOM, every line ending `\n`. */
  get flat(): string {
    return flatten(this.#text);
  }

  /** Applies an edit. Throws SearchError, INPUT_INVALID for lines that do not exist, FILE_LIMIT. */
  apply(operation: EditOperation): void {
    switch (operation.type) {
      case 'replace':
        return this.#replace(operation.search, operation.replace, operation.all);
      case 'insert':
        return this.#insert(operation.line, operation.content);
      case 'delete':
        return this.#delete(operation.startLine, operation.endLine);
      default:
        return operation satisfies never;
    }
  }

  /** Replaces ranges of `flat`, which must be in order and must not overlap. */
  splice(ranges: readonly Range[]): void {
    const text = this.#text;
    const toRaw = rawPositions(text);
    const ending = endingOf(text);
    let length = text.length;
    const fresh = ranges.map((it) => {
      const range = { from: toRaw(it.from), to: toRaw(it.to), text: withEnding(it.text, ending) };
      length += range.text.length - (range.to - range.from);
      // Checked before the text is built: a few operations could otherwise need more memory than there is.
      if (length > this.#charsMax) throw tooLong(length, this.#charsMax);
      return range;
    });
    const parts: string[] = [];
    let at = 0;
    for (const range of fresh) {
      parts.push(text.slice(at, range.from), range.text);
      at = range.to;
    }
    parts.push(text.slice(at));
    this.#text = parts.join('');
  }

  #replace(search: string, replace: string, all: boolean): void {
    const flat = this.flat;
    // A search text copied from the start of the file may contain the BOM, which is not part of the edited text.
    if (this.#bom !== '' && search.length > 1 && search.startsWith(BOM)) {
      const wanted = flatten(search.slice(1));
      const text = replace.startsWith(BOM) ? replace.slice(1) : replace;
      if (flat.startsWith(wanted)) return this.splice([{ from: 0, to: wanted.length, text }]);
    }
    const wanted = flatten(search);
    const ranges: Range[] = [];
    let matches = 0;
    for (let at = flat.indexOf(wanted); at >= 0; at = flat.indexOf(wanted, at + wanted.length)) {
      if (++matches > REPLACEMENTS_MAX) throw tooOften();
      if (all || ranges.length < LINES_TOLD) ranges.push({ from: at, to: at + wanted.length, text: replace });
    }
    const alike = matches === 0 ? onlyMatch(flat, wanted) : undefined;
    if (alike) {
      this.#inexact += 1;
      return this.splice([{ ...alike, text: replace }]);
    }
    if (matches === 0 || (matches > 1 && !all)) {
      const starts = ranges.slice(0, LINES_TOLD).map((it) => it.from);
      throw new SearchError(matches, linesAt(flat, starts));
    }
    this.splice(ranges);
  }

  #insert(line: number, content: string): void {
    const text = this.#text;
    const lines = countLines(text);
    if (line > lines + 1)
      throw new ToolError('INPUT_INVALID', `line ${line} is past the end: the file has ${lines} lines`);
    const ending = endingOf(text) ?? '\n';
    const fresh = withEnding(content, ending);
    const body = fresh.endsWith(ending) ? fresh.slice(0, -ending.length) : fresh;
    if (text.length + body.length + ending.length > this.#charsMax)
      throw tooLong(text.length + body.length, this.#charsMax);
    const at = startOfLine(text, line);
    const ended = text === '' || text.endsWith('\n');
    const atEnd = at === text.length && !ended;
    this.#text = text.slice(0, at) + (atEnd ? ending + body : body + ending) + text.slice(at);
  }

  #delete(startLine: number, endLine: number): void {
    const text = this.#text;
    const lines = countLines(text);
    if (startLine > endLine)
      throw new ToolError('INPUT_INVALID', `startLine ${startLine} comes after endLine ${endLine}`);
    if (endLine > lines)
      throw new ToolError('INPUT_INVALID', `endLine ${endLine} is past the end: the file has ${lines} lines`);
    const from = startOfLine(text, startLine);
    const to = startOfLine(text, endLine + 1);
    const left = text.slice(0, from) + text.slice(to);
    // A text without a final newline stays without one.
    this.#text = to === text.length && !text.endsWith('\n') ? withoutFinalNewline(left) : left;
  }
}

const tooLong = (used: number, limit: number) =>
  new ToolError('FILE_LIMIT', `the file would be ${used} characters or more; at most ${limit} are written`, {
    details: { limit, used, enforcedBy: 'tool' },
  });

const flatten = (text: string): string => (text.includes('\r\n') ? text.replaceAll('\r\n', '\n') : text);
const withEnding = (text: string, ending: string | undefined): string =>
  ending === undefined ? text : ending === '\n' ? flatten(text) : flatten(text).replaceAll('\n', '\r\n');
const withoutFinalNewline = (text: string): string =>
  text.endsWith('\r\n') ? text.slice(0, -2) : text.endsWith('\n') ? text.slice(0, -1) : text;

/** The most frequent line ending; undefined for a text without one. */
function endingOf(text: string): string | undefined {
  let [crlf, lf] = [0, 0];
  for (let at = text.indexOf('\n'); at >= 0; at = text.indexOf('\n', at + 1)) {
    if (at > 0 && text[at - 1] === '\r') crlf += 1;
    else lf += 1;
  }
  if (crlf + lf === 0) return undefined;
  return crlf > lf ? '\r\n' : '\n';
}

/** Maps positions of the flat text, asked in ascending order, to positions of the raw text. */
function rawPositions(text: string): (flat: number) => number {
  if (!text.includes('\r\n')) return (flat) => flat;
  let removed = 0;
  let next = text.indexOf('\r\n');
  return (flat) => {
    // `\r\n` is one character of the flat text, so each pair before a position shifts it by one.
    while (next >= 0 && next - removed < flat) {
      removed += 1;
      next = text.indexOf('\r\n', next + 2);
    }
    return flat + removed;
  };
}

/** Counts lines as editors do: a final newline begins no line. */
export function countLines(text: string): number {
  let lines = 0;
  for (let at = text.indexOf('\n'); at >= 0; at = text.indexOf('\n', at + 1)) lines += 1;
  return text === '' || text.endsWith('\n') ? lines : lines + 1;
}

/** The position where a line begins; lines count from 1. For the line after the last, the end of the text. */
function startOfLine(text: string, line: number): number {
  let at = 0;
  for (let before = 1; before < line; before++) {
    const newline = text.indexOf('\n', at);
    if (newline < 0) return text.length;
    at = newline + 1;
  }
  return at;
}

/** The line numbers of positions that are in ascending order. */
export function linesAt(text: string, positions: readonly number[]): number[] {
  let line = 1;
  let at = text.indexOf('\n');
  return positions.map((position) => {
    while (at >= 0 && at < position) {
      line += 1;
      at = text.indexOf('\n', at + 1);
    }
    return line;
  });
}
