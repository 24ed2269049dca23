/** YAML text to plain values that remember where they stood. Aliases are shared, not copied, and counted as if they were. */
import { isAlias, isMap, isScalar, isSeq, LineCounter, type Node, type Pair, parseDocument, type YAMLSeq } from 'yaml';
import type { Limits } from '../limits.ts';
import { PolicyError } from './policy-error.ts';

/** Keys and indexes from the top of a file to a value. */
export type ValuePath = readonly PropertyKey[];

/** What a text says and where it says it. */
export interface Positioned {
  readonly file: string;
  /** Plain data; undefined for an empty file. */
  readonly value: unknown;
  /** `file:line:col` of the value; of what holds it where it is missing. */
  at(path: ValuePath): string;
  /** `file:line:col` of the last key of the path. */
  atKey(path: ValuePath): string;
  /** `file:line` of the last key of the path, or of the item of a list. */
  line(path: ValuePath): string;
}

/** Offsets into the text. What an alias stands for has its places where it was written, the alias itself where it is used. */
interface Spot {
  readonly key: number | undefined;
  readonly value: number;
  readonly children?: ReadonlyMap<string, Spot> | undefined;
}

interface Converted {
  readonly value: unknown;
  readonly children?: ReadonlyMap<string, Spot> | undefined;
  /** Values in it, each alias counted in full, since whoever walks it meets them all. */
  readonly count: number;
  /** How deep it goes, aliases included. */
  readonly levels: number;
}

/** Problems told at once; a file of nothing but errors would fill the screen and the log. */
const PROBLEMS_MAX = 50;
const NAME_CHARS_MAX = 80;

/** The names and texts of other people in our messages: bounded, and without what could drive a terminal or forge a line. */
export const shown = (text: string): string => {
  const cut = text.length > NAME_CHARS_MAX ? `${text.slice(0, NAME_CHARS_MAX)}…` : text;
  return cut.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, (it) => `\\u{${(it.codePointAt(0) as number).toString(16)}}`);
};

/** At most so many problems that they can be read. */
export const firstOf = (problems: readonly string[]): readonly string[] =>
  problems.length <= PROBLEMS_MAX
    ? problems
    : [...problems.slice(0, PROBLEMS_MAX), `and ${problems.length - PROBLEMS_MAX} more`];

/**
 * One YAML document of plain values: no tags, directives, duplicate keys, or aliases that multiply. Takes linear time.
 * Throws PolicyError with all problems.
 */
export function readYaml(text: string, file: string, limits: YamlLimits): Positioned {
  const lines = new LineCounter();
  // The library compares each key with each other one; we look for duplicates ourselves.
  const document = parseDocument(text, { lineCounter: lines, uniqueKeys: false, strict: true, prettyErrors: false });
  const place = (offset: number) => {
    const { line, col } = lines.linePos(offset);
    return `${file}:${Math.max(line, 1)}:${Math.max(col, 1)}`;
  };
  const complain = [...document.errors, ...document.warnings].map(
    (it) => `${place(it.pos[0])}: ${shown(it.message.split('\n')[0] as string)}`,
  );
  const directive = /^%/m.exec(text);
  if (directive) complain.push(`${place(directive.index)}: YAML directives are not taken`);
  if (complain.length > 0) throw new PolicyError(firstOf(complain));

  const reader = new Reader(limits, (offset, problem) => complain.push(`${place(offset)}: ${problem}`));
  const root = document.contents === null ? NOTHING : reader.convert(document.contents, 0);
  if (complain.length > 0) throw new PolicyError(firstOf(complain));
  return positioned(file, { root, place, start: document.contents?.range?.[0] ?? 0 });
}

interface Layout {
  readonly root: Converted;
  readonly start: number;
  place(offset: number): string;
}

function positioned(file: string, { root, start, place }: Layout): Positioned {
  const find = (path: ValuePath): Spot => {
    let spot: Spot = { key: undefined, value: start, children: root.children };
    for (const step of path) {
      const next = spot.children?.get(String(step));
      // What is missing is missing in its holder, which is easiest found by its own key.
      if (!next) return { key: spot.key, value: spot.key ?? spot.value };
      spot = next;
    }
    return spot;
  };
  const keyOf = (path: ValuePath) => {
    const spot = find(path);
    return place(spot.key ?? spot.value);
  };
  return {
    file,
    value: root.value ?? undefined,
    at: (path) => place(find(path).value),
    atKey: keyOf,
    line: (path) => keyOf(path).replace(/:\d+$/, ''),
  };
}

