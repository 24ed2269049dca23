/**
 * Reads git's config from its text, and sets a key while everything that people wrote around it stays. Accepts what git accepts
 * (`git config --list --file`), and rejects a text that git would reject.
 */

/** `value` is undefined for a key without `=`, which git reads as `true`. */
export interface Entry {
  /** The key as git shows it: section and name in lower case, the quoted part unchanged. */
  readonly key: string;
  readonly value: string | undefined;
}

interface Placed extends Entry {
  /** Offsets of its lines; undefined if it shares a line with something else. */
  readonly lines: { readonly start: number; readonly end: number } | undefined;
}

interface Section {
  readonly name: string;
  readonly start: number;
  /** Offset after its header line. */
  readonly bodyStart: number;
  end: number;
  readonly entries: Placed[];
}

/** Parses a config; undefined if git could not read it. */
export function parseGitConfig(text: string): Entry[] | undefined {
  return sectionsOf(text)?.flatMap((it) => it.entries);
}

/** The values of each key, in order. */
export function valuesOf(entries: readonly Entry[]): Map<string, string[]> {
  const values = new Map<string, string[]>();
  for (const { key, value = 'true' } of entries) values.set(key, [...(values.get(key) ?? []), value]);
  return values;
}

/** Gives the text with exactly these values for a key; undefined if they can't be set without touching something else. */
export function withValues(text: string, key: string, values: readonly string[]): string | undefined {
  const sections = sectionsOf(text);
  if (!sections) return undefined;
  const [section, name] = [key.slice(0, key.lastIndexOf('.')), key.slice(key.lastIndexOf('.') + 1)];
  const lines = values.map((it) => `\t${name} = ${quoted(it)}\n`).join('');
  const own = sections.filter((it) => it.name === section);
  const old = own.flatMap((it) => it.entries).filter((it) => it.key === key);
  if (old.some((it) => !it.lines)) return undefined;
  const cuts = old.map((it) => it.lines as { start: number; end: number });
  // A section that held only this key is removed with it, unless it holds a comment.
  for (const it of values.length === 0 ? own : [])
    if (it.entries.length > 0 && it.entries.every((entry) => entry.key === key) && holdsOnlyEntries(text, it))
      cuts.push({ start: it.start, end: it.bodyStart });
  const last = own.at(-1);
  const at =
    cuts[0]?.start ?? last?.entries.at(-1)?.lines?.end ?? (last?.entries.length === 0 ? last.bodyStart : text.length);
  const header = old.length > 0 || (last && at !== text.length) || last?.end === at ? '' : headerOf(section);
  const insert = { at, lines: values.length === 0 ? '' : `${header}${lines}` };
  return edited(text, cuts, insert);
}

function edited(
  text: string,
  cuts: readonly { readonly start: number; readonly end: number }[],
  insert: { readonly at: number; readonly lines: string },
): string {
  const isCut = (at: number) => cuts.some(({ start, end }) => start <= at && at < end);
  const bounds = [...new Set([0, insert.at, text.length, ...cuts.flatMap(({ start, end }) => [start, end])])].sort(
    (a, b) => a - b,
  );
  let result = '';
  for (const [i, at] of bounds.entries()) {
    if (at === insert.at && insert.lines !== '') {
      if (result !== '' && !result.endsWith('\n')) result += '\n';
      result += insert.lines;
    }
    if (!isCut(at)) result += text.slice(at, bounds[i + 1] ?? at);
  }
  return result;
}

function holdsOnlyEntries(text: string, { bodyStart, end, entries }: Section): boolean {
  let rest = text.slice(bodyStart, end);
  for (const { lines } of entries) if (lines) rest = rest.replace(text.slice(lines.start, lines.end), '');
  return rest.trim() === '';
}

function headerOf(section: string): string {
  const dot = section.indexOf('.');
  if (dot < 0) return `[${section}]\n`;
  return `[${section.slice(0, dot)} "${section.slice(dot + 1).replaceAll(/["\\]/g, '\\$&')}"]\n`;
}

