/** Finds the literals of rules in one pass, after Wu and Manber; one regular expression of all literals takes three times as long. */
import type { Rule } from './rule.ts';

/** A literal with the rules that start at it. */
interface LiteralRules {
  readonly literal: string;
  readonly anyCase: boolean;
  readonly rules: Rule[];
}

export interface LiteralHit {
  readonly at: number;
  readonly end: number;
  readonly rules: readonly Rule[];
}

/** Length of the shortest literal; a step skips at most one character less. */
const LITERAL_CHARS_MIN = 3;
const pair = (a: number, b: number) => ((a & 255) << 8) | (b & 255);
const triple = (a: number, b: number, c: number) => (((a & 255) * 31 + (b & 255)) * 31 + (c & 255)) & 0x7fff;

export class LiteralSearch {
  /** For each pair of characters: the distance of the second one from the end of the first three characters of any literal. */
  readonly #shifts = new Uint8Array(1 << 16).fill(LITERAL_CHARS_MIN - 1);
  /** For each hash of three characters: the bucket of literals that begin with them. Different characters may have the same hash. */
  readonly #bucketOf = new Uint16Array(1 << 15);
  /** Literals by bucket; the first bucket is empty. Within a bucket the longest comes first, since `sk-ant-` also begins with `sk-`. */
  readonly #buckets: LiteralRules[][] = [[]];
  /** All proper prefixes of literals. */
  readonly #beginnings = new Set<string>();
  /** First characters of literals in both cases; most ends of texts are ruled out by this alone. */
  readonly #firsts = new Set<number>();
  readonly #beginningCharsMax: number;

  constructor(rules: readonly Rule[]) {
    const entries = entriesOf(rules);
    for (const entry of entries) {
      for (const beginning of casesOf(entry)) this.#addBeginning(beginning, entry);
      for (let length = 1; length < entry.literal.length; length++)
        this.#beginnings.add(entry.literal.slice(0, length));
    }
    for (const beginning of this.#beginnings) {
      for (const it of [beginning, beginning.toUpperCase()]) this.#firsts.add(it.charCodeAt(0));
    }
    this.#beginningCharsMax = Math.max(...entries.map(({ literal }) => literal.length)) - 1;
  }

  /** The first literal at or after `from`; undefined if there is none. */
  next(text: string, from: number): LiteralHit | undefined {
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

  #entryAt(text: string, at: number): LiteralRules | undefined {
    const hash = triple(text.charCodeAt(at), text.charCodeAt(at + 1), text.charCodeAt(at + 2));
    const bucket = this.#bucketOf[hash] as number;
    return bucket === 0 ? undefined : this.#buckets[bucket]?.find((it) => standsAt(it, text, at));
  }

  /** Offset at the end of `text` where a literal may have begun; the length of `text` if none has. */
  literalStart(text: string, from: number): number {
    for (let at = Math.max(from, text.length - this.#beginningCharsMax); at < text.length; at++) {
      if (!this.#firsts.has(text.charCodeAt(at))) continue;
      const end = text.slice(at);
      if (this.#beginnings.has(end) || this.#beginnings.has(end.toLowerCase())) return at;
    }
    return text.length;
  }

  #addBeginning(text: string, entry: LiteralRules): void {
    const [a, b, c] = [text.charCodeAt(0), text.charCodeAt(1), text.charCodeAt(2)] as const;
    this.#shifts[pair(a, b)] = Math.min(this.#shifts[pair(a, b)] as number, 1);
    this.#shifts[pair(b, c)] = 0;
    const hash = triple(a, b, c);
    if (this.#bucketOf[hash] === 0) this.#bucketOf[hash] = this.#buckets.push([]) - 1;
    const bucket = this.#buckets[this.#bucketOf[hash] as number] as LiteralRules[];
    bucket.push(entry);
    bucket.sort((one, other) => other.literal.length - one.literal.length);
  }
}

/** Decodes bytes to one character each. */
export const latin1 = (bytes: Uint8Array): string =>
  Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('latin1');

function entriesOf(rules: readonly Rule[]): LiteralRules[] {
  const entries = new Map<string, LiteralRules>();
  for (const rule of rules) {
    for (const literal of rule.literals) {
      const known = entries.get(literal);
      if (known) known.rules.push(rule);
      else entries.set(literal, { literal, anyCase: rule.anyCase ?? false, rules: [rule] });
    }
  }
  return [...entries.values()];
}

/** All spellings of the first three characters of a literal. */
function casesOf({ literal, anyCase }: LiteralRules): Set<string> {
  let all = [''];
  for (const char of literal.slice(0, LITERAL_CHARS_MIN))
    all = all.flatMap((begun) => (anyCase ? [begun + char, begun + char.toUpperCase()] : [begun + char]));
  return new Set(all);
}

function standsAt({ literal, anyCase }: LiteralRules, text: string, at: number): boolean {
  if (!anyCase) return text.startsWith(literal, at);
  for (let i = 0; i < literal.length; i++) {
    const wanted = literal.charCodeAt(i);
    const code = text.charCodeAt(at + i);
    if (code !== wanted && !isCapitalOf(code, wanted)) return false;
  }
  return true;
}

/** Whether `code` is the capital of `wanted`, which differs by the bit 0x20; literals are in small letters. */
const isCapitalOf = (code: number, wanted: number): boolean =>
  (code | 0x20) === wanted && wanted >= 0x61 && wanted <= 0x7a;