type YamlLimits = Pick<Limits, 'policyDepthMax' | 'policyValuesMax'>;
type Complain = (offset: number, problem: string) => void;

/** One walk over a document's nodes, in their order. */
class Reader {
  readonly #limits: YamlLimits;
  readonly #complain: Complain;
  /** By anchor, as far as read: an alias inside of what it names finds nothing. */
  readonly #anchored = new Map<string, Converted>();
  #tooLarge = false;

  constructor(limits: YamlLimits, complain: Complain) {
    this.#limits = limits;
    this.#complain = complain;
  }

  convert(node: Node, depth: number): Converted {
    const offset = node.range?.[0] ?? 0;
    if (isAlias(node)) return this.#resolve(node.source, offset);
    if ('tag' in node && node.tag)
      this.#complain(offset, `the tag ${shown(node.tag)} is not taken; write plain values`);
    const converted = this.#plain(node, depth);
    if ('anchor' in node && node.anchor) this.#anchored.set(node.anchor, converted);
    if (converted.count > this.#limits.policyValuesMax) this.#refuseSize(offset);
    return converted;
  }

  #plain(node: Node, depth: number): Converted {
    if (isScalar(node)) return { value: node.value, count: 1, levels: 0 };
    let converted = NOTHING;
    if (depth < this.#limits.policyDepthMax) {
      if (isSeq<Node>(node)) converted = this.#list(node, depth);
      else if (isMap<Node, Node>(node)) converted = this.#map(node.items, depth);
    }
    if (depth + converted.levels < this.#limits.policyDepthMax) return converted;
    this.#complain(node.range?.[0] ?? 0, `nested more than ${this.#limits.policyDepthMax} levels deep`);
    return NOTHING;
  }

  #list({ items }: YAMLSeq<Node>, depth: number): Converted {
    const children = new Map<string, Spot>();
    let [count, levels] = [1, 0];
    const value = items.map((item, index) => {
      const converted = this.convert(item, depth + 1);
      count += converted.count;
      levels = Math.max(levels, converted.levels + 1);
      children.set(String(index), { key: undefined, value: item.range?.[0] ?? 0, children: converted.children });
      return converted.value;
    });
    return { value, children, count, levels };
  }

  #map(pairs: readonly Pair<Node, Node | null>[], depth: number): Converted {
    const children = new Map<string, Spot>();
    const entries: [string, unknown][] = [];
    let [count, levels] = [1, 0];
    for (const { key, value } of pairs) {
      const name = this.#name(key, children);
      if (name === undefined) continue;
      const converted = value === null ? NOTHING : this.convert(value, depth + 1);
      count += converted.count;
      levels = Math.max(levels, converted.levels + 1);
      const offset = key.range?.[0] ?? 0;
      children.set(name, { key: offset, value: value?.range?.[0] ?? offset, children: converted.children });
      entries.push([name, converted.value]);
    }
    return { value: Object.fromEntries(entries), children, count, levels };
  }

  #name(key: Node, before: ReadonlyMap<string, Spot>): string | undefined {
    const offset = key.range?.[0] ?? 0;
    if (!isScalar(key) || typeof key.value !== 'string' || ('tag' in key && key.tag)) {
      this.#complain(offset, 'keys are plain texts');
    } else if (key.value === '__proto__') this.#complain(offset, '__proto__ is no key');
    else if (before.has(key.value)) this.#complain(offset, `Map keys must be unique: ${shown(key.value)} stood before`);
    else {
      if (key.anchor) this.#anchored.set(key.anchor, { value: key.value, count: 1, levels: 0 });
      return key.value;
    }
    return undefined;
  }

  #resolve(anchor: string, offset: number): Converted {
    const converted = this.#anchored.get(anchor);
    if (!converted) this.#complain(offset, `the alias *${shown(anchor)} names nothing that stands before it`);
    return converted ?? NOTHING;
  }

  #refuseSize(offset: number): void {
    if (!this.#tooLarge)
      this.#complain(offset, `more than ${this.#limits.policyValuesMax} values, aliases counted in full`);
    this.#tooLarge = true;
  }
}

const NOTHING: Converted = { value: null, count: 1, levels: 0 };
