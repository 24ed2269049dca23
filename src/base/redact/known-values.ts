/**
 * Hides values that are known to be secret, however the text spells them: both are compared in one canonical form, in
 * which JSON, URL and HTML escapes are decoded, also within each other, and characters that nobody sees are gone. A
 * value in base64 or hex is found as well. Pure.
 */
import { mapTexts } from '../text/values.ts';

/** What stands in the place of a value. */
const HIDDEN = '[secret]';
/** Length in bytes below which a value would match unrelated text. */
const BYTES_MIN = 4;
/** Escapes within escapes that are decoded; no serializer nests deeper. */
const LEVELS_MAX = 4;

// Bytes are handled as Latin-1 text, one character each, so that whatever is not hidden comes back as it was.
const latin1 = (text: string): string => Buffer.from(text).toString('latin1');

/** Line ends, NUL (half of a UTF-16 unit), and the UTF-8 of characters that have no width. */
const UNSEEN =
  /[\0\r\n]|\u00c2\u00ad|\u00e2\u0080[\u008b-\u008f\u00aa-\u00ae]|\u00e2\u0081[\u00a0-\u00af]|\u00ef\u00bb\u00bf/;
const ESCAPES = [
  /(?<run>(?:\\\\)+)/,
  /\\(?<char>[^ux])/,
  /\\u\{0{0,8}(?<braced>[\da-f]{1,6})\}/,
  /\\u(?<high>d[89ab][\da-f]{2})\\{1,8}u(?<low>d[c-f][\da-f]{2})/,
  /\\u(?<unit>[\da-f]{4})/,
  /\\x(?<byte>[\da-f]{2})/,
  /%(?<percent>[\da-f]{2})/,
  /&#x0{0,8}(?<hex>[\da-f]{1,6});?/,
  /&#0{0,8}(?<decimal>\d{1,7});?/,
  /&(?<name>amp|lt|gt|quot|apos|shy|zwj|zwnj);/,
  /\\(?<letter>[ux])/,
];
const PATTERN = new RegExp([...ESCAPES, UNSEEN].map((it) => it.source).join('|'), 'gi');
const NAMED: Readonly<Record<string, string>> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'" };
/** Escapes that stand for a control character, which is unseen or no part of a value. */
const CONTROLS: Readonly<Record<string, string>> = { n: '', r: '', t: '\t', b: '\b', f: '\f' };

/** What an escape stands for, as Latin-1 of its bytes. */
function decoded(found: Record<string, string | undefined>): string {
  const { braced, high, low, unit, byte, percent, hex, decimal, name, char, letter, run } = found;
  if (run) return run.slice(run.length / 2);
  if (percent ?? byte) return String.fromCharCode(Number.parseInt((percent ?? byte) as string, 16));
  if (name) return NAMED[name.toLowerCase()] ?? '';
  if (char ?? letter) return CONTROLS[char ?? ''] ?? ((char ?? letter) as string);
  if (high && low) return latin1(String.fromCharCode(Number.parseInt(high, 16), Number.parseInt(low, 16)));
  const code = decimal ? Number(decimal) : Number.parseInt(braced ?? unit ?? hex ?? '', 16);
  return code > 0 && code <= 0x10ffff ? latin1(String.fromCodePoint(code)) : '';
}

/** A text in canonical form; `at` has the offset of each of its characters in the original, and of the end. */
interface Canonical {
  readonly text: string;
  readonly at: Uint32Array | undefined;
}

/** Decodes one level of escapes; undefined if there are none. */
function decodeOnce({ text, at }: Canonical): Canonical | undefined {
  const parts: string[] = [];
  const offsets = new Uint32Array(text.length + 1);
  let [length, from] = [0, 0];
  const add = (part: string, offsetOf: (index: number) => number) => {
    for (let i = 0; i < part.length; i++) offsets[length++] = offsetOf(i);
    parts.push(part);
  };
  const original = (index: number) => (at ? (at[index] as number) : index);
  for (const match of text.matchAll(PATTERN)) {
    const start = from;
    add(text.slice(from, match.index), (i) => original(start + i));
    add(decoded(match.groups ?? {}), () => original(match.index));
    from = match.index + match[0].length;
  }
  if (from === 0) return undefined;
  const start = from;
  add(text.slice(from), (i) => original(start + i));
  offsets[length] = original(text.length);
  return { text: parts.join(''), at: offsets.subarray(0, length + 1) };
}

