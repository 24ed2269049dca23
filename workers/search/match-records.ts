/**
 * Reads the output of `rg --json`, one record a line, in bounded memory: a line of a searched file may be as large as
 * the file, and its record many times larger; only its beginning is kept.
 */

/** A text of ripgrep: plain, or base64 if it is not UTF-8. */
type RawText = { readonly text: string } | { readonly bytes: string };

export interface LineRecord {
  readonly type: 'match' | 'context';
  readonly path: string | undefined;
  readonly line: number;
  readonly text: Buffer;
  /** Bytes before the first match in the line. */
  readonly start: number;
  /** Whether `text` is only the beginning of the line. */
  readonly cut: boolean;
  /** The beginning of the first match, of a line that is cut. */
  readonly match?: string;
}

export type MatchRecord =
  | LineRecord
  | { readonly type: 'end'; readonly path: string | undefined; readonly binary: boolean };

/** A larger record is not parsed as a whole. */
const RECORD_BYTES_MAX = 1024 * 1024;
/** Bytes kept of the beginning of a larger record: the path, at most 4 KiB, and some of the line. */
const HEAD_BYTES = 32 * 1024;
/** Inside a JSON string a quote follows a backslash, so these can't be part of the found text. */
const AFTER_LINES = Buffer.from('"},"line_number":');
const AFTER_MATCH = Buffer.from('"},"start":');
/** Room for both marks and the text between them, except the text of the first match. */
const OVERLAP = 64;

const NEWLINE = 10;

export class MatchRecords {
  readonly #onRecord: (record: MatchRecord) => boolean;
  #chunks: Buffer[] = [];
  #bytes = 0;
  #long: LongRecord | undefined;

  /** `take` gets each record; returning false stops. */
  constructor(take: (record: MatchRecord) => boolean) {
    this.#onRecord = take;
  }

  /** Reads a chunk; false if `take` returned false. */
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
    return record === undefined || this.#onRecord(record);
  }
}

/** The record of a huge line: its beginning, its line number, and the start of the first match. */
class LongRecord {
  #head: Buffer<ArrayBufferLike> = Buffer.alloc(0);
  #overlap: Buffer<ArrayBufferLike> = Buffer.alloc(0);
  #line: number | undefined;
  #start: number | undefined;
  /** What follows the line, as far as it is kept. */
  #rest: Buffer<ArrayBufferLike> = Buffer.alloc(0);

  push(part: Buffer): void {
    if (this.#head.length < HEAD_BYTES)
      this.#head = Buffer.concat([this.#head, part.subarray(0, HEAD_BYTES - this.#head.length)]);
    const window = Buffer.concat([this.#overlap, part]);
    this.#line ??= numberAfter(window, AFTER_LINES);
    if (this.#rest.length === 0 && this.#line !== undefined)
      this.#rest = Buffer.from(window.subarray(window.indexOf(AFTER_LINES)));
    else if (this.#line !== undefined && this.#rest.length < REST_BYTES) this.#rest = Buffer.concat([this.#rest, part]);
    this.#start ??= this.#line === undefined ? undefined : numberAfter(window, AFTER_MATCH);
    this.#overlap = Buffer.from(window.subarray(-OVERLAP));
  }

  #match(): string {
    const rest = this.#rest.toString('latin1', 0, REST_BYTES);
    const [, form, text = ''] = /"submatches":\[\{"match":\{"(text|bytes)":"(.*)$/s.exec(rest) ?? [];
    const bytes = form === 'bytes' ? Buffer.from(text, 'base64') : beginningOf(text, AFTER_MATCH);
    return Array.from(bytes.toString()).slice(0, MATCH_CHARS).join('');
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
      match: this.#match(),
    };
  }
}

/** Bytes kept of what follows the line: its first match. */
const REST_BYTES = 4096;
const MATCH_CHARS = 100;

/** The number after a mark, once its last digit is certain. */
function numberAfter(window: Buffer, mark: Buffer): number | undefined {
  const at = window.indexOf(mark);
  const digits = at < 0 ? null : /^(\d+)\D/.exec(window.toString('latin1', at + mark.length, at + mark.length + 24));
  return digits ? Number(digits[1]) : undefined;
}

/** Decodes a JSON string, up to a mark or cut, without an escape that was cut in half. */
function beginningOf(part: string, mark = AFTER_LINES): Buffer {
  const end = part.indexOf(mark.toString());
  const complete = (end < 0 ? part : part.slice(0, end)).replace(end < 0 ? /\\(u[0-9a-f]{0,3})?$/i : /$^/, '');
  const even = /(?:^|[^\\])(?:\\\\)*\\$/.test(complete) ? complete.slice(0, -1) : complete;
  return Buffer.from(JSON.parse(`"${Buffer.from(even, 'latin1').toString()}"`) as string);
}

/** A record as ripgrep documents it; each type has some of the members. */
interface RawRecord {
  readonly type: string;
  readonly data: {
    readonly path: RawText;
    readonly lines: RawText;
    readonly line_number: number;
    readonly submatches: readonly { readonly start: number }[];
    readonly binary_offset: number | null;
  };
}

function parseRecord(bytes: Buffer): MatchRecord | undefined {
  const { type, data } = JSON.parse(bytes.toString()) as RawRecord;
  if (type !== 'match' && type !== 'context' && type !== 'end') return undefined;
  const path = textOf(data.path);
  if (type === 'end') return { type, path, binary: data.binary_offset !== null };
  const { line_number: line, lines, submatches } = data;
  return { type, path, line, text: bytesOf(lines), start: submatches[0]?.start ?? 0, cut: false };
}

/** The text; undefined if it is not UTF-8. */
const textOf = (raw: RawText): string | undefined => ('text' in raw ? raw.text : undefined);
const bytesOf = (raw: RawText): Buffer => ('text' in raw ? Buffer.from(raw.text) : Buffer.from(raw.bytes, 'base64'));
