/** Collects the lines that a search found for its result: bounded, cut, with the lines around them. */
import { isUtf8 } from 'node:buffer';
import type { Limits } from '../../src/base/limits.ts';
import type { FoundInFiles, FoundLine } from '../../src/tools/tool.ts';
import type { LineRecord } from './match-records.ts';

/** What a search looked at, and what it passed over. */
export interface Subject {
  readonly files: number;
  readonly tooLarge: number;
  readonly tooDeep: number;
}

/** Bytes in the message beside a line's text, and of a match beside its line. */
const LINE_BYTES = 64;
const MATCH_BYTES = 1024;
/** Characters shown before a match in a line that is cut. */
const BEFORE_MATCH = 100;

export class FoundLines {
  readonly #options: { readonly contextLines: number; readonly maxResults: number; readonly limits: Limits };
  readonly #completed: FoundLine[] = [];
  #files = new Set<string>();
  /** Matches in the present file; files come one after the other. */
  #matches: FoundLine[] = [];
  #lines = new Map<number, string>();
  #bytes = 0;
  #binary = 0;
  #truncated = false;

  constructor(options: { contextLines: number; maxResults: number; limits: Limits }) {
    this.#options = options;
  }

  /** Whether lines are left out because there is no room for them. */
  get isFull(): boolean {
    return this.#truncated;
  }

  /** Adds a line; false if there is no room for more. */
  add(file: string, record: LineRecord): boolean {
    const { limits, maxResults } = this.#options;
    const isOver = record.type === 'match' && this.#completed.length + this.#matches.length >= maxResults;
    const isMatch = record.type === 'match' && !isOver;
    // The line may still be context of the last match shown.
    if (isOver && !this.#isAround(file, record.line)) return this.#stopTruncated();
    if (isOver) this.#truncated = true;
    const shown = showLine(record, limits.searchLineChars);
    this.#bytes += Buffer.byteLength(shown.text) + LINE_BYTES + (isMatch ? MATCH_BYTES : 0);
    if (this.#bytes > limits.searchResultBytes) return this.#stopTruncated();
    this.#lines.set(record.line, shown.text);
    if (isMatch) this.#matches.push({ file, line: record.line, ...shown });
    return true;
  }

  /** Ends a file. A binary file in which something matched gives no matches, and is counted. */
  end(file: string, binary: boolean): boolean {
    if (binary && this.#matches.length > 0) this.#binary += 1;
    if (!binary && this.#matches.length > 0) {
      this.#files.add(file);
      for (const match of this.#matches) this.#completed.push({ ...match, ...this.#contextOf(match.line) });
    }
    this.#matches = [];
    this.#lines = new Map();
    return true;
  }

  result({ files, tooLarge, tooDeep }: Subject): FoundInFiles {
    // The file in progress when the room ran out.
    const last = this.#matches[0];
    if (last) this.end(last.file, false);
    const matches = this.#completed.sort((a, b) => (a.file < b.file ? -1 : a.file > b.file ? 1 : a.line - b.line));
    const isSkipped = tooLarge + tooDeep + this.#binary > 0;
    return {
      matches,
      filesSearched: this.#truncated ? this.#files.size : files,
      truncated: this.#truncated || isSkipped,
      ...(isSkipped && { skipped: { tooLarge, tooDeep, binary: this.#binary } }),
    };
  }

  #isAround(file: string, line: number): boolean {
    const last = this.#matches.at(-1);
    return last?.file === file && line <= last.line + this.#options.contextLines;
  }

  #stopTruncated(): false {
    this.#truncated = true;
    return false;
  }

  #contextOf(line: number): Pick<FoundLine, 'before' | 'after'> {
    const { contextLines } = this.#options;
    if (contextLines === 0) return {};
    const texts = (from: number) =>
      Array.from({ length: contextLines }, (_, at) => this.#lines.get(from + at)).filter((it) => it !== undefined);
    return { before: texts(line - contextLines), after: texts(line + 1) };
  }
}

/** The line without its ending; a long one is cut around the match. Characters are code points. */
function showLine({ text, start, cut, match }: LineRecord, charsMax: number): { column: number; text: string } {
  // For a match beyond the part that was read, the column counts bytes.
  const columnOf = (bytes: number) => (bytes <= text.length ? lengthOf(text.subarray(0, bytes)) : bytes) + 1;
  const column = columnOf(start);
  const wholeLine = text.toString().replace(/\r?\n$/, '');
  if (wholeLine.length <= charsMax) return { column, text: cut ? `${wholeLine}…` : wholeLine };
  if (cut && start > text.length) return { column, text: `${wholeLine.slice(0, charsMax - BEFORE_MATCH)}…${match}…` };
  const points = Array.from(wholeLine);
  const from = column - 1 > charsMax - BEFORE_MATCH && start <= text.length ? column - 1 - BEFORE_MATCH : 0;
  const window = points.slice(from, from + charsMax).join('');
  const isEnd = from + charsMax >= points.length && !cut;
  return { column, text: `${from > 0 ? '…' : ''}${window}${isEnd ? '' : '…'}` };
}

/** Number of code points; invalid UTF-8 counts as its replacement characters. */
function lengthOf(bytes: Buffer): number {
  const text = bytes.toString();
  return isUtf8(bytes) && text.length === bytes.length ? text.length : Array.from(text).length;
}
