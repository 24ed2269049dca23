/** Finds the literals of rules in one pass, after Wu and Manber: one regular expression of them all takes 2.5 times as long. */
import type { Rule } from './rule.ts';

/** A literal, and the rules that are asked where it stands. */
interface Entry {
  readonly literal: string;
  readonly anyCase: boolean;
  readonly rules: Rule[];
}

export interface Found {
  readonly at: number;
  readonly end: number;
  readonly rules: readonly Rule[];
}

/** Shortest literal; what is skipped in one step is one less. */
const LITERAL_CHARS_MIN = 3;
/** Shorter texts are looked at by characters. */
const WORDS_CHARS_MIN = 64;
const PIECE_CHARS = 16 * 1024;
/** Words, or the parts of base64 between its marks, end within so many. */
const NEAR_BYTES = 64;
const FIRST = 1;
const SECOND = 2;
/** A piece of a text, a byte each. */
const piece = Buffer.allocUnsafeSlow(PIECE_CHARS);
const pieceWords = new Uint16Array(piece.buffer, 0, PIECE_CHARS / 2);
const pair = (a: number, b: number) => ((a & 255) << 8) | (b & 255);
const triple = (a: number, b: number, c: number) => (((a & 255) * 31 + (b & 255)) * 31 + (c & 255)) & 0x7fff;

export class LiteralSearch {
  /** By two characters: how far the last of them is from the end of the first three of any literal. */
  readonly #shifts = new Uint8Array(1 << 16).fill(LITERAL_CHARS_MIN - 1);
  /** By two characters as a little-endian word: whether a literal begins with them (1), or with them behind another one (2). */
  readonly #words = new Uint8Array(1 << 16);
  /** By three characters, whose hashes may coincide: which bucket has what begins with them. */
  readonly #bucketOf = new Uint16Array(1 << 15);
  /** The first one is empty. In the others the longest literal is first, since `sk-ant-` is also an `sk-`. */
  readonly #buckets: Entry[][] = [[]];
  /** All that a literal can begin with, whole ones not included. */
  readonly #beginnings = new Set<string>();
  /** The first character of any of them, small and large: most ends of texts are done with at a look. */
  readonly #firsts = new Set<number>();
  /** By character: whether any of them has it. Behind others nothing has begun. */
  readonly #inside = new Uint8Array(256);
  readonly #beginningCharsMax: number;

  constructor(rules: readonly Rule[]) {
    const entries = entriesOf(rules);
    for (const entry of entries) {
      for (const beginning of casesOf(entry)) this.#addBeginning(beginning, entry);
      for (let length = 1; length < entry.literal.length; length++)
        this.#beginnings.add(entry.literal.slice(0, length));
    }
    for (const beginning of this.#beginnings) {
      for (const it of [beginning, beginning.toUpperCase()]) {
        this.#firsts.add(it.charCodeAt(0));
        this.#inside[it.charCodeAt(it.length - 1)] = 1;
      }
    }
    this.#beginningCharsMax = Math.max(...entries.map(({ literal }) => literal.length)) - 1;
  }

  /** The first literal at or after `from`. */
  next(text: string, from: number): Found | undefined {
    const shifts = this.#shifts;
    for (let last = from + LITERAL_CHARS_MIN - 1; last < text.length; ) {
      const before = text.charCodeAt(last - 1);
      const code = text.charCodeAt(last);
      const shift = shifts[pair(before, code)] as number;
      if (shift > 0) {
        last += shift;
        continue;
      }
      const at = last - LITERAL_CHARS_MIN + 1;
      const entry = this.#entryAt(text, at);
      if (entry) return { at, end: at + entry.literal.length, rules: entry.rules };
      last += 1;
    }
    return undefined;
  }

