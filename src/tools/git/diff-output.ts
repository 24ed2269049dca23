/**
 * Parses `git diff --raw --numstat -p -z`: lists of names and numbers, then a patch, from which the sections of
 * refused files are removed. Architecture invariant: pure. All that a patch says of a file is in the file's own
 * section: every content line begins with one of ` +-\@` or is empty, and every name with a line break is quoted.
 */

export interface FileStat {
  readonly path: string;
  readonly from?: string | undefined;
  /** 0 for binary files. */
  readonly additions: number;
  readonly deletions: number;
}

export interface ParsedDiff {
  readonly files: readonly FileStat[];
  /** All names, old and new. */
  readonly names: readonly string[];
  readonly patch: Buffer;
  /** Whether files are in conflict; git leaves their sections out when it prints lists. */
  readonly combined: boolean;
}

/** Parses the lists and the patch; skips records that are cut. `from` is the offset of the first list. */
export function parseDiff(output: Buffer, from = 0): ParsedDiff {
  const fields = new RawDiffFields(output, from);
  const names = new Set<string>();
  const files: FileStat[] = [];
  let combined = false;
  while (fields.nextIs(':')) {
    const record = fields.take() ?? '';
    const status = /([A-Z]+)\d*$/.exec(record)?.[1] ?? '';
    combined ||= record.startsWith('::');
    const path = fields.take();
    const second = /^[RC]$/.test(status) ? fields.take() : undefined;
    for (const it of [path, second]) if (it !== undefined) names.add(it);
  }
  while (!fields.nextIs('\0') && fields.hasMore) {
    const [, additions = '', deletions = '', path] = /^(\d+|-)\t(\d+|-)\t(.*)$/s.exec(fields.take() ?? '') ?? [];
    if (path === undefined) break;
    const old = path === '' ? fields.take() : undefined;
    const name = path === '' ? fields.take() : path;
    if (name === undefined) break;
    const counts = { additions: Number(additions) || 0, deletions: Number(deletions) || 0 };
    files.push({ path: name, from: old, ...counts });
    names.add(name);
    if (old !== undefined) names.add(old);
  }
  return { files, names: [...names], patch: fields.nextIs('\0') ? fields.rest(1) : Buffer.alloc(0), combined };
}

class RawDiffFields {
  readonly #bytes: Buffer;
  #at: number;

  constructor(bytes: Buffer, at: number) {
    this.#bytes = bytes;
    this.#at = at;
  }

  get hasMore(): boolean {
    return this.#at < this.#bytes.length;
  }

  nextIs(char: string): boolean {
    return this.#bytes[this.#at] === char.charCodeAt(0);
  }

  /** The text up to the next NUL; undefined, and at the end, if there is none. */
  take(): string | undefined {
    const end = this.#bytes.indexOf(0, this.#at);
    if (end < 0) this.#at = this.#bytes.length;
    if (end < 0) return undefined;
    const field = this.#bytes.toString('utf8', this.#at, end);
    this.#at = end + 1;
    return field;
  }

  rest(skipped: number): Buffer {
    return this.#bytes.subarray(this.#at + skipped);
  }
}

const HEADERS = ['diff --git ', 'diff --cc ', 'diff --combined ', '* Unmerged path '];

/** The sections of a patch that name no refused path; drops a section whose names can't be parsed. */
export function shownSections(patch: Buffer, isRefused: (path: string) => boolean): Buffer {
  const keptSections = sectionsOf(patch).filter((section) => {
    const names = namesOf(section);
    return names.length > 0 && !names.some(isRefused);
  });
  return Buffer.concat(keptSections);
}

function sectionsOf(patch: Buffer): Buffer[] {
  const starts = HEADERS.flatMap((header) => startsOf(patch, header)).sort((a, b) => a - b);
  return starts.map((start, at) => patch.subarray(start, starts[at + 1] ?? patch.length));
}

/** Offsets of lines that begin with the header. */
function startsOf(patch: Buffer, header: string): number[] {
  const starts = patch.subarray(0, header.length).equals(Buffer.from(header)) ? [0] : [];
  const next = (from: number) => patch.indexOf(`\n${header}`, from);
  for (let at = next(0); at >= 0; at = next(at + 1)) starts.push(at + 1);
  return starts;
}

/** Old and new name of a section; empty if they can't be parsed, as in a section that is cut in its first line. */
function namesOf(section: Buffer): string[] {
  const end = section.indexOf(10);
  if (end < 0) return [];
  const first = section.toString('latin1', 0, end);
  const single = /^(?:diff --(?:cc|combined)|\* Unmerged path) (.*)$/s.exec(first)?.[1];
  if (single !== undefined) return [unquote(single)];
  return [...sameNames(first.slice('diff --git '.length)), ...renamed(section, end + 1)];
}

/** Parses `a/NAME b/NAME`. Unless the file was renamed both names are equal, which shows where a name with blanks ends. */
function sameNames(names: string): string[] {
  const half = (names.length - 1) / 2;
  if (!Number.isInteger(half) || names[half] !== ' ') return [];
  const [old, fresh] = [unquote(names.slice(0, half)), unquote(names.slice(half + 1))];
  if (!old.startsWith('a/') || !fresh.startsWith('b/') || old.slice(2) !== fresh.slice(2)) return [];
  return [old.slice(2)];
}

const RENAME = /^(?:rename|copy) (?:from|to) (.*)$/s;
const MORE = /^(?:old mode|new mode|similarity index|dissimilarity index|rename|copy) /;

function renamed(section: Buffer, from: number): string[] {
  const names: string[] = [];
  for (let at = from; at < section.length; ) {
    const end = section.indexOf(10, at);
    if (end < 0) return [];
    const line = section.toString('latin1', at, end);
    if (!MORE.test(line)) break;
    const name = RENAME.exec(line)?.[1];
    if (name !== undefined) names.push(unquote(name));
    at = end + 1;
  }
  return names;
}

const ESCAPES: Readonly<Record<string, number>> = { a: 7, b: 8, t: 9, n: 10, v: 11, f: 12, r: 13, '"': 34, '\\': 92 };

/** Undoes git's C-style quoting; `text` holds one byte per character. */
function unquote(text: string): string {
  if (!text.startsWith('"') || !text.endsWith('"') || text.length < 2)
    return Buffer.from(text, 'latin1').toString('utf8');
  const bytes: number[] = [];
  for (const [, octal, escaped, char] of text.slice(1, -1).matchAll(/\\([0-7]{3})|\\(.)|([^\\])/gs)) {
    if (octal !== undefined) bytes.push(Number.parseInt(octal, 8));
    else if (escaped !== undefined) bytes.push(ESCAPES[escaped] ?? escaped.charCodeAt(0));
    else bytes.push((char as string).charCodeAt(0));
  }
  return Buffer.from(bytes).toString('utf8');
}