function toCanonical(text: string): Canonical {
  let canonical: Canonical = { text, at: undefined };
  for (let level = 0; level < LEVELS_MAX; level++) {
    const next = decodeOnce(canonical);
    if (!next) break;
    canonical = next;
  }
  return canonical;
}

/** The characters of base64 that depend on these bytes alone, for each position at which they may begin. */
function base64Of(bytes: Buffer): string[] {
  return [0, 1, 2].flatMap((before) => {
    const padded = Buffer.concat([Buffer.alloc(before), bytes]);
    const whole = padded.toString('base64').replace(/=+$/, '');
    // Characters that hold bits of what stands before or behind are left out.
    const inner = whole.slice(Math.ceil((before * 8) / 6), Math.floor((padded.length * 8) / 6));
    return inner.length < BYTES_MIN ? [] : [inner, inner.replaceAll('+', '-').replaceAll('/', '_')];
  });
}

/** An escape that is cut at the end of a text. */
const CUT_ESCAPE = /(?:\\+(?:u\{?)?[\da-f]{0,5}|%[\da-f]?|&#?\w{0,8})$/i;

/** A set of secret values, prepared once. */
export class KnownValues {
  /** Canonical forms of the values, and the texts that hold them in another coding; longest first. */
  readonly #forms: readonly string[];
  readonly #hex: readonly string[];

  constructor(values: readonly string[]) {
    const known = [...new Set(values)].map((it) => Buffer.from(it)).filter((it) => it.length >= BYTES_MIN);
    const forms = known.flatMap((bytes) => {
      const { text } = toCanonical(bytes.toString('latin1'));
      return [text, text.replaceAll(' ', '+'), ...base64Of(bytes)];
    });
    this.#forms = [...new Set(forms)].filter((it) => it.length >= BYTES_MIN).sort((a, b) => b.length - a.length);
    this.#hex = known.map((it) => it.toString('hex'));
  }

  /** The bytes without the values. `isCut` says that more bytes followed, so that the beginning of a value may stand at the end. */
  hideIn(bytes: Buffer, { isCut = false } = {}): Buffer {
    if (this.#forms.length === 0) return bytes;
    const before = bytes.toString('latin1');
    const canonical = toCanonical(before);
    const found = [...rangesOf(canonical.text, this.#forms), ...rangesOf(canonical.text.toLowerCase(), this.#hex)];
    const end = isCut ? this.#cutAt(canonical.text) : canonical.text.length;
    if (found.length === 0 && end === canonical.text.length) return bytes;
    const original = (index: number) => canonical.at?.[index] ?? index;
    let [text, from] = ['', 0];
    for (const [start, stop] of found.sort(([a], [b]) => a - b)) {
      // A value within another one that is hidden already.
      if (original(start) < from) {
        from = Math.max(from, original(stop));
        continue;
      }
      text += before.slice(from, original(start)) + HIDDEN;
      from = original(stop);
    }
    return Buffer.from(text + before.slice(from, Math.max(from, original(end))), 'latin1');
  }

  /** The text without the values. */
  hide(text: string): string {
    return this.#forms.length === 0 ? text : this.hideIn(Buffer.from(text)).toString();
  }

  /** A copy of plain data whose texts, names of members too, are without the values. */
  hideAll(value: unknown): unknown {
    return this.#forms.length === 0 ? value : mapTexts(value, (text) => this.hide(text));
  }

  /** Offset of the longest beginning of a value that ends a text; the text's length if no value begins there. */
  #cutAt(text: string): number {
    const whole = text.replace(CUT_ESCAPE, '');
    const longest = (it: string) =>
      Math.max(0, ...[...this.#forms, ...this.#hex].map((form) => beginningAtEnd(it, form)));
    const [plain, beforeEscape] = [longest(text), longest(whole)];
    return Math.min(text.length - plain, beforeEscape > 0 ? whole.length - beforeEscape : text.length);
  }
}

/** Start and end of each form in a text. */
function* rangesOf(text: string, forms: readonly string[]): Iterable<[number, number]> {
  for (const form of forms)
    for (let at = text.indexOf(form); at !== -1; at = text.indexOf(form, at + form.length))
      yield [at, at + form.length];
}

/** Length of the longest beginning of `form`, but not all of it, that ends the text. */
function beginningAtEnd(text: string, form: string): number {
  for (let length = Math.min(form.length - 1, text.length); length > 0; length--)
    if (text.endsWith(form.slice(0, length))) return length;
  return 0;
}