  /**
   * Whether any literal in `text` is what is looked for: its characters' low bytes by words, as `nextInBytes`, and the text
   * itself where one may stand. For a first look, which ends it for most texts: asked again and again it would copy the text
   * each time.
   */
  some(text: string, isIt: (found: Found) => boolean): boolean {
    if (text.length < WORDS_CHARS_MIN) return this.#someInShort(text, isIt);
    const words = this.#words;
    const isAt = (at: number) => {
      const entry = this.#entryAt(text, at);
      return entry !== undefined && isIt({ at, end: at + entry.literal.length, rules: entry.rules });
    };
    // No word of an even address is cut by the end of a piece.
    for (let from = 0; from < text.length; from += PIECE_CHARS) {
      const count = piece.write(text.slice(from, from + PIECE_CHARS), 'latin1') >> 1;
      const all = pieceWords.subarray(0, count);
      for (let i = nextWord(all, 0, words); i < count; i = nextWord(all, i + 1, words)) {
        const places = words[all[i] as number] as number;
        const at = from + 2 * i;
        if (places & SECOND && at > 0 && isAt(at - 1)) return true;
        if (places & FIRST && isAt(at)) return true;
      }
    }
    return false;
  }

  #someInShort(text: string, isIt: (found: Found) => boolean): boolean {
    for (let found = this.next(text, 0); found; found = this.next(text, found.at + 1)) if (isIt(found)) return true;
    return false;
  }

  #entryAt(text: string, at: number): Entry | undefined {
    const hash = triple(text.charCodeAt(at), text.charCodeAt(at + 1), text.charCodeAt(at + 2));
    const bucket = this.#bucketOf[hash] as number;
    return bucket === 0 ? undefined : this.#buckets[bucket]?.find((it) => standsAt(it, text, at));
  }

  /**
   * Where the first literal at or after `from` stands in bytes read as latin1; undefined if there is none. Of any three bytes
   * two are a word of an even address, so that only those are looked at: four times as fast as by characters. Literals that
   * all of their rules dismiss are passed over.
   */
  nextInBytes(bytes: Uint8Array, from: number): number | undefined {
    const words = this.#words;
    const start = from + ((bytes.byteOffset + from) & 1);
    if (bytes.length - from < LITERAL_CHARS_MIN) return undefined;
    const all = new Uint16Array(bytes.buffer, bytes.byteOffset + start, (bytes.length - start) >> 1);
    const { length } = all;
    for (let i = nextWord(all, 0, words); i < length; i = nextWord(all, i + 1, words)) {
      const places = words[all[i] as number] as number;
      const at = start + 2 * i;
      if (places & SECOND && at > from && this.#standsInBytes(bytes, at - 1)) return at - 1;
      if (places & FIRST && this.#standsInBytes(bytes, at)) return at;
    }
    return undefined;
  }

  #standsInBytes(bytes: Uint8Array, at: number): boolean {
    if (at + LITERAL_CHARS_MIN > bytes.length) return false;
    const hash = triple(bytes[at] as number, bytes[at + 1] as number, bytes[at + 2] as number);
    const bucket = this.#bucketOf[hash] as number;
    if (bucket === 0) return false;
    const entry = (this.#buckets[bucket] as Entry[]).find((it) => standsAtByte(it, bytes, at));
    if (!entry) return false;
    const end = at + entry.literal.length;
    return !entry.rules.every((it) => it.dismisses?.(bytes, end));
  }

  /** `begun` of bytes read as latin1. */
  begunInBytes(bytes: Uint8Array, from: number): number {
    if (this.#inside[bytes.at(-1) as number] === 0) return bytes.length;
    const end = Math.max(from, bytes.length - this.#beginningCharsMax);
    return end + this.begun(latin1(bytes.subarray(end)), 0);
  }

  /** Where at the end of `text` a literal may have begun; its length if none has. */
  begun(text: string, from: number): number {
    for (let at = Math.max(from, text.length - this.#beginningCharsMax); at < text.length; at++) {
      if (!this.#firsts.has(text.charCodeAt(at))) continue;
      const end = text.slice(at);
      if (this.#beginnings.has(end) || this.#beginnings.has(end.toLowerCase())) return at;
    }
    return text.length;
  }

  /** The first place at or after `from` where no literal can have begun; `from` if none is near. */
  cleanEnd(bytes: Uint8Array, from: number): number {
    for (let at = from; at < Math.min(bytes.length, from + NEAR_BYTES); at++)
      if (this.#inside[bytes[at - 1] as number] === 0) return at;
    return from;
  }

  #addBeginning(text: string, entry: Entry): void {
    const [a, b, c] = [text.charCodeAt(0), text.charCodeAt(1), text.charCodeAt(2)] as const;
    this.#shifts[pair(a, b)] = Math.min(this.#shifts[pair(a, b)] as number, 1);
    this.#shifts[pair(b, c)] = 0;
    for (const [word, place] of [
      [a | (b << 8), FIRST],
      [b | (c << 8), SECOND],
    ] as const)
      this.#words[word] = (this.#words[word] as number) | place;
    const hash = triple(a, b, c);
    if (this.#bucketOf[hash] === 0) this.#bucketOf[hash] = this.#buckets.push([]) - 1;
    const bucket = this.#buckets[this.#bucketOf[hash] as number] as Entry[];
    bucket.push(entry);
    bucket.sort((one, other) => other.literal.length - one.literal.length);
  }
}

/** Where the first of `all` at or after `from` is that `words` has; behind the last if there is none. By fours it takes less than half of the time. */
function nextWord(all: Uint16Array, from: number, words: Uint8Array): number {
  const { length } = all;
  let i = from;
  for (const last = length - 3; i < last; i += 4) {
    const first = (words[all[i] as number] as number) | (words[all[i + 1] as number] as number);
    const second = (words[all[i + 2] as number] as number) | (words[all[i + 3] as number] as number);
    if ((first | second) !== 0) break;
  }
  while (i < length && words[all[i] as number] === 0) i += 1;
  return i;
}

/** Bytes as text, a character each. */
export const latin1 = (bytes: Uint8Array): string =>
  Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('latin1');

function entriesOf(rules: readonly Rule[]): Entry[] {
  const entries = new Map<string, Entry>();
  for (const rule of rules) {
    for (const literal of rule.literals) {
      const known = entries.get(literal);
      if (known) known.rules.push(rule);
      else entries.set(literal, { literal, anyCase: rule.anyCase ?? false, rules: [rule] });
    }
  }
  return [...entries.values()];
}

/** The ways in which the first characters of a literal may be written. */
function casesOf({ literal, anyCase }: Entry): Set<string> {
  let all = [''];
  for (const char of literal.slice(0, LITERAL_CHARS_MIN))
    all = all.flatMap((begun) => (anyCase ? [begun + char, begun + char.toUpperCase()] : [begun + char]));
  return new Set(all);
}

function standsAt({ literal, anyCase }: Entry, text: string, at: number): boolean {
  if (!anyCase) return text.startsWith(literal, at);
  for (let i = 0; i < literal.length; i++) {
    const wanted = literal.charCodeAt(i);
    const code = text.charCodeAt(at + i);
    if (code !== wanted && !isCapitalOf(code, wanted)) return false;
  }
  return true;
}

/** `standsAt` in bytes read as latin1. */
function standsAtByte({ literal, anyCase }: Entry, bytes: Uint8Array, at: number): boolean {
  if (at + literal.length > bytes.length) return false;
  for (let i = 0; i < literal.length; i++) {
    const wanted = literal.charCodeAt(i);
    const code = bytes[at + i] as number;
    if (code !== wanted && !(anyCase && isCapitalOf(code, wanted))) return false;
  }
  return true;
}

/** A capital letter is its small one without the bit 0x20; literals are in small letters. */
const isCapitalOf = (code: number, wanted: number): boolean =>
  (code | 0x20) === wanted && wanted >= 0x61 && wanted <= 0x7a;