const quoted = (value: string): string =>
  /^[\w@%+=:,./*-][\w@%+=:,./* -]*(?<! )$/.test(value)
    ? value
    : `"${value.replaceAll(/["\\]/g, '\\$&').replaceAll('\n', '\\n').replaceAll('\t', '\\t')}"`;

function sectionsOf(text: string): Section[] | undefined {
  const reader = new Reader(text);
  try {
    return reader.sections();
  } catch (error) {
    if (error instanceof Unreadable) return undefined;
    throw error;
  }
}

class Unreadable extends Error {}

const ESCAPES: Readonly<Record<string, string>> = { n: '\n', t: '\t', b: '\b', '"': '"', '\\': '\\' };

class Reader {
  readonly #text: string;
  #at: number;

  constructor(text: string) {
    this.#text = text;
    this.#at = text.startsWith('\uFEFF') ? 1 : 0;
  }

  sections(): Section[] {
    if (this.#text.includes('\0')) throw new Unreadable();
    const sections: Section[] = [];
    for (;;) {
      this.#match(/[ \t\r\n]*/y);
      if (this.#at >= this.#text.length) break;
      if (this.#match(/[#;][^\n]*/y)) continue;
      const start = this.#at;
      if (this.#text[start] === '[') {
        const name = this.#header();
        const last = sections.at(-1);
        if (last) last.end = this.#lineStart(start);
        const bodyStart = this.#lineEnd();
        sections.push({ name, start: this.#lineStart(start), bodyStart, end: this.#text.length, entries: [] });
      } else this.#entry(sections.at(-1));
    }
    return sections;
  }

  #header(): string {
    const [, base = '', , sub] = this.#match(/\[([A-Za-z0-9.-]+)([ \t]+"((?:[^"\\\n]|\\[^\n])*)")?\]/y) ?? this.#fail();
    return sub === undefined ? base.toLowerCase() : `${base.toLowerCase()}.${sub.replaceAll(/\\([\s\S])/g, '$1')}`;
  }

  #entry(section: Section | undefined): void {
    const start = this.#at;
    const [name = ''] = this.#match(/[A-Za-z][A-Za-z0-9-]*/y) ?? this.#fail();
    this.#match(/[ \t]*/y);
    const value = this.#match(/=/y) ? this.#value() : this.#alone();
    if (!section) throw new Unreadable();
    const lineStart = this.#lineStart(start);
    const isOwn = this.#text.slice(lineStart, start).trim() === '';
    const lines = isOwn ? { start: lineStart, end: this.#at } : undefined;
    section.entries.push({ key: `${section.name}.${name.toLowerCase()}`, value, lines });
  }

  #alone(): undefined {
    if (!this.#match(/\r?(?:\n|$)/y)) this.#fail();
  }

  /** Reads a value up to the end of its last line. */
  #value(): string {
    let [value, spaces, isQuoted] = ['', '', false];
    for (;;) {
      const char = this.#text[this.#at++];
      const isEnd = char === undefined || char === '\n';
      if (isEnd) this.#at = Math.min(this.#at, this.#text.length);
      if (isEnd && isQuoted) throw new Unreadable();
      if (isEnd) return value;
      if (!isQuoted && /[ \t\r]/.test(char)) spaces += value === '' ? '' : char;
      else if (!isQuoted && (char === '#' || char === ';')) this.#match(/[^\n]*/y);
      else {
        if (char === '\\' && this.#match(/\r?\n/y)) continue;
        value += spaces;
        spaces = '';
        if (char === '"') isQuoted = !isQuoted;
        else value += char === '\\' ? (ESCAPES[this.#text[this.#at++] ?? ''] ?? this.#fail()) : char;
      }
    }
  }

  #lineStart(at: number): number {
    return this.#text.lastIndexOf('\n', at - 1) + 1;
  }

  #lineEnd(): number {
    const end = this.#text.indexOf('\n', this.#at);
    return end < 0 ? this.#text.length : end + 1;
  }

  #match(pattern: RegExp): RegExpExecArray | undefined {
    pattern.lastIndex = this.#at;
    const found = pattern.exec(this.#text);
    if (found) this.#at = pattern.lastIndex;
    return found ?? undefined;
  }

  #fail(): never {
    throw new Unreadable();
  }
}
