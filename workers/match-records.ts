/**
 * What `rg --json` writes, one record a line, read in bounded memory: a line of a searched file may be as large as the file,
 * and its record many times that, of which only the beginning is kept.
 */

/** Text of ripgrep's: as it is, or as base64 where it is not UTF-8. */
type RawText = { readonly text: string } | { readonly bytes: string };

export interface LineRecord {
  readonly type: 'match' | 'context';
  readonly path: string | undefined;
  readonly line: number;
  readonly text: Buffer;
  /** Bytes before the first match in it. */
  readonly start: number;
  /** Whether `text` is only its beginning. */
  readonly cut: boolean;
}

export type MatchRecord =
  | LineRecord
  | { readonly type: 'end'; readonly path: string | undefined; readonly binary: boolean }
  | { readonly type: 'summary'; readonly searches: number };

/** A record that is larger is not parsed as a whole. */
const RECORD_BYTES_MAX = 1024 * 1024;
/** Of a larger one, what is kept of its beginning: the path, which is 4 KiB at most, and some of the line. */
const HEAD_BYTES = 32 * 1024;
/** Within a JSON text a quote stands behind a backslash, so that these can't be part of what was found. */
const AFTER_LINES = Buffer.from('"},"line_number":');
const AFTER_MATCH = Buffer.from('"},"start":');
/** Room for both and what stands between them, but for the text of the first match. */
const OVERLAP = 64;

const NEWLINE = 10;

export class MatchRecords {
  readonly #take: (record: MatchRecord) => boolean;
  #chunks: Buffer[] = [];
  #bytes = 0;
  #long: LongRecord | undefined;

  /** `take` is called with each record, and returns false when it has enough. */
  constructor(take: (record: MatchRecord) => boolean) {
    this.#take = take;
  }

  /** False when `take` had enough. */
  push(chunk: Buffer): boolean {
    for (let at = 0; at < chunk.length; ) {
      const newline = chunk.indexOf(NEWLINE, at);
      const end = newline < 0 ? chunk.length : newline;
      this.#add(chunk.subarray(at, end));
      at = end + 1;
      if (newline >= 0 && !this.#end()) return false;
    }
    return true;
  }

  #add(part: Buffer): void {
    if (this.#long) return this.#long.push(part);
    this.#chunks.push(part);
    this.#bytes += part.length;
    if (this.#bytes <= RECORD_BYTES_MAX) return;
    this.#long = new LongRecord();
    for (const it of this.#chunks.splice(0)) this.#long.push(it);
  }

  #end(): boolean {
    const record = this.#long ? this.#long.record() : parseRecord(Buffer.concat(this.#chunks));
    this.#chunks = [];
    this.#bytes = 0;
    this.#long = undefined;
    return record === undefined || this.#take(record);
  }
}

/** The record of a huge line: its beginning, its number, and where the first match begins. */
class LongRecord {
  #head: Buffer<ArrayBufferLike> = Buffer.alloc(0);
  #overlap: Buffer<ArrayBufferLike> = Buffer.alloc(0);
  #line: number | undefined;
  #start: number | undefined;

  push(part: Buffer): void {
    if (this.#head.length < HEAD_BYTES)
      this.#head = Buffer.concat([this.#head, part.subarray(0, HEAD_BYTES - this.#head.length)]);
    const window = Buffer.concat([this.#overlap, part]);
    this.#line ??= numberAfter(window, AFTER_LINES);
    this.#start ??= this.#line === undefined ? undefined : numberAfter(window, AFTER_MATCH);
    this.#overlap = Buffer.from(window.subarray(-OVERLAP));
  }

  record(): LineRecord | undefined {
    const head = /^\{"type":"(match|context)","data":\{"path":(\{.*?\}),"lines":\{"(text|bytes)":"(.*)$/s.exec(
      this.#head.toString('latin1'),
    );
    if (!head || this.#line === undefined) return undefined;
    const [, type, path = '', form, lines = ''] = head;
    const raw = JSON.parse(Buffer.from(path, 'latin1').toString()) as RawText;
    return {
      type: type as LineRecord['type'],
      path: textOf(raw),
      line: this.#line,
      text: form === 'text' ? beginningOf(lines) : Buffer.from(lines, 'base64'),
      start: this.#start ?? 0,
      cut: true,
    };
  }
}

/** The digits behind a mark, once something stands behind them too. */
function numberAfter(window: Buffer, mark: Buffer): number | undefined {
  const at = window.indexOf(mark);
  const digits = at < 0 ? null : /^(\d+)\D/.exec(window.toString('latin1', at + mark.length, at + mark.length + 24));
  return digits ? Number(digits[1]) : undefined;
}

/** Part of a JSON text, up to where it was cut, without an escape that was cut in half. */
function beginningOf(part: string): Buffer {
  const end = part.indexOf(AFTER_LINES.toString());
  const whole = (end < 0 ? part : part.slice(0, end)).replace(end < 0 ? /\\(u[0-9a-f]{0,3})?$/i : /$^/, '');
  const even = /(?:^|[^\\])(?:\\\\)*\\$/.test(whole) ? whole.slice(0, -1) : whole;
  return Buffer.from(JSON.parse(`"${Buffer.from(even, 'latin1').toString()}"`) as string);
}

/** As ripgrep documents it; the members that its kind has. */
interface RawRecord {
  readonly type: string;
  readonly data: {
    readonly path: RawText;
    readonly lines: RawText;
    readonly line_number: number;
    readonly submatches: readonly { readonly start: number }[];
    readonly binary_offset: number | null;
    readonly stats: { readonly searches: number };
  };
}

function parseRecord(bytes: Buffer): MatchRecord | undefined {
  const { type, data } = JSON.parse(bytes.toString()) as RawRecord;
  if (type === 'summary') return { type, searches: data.stats.searches };
  if (type === 'begin') return undefined;
  const path = textOf(data.path);
  if (type === 'end') return { type, path, binary: data.binary_offset !== null };
  if (type !== 'match' && type !== 'context') return undefined;
  const { line_number: line, lines, submatches } = data;
  return { type, path, line, text: bytesOf(lines), start: submatches[0]?.start ?? 0, cut: false };
}

/** Undefined for what is not UTF-8. */
const textOf = (raw: RawText): string | undefined => ('text' in raw ? raw.text : undefined);
const bytesOf = (raw: RawText): Buffer => ('text' in raw ? Buffer.from(raw.text) : Buffer.from(raw.bytes, 'base64'));
