/** Reads YAML into plain values that remember their positions. Aliases are shared rather than copied, but counted as if copied. */
import { isAlias, isMap, isScalar, isSeq, LineCounter, type Node, type Pair, parseDocument, type YAMLSeq } from 'yaml';
import type { Limits } from '../base/limits.ts';
import { PolicyError } from './policy-error.ts';

/** Keys and indexes from the top of a file to a value. */
export type ValuePath = readonly PropertyKey[];

/** A parsed file with the position of each value. */
export interface PositionedYaml {
  readonly file: string;
  /** Plain data; undefined for an empty file. */
  readonly value: unknown;
  /** `file:line:col` of the value; if it is missing, of the value that should contain it. */
  at(path: ValuePath): string;
  /** `file:line:col` of the last key in the path. */
  atKey(path: ValuePath): string;
  /** `file:line` of the last key in the path, or of a list item. */
  line(path: ValuePath): string;
}

/** Offsets into the text. The target of an alias has the position where it is written, the alias itself the one where it is used. */
interface NodePosition {
  readonly key: number | undefined;
  readonly value: number;
  readonly children?: ReadonlyMap<string, NodePosition> | undefined;
}

interface ConvertedNode {
  readonly value: unknown;
  readonly children?: ReadonlyMap<string, NodePosition> | undefined;
  /** Number of values inside; every alias counts in full, since a traversal visits its target each time. */
  readonly count: number;
  /** Depth of nesting, aliases included. */
  readonly levels: number;
}

/** Most problems reported at once; a file of nothing but errors would fill the screen and the log. */
const PROBLEMS_MAX = 50;
const NAME_CHARS_MAX = 80;

/** Text from outside for use in our messages: shortened, with characters escaped that could control a terminal or forge a line. */
export const quoteForMessage = (text: string): string => {
  const cut = text.length > NAME_CHARS_MAX ? `${text.slice(0, NAME_CHARS_MAX)}…` : text;
  return escapeUnseen(cut);
};

const escapeUnseen = (text: string): string =>
  text.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, (it) => `\\u{${(it.codePointAt(0) as number).toString(16)}}`);

/** At most PROBLEMS_MAX problems, and the number of the others. Escapes what values of the file put into them. */
export const firstOf = (problems: readonly string[]): readonly string[] =>
  problems.length <= PROBLEMS_MAX
    ? problems.map(escapeUnseen)
    : [...problems.slice(0, PROBLEMS_MAX).map(escapeUnseen), `and ${problems.length - PROBLEMS_MAX} more`];

/**
 * Reads one YAML document of plain values: no tags, directives, duplicate keys or multiplying aliases. Takes linear time. Throws
 * PolicyError with all problems.
 */
export function readYaml(text: string, file: string, limits: YamlLimits): PositionedYaml {
  const lines = new LineCounter();
  // The library compares every key with every other one; `YamlConverter` finds duplicates in linear time.
  const document = parseNested(file, () =>
    parseDocument(text, { lineCounter: lines, uniqueKeys: false, strict: true, prettyErrors: false }),
  );
  const locate = (offset: number) => {
    const { line, col } = lines.linePos(offset);
    return `${file}:${Math.max(line, 1)}:${Math.max(col, 1)}`;
  };
  const complain = [...document.errors, ...document.warnings].map(
    (it) => `${locate(it.pos[0])}: ${quoteForMessage(it.message.split('\n')[0] as string)}`,
  );
  const directive = /^%/m.exec(text);
  if (directive) complain.push(`${locate(directive.index)}: YAML directives are not taken`);
  if (complain.length > 0) throw new PolicyError(firstOf(complain));

  const reader = new YamlConverter(limits, (offset, problem) => complain.push(`${locate(offset)}: ${problem}`));
  const root = document.contents === null ? NOTHING : reader.convert(document.contents, 0);
  if (complain.length > 0) throw new PolicyError(firstOf(complain));
  return positioned(file, { root, locate, start: document.contents?.range?.[0] ?? 0 });
}

/** Runs the parser, which is recursive. Throws PolicyError where its stack is full. */
function parseNested<Parsed>(file: string, parse: () => Parsed): Parsed {
  try {
    return parse();
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    throw new PolicyError([`${quoteForMessage(file)}:1:1: nested too deep to be read`]);
  }
}

interface DocumentLayout {
  readonly root: ConvertedNode;
  readonly start: number;
  locate(offset: number): string;
}

function positioned(file: string, { root, start, locate }: DocumentLayout): PositionedYaml {
  const find = (path: ValuePath): NodePosition => {
    let spot: NodePosition = { key: undefined, value: start, children: root.children };
    for (const step of path) {
      const next = spot.children?.get(String(step));
      // The position of a missing value is the key of the value that should contain it.
      if (!next) return { key: spot.key, value: spot.key ?? spot.value };
      spot = next;
    }
    return spot;
  };
  const keyOf = (path: ValuePath) => {
    const spot = find(path);
    return locate(spot.key ?? spot.value);
  };
  return {
    file,
    value: root.value ?? undefined,
    at: (path) => locate(find(path).value),
    atKey: keyOf,
    line: (path) => keyOf(path).replace(/:\d+$/, ''),
  };
}

type YamlLimits = Pick<Limits, 'policyDepthMax' | 'policyValuesMax'>;
type Complain = (offset: number, problem: string) => void;

/** One traversal of a document's nodes in order. */
class YamlConverter {
  readonly #limits: YamlLimits;
  readonly #complain: Complain;
  /** Values by anchor, as far as read; an alias inside its own target finds nothing. */
  readonly #anchored = new Map<string, ConvertedNode>();
  #tooLarge = false;

  constructor(limits: YamlLimits, complain: Complain) {
    this.#limits = limits;
    this.#complain = complain;
  }

  convert(node: Node, depth: number): ConvertedNode {
    const offset = node.range?.[0] ?? 0;
    if (isAlias(node)) return this.#resolve(node.source, offset);
    if ('tag' in node && node.tag)
      this.#complain(offset, `the tag ${quoteForMessage(node.tag)} is not taken; write plain values`);
    const converted = this.#plain(node, depth);
    if ('anchor' in node && node.anchor) this.#anchored.set(node.anchor, converted);
    if (converted.count > this.#limits.policyValuesMax) this.#refuseSize(offset);
    return converted;
  }

  #plain(node: Node, depth: number): ConvertedNode {
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

  #list({ items }: YAMLSeq<Node>, depth: number): ConvertedNode {
    const children = new Map<string, NodePosition>();
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

  #map(pairs: readonly Pair<Node, Node | null>[], depth: number): ConvertedNode {
    const children = new Map<string, NodePosition>();
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

  #name(key: Node, before: ReadonlyMap<string, NodePosition>): string | undefined {
    const offset = key.range?.[0] ?? 0;
    if (!isScalar(key) || typeof key.value !== 'string' || ('tag' in key && key.tag)) {
      this.#complain(offset, 'keys are plain texts');
    } else if (key.value === '__proto__') this.#complain(offset, '__proto__ is no key');
    else if (before.has(key.value))
      this.#complain(offset, `Map keys must be unique: ${quoteForMessage(key.value)} stood before`);
    else {
      if (key.anchor) this.#anchored.set(key.anchor, { value: key.value, count: 1, levels: 0 });
      return key.value;
    }
    return undefined;
  }

  #resolve(anchor: string, offset: number): ConvertedNode {
    const converted = this.#anchored.get(anchor);
    if (!converted) this.#complain(offset, `the alias *${quoteForMessage(anchor)} names nothing that stands before it`);
    return converted ?? NOTHING;
  }

  #refuseSize(offset: number): void {
    if (!this.#tooLarge)
      this.#complain(offset, `more than ${this.#limits.policyValuesMax} values, aliases counted in full`);
    this.#tooLarge = true;
  }
}

const NOTHING: ConvertedNode = { value: null, count: 1, levels: 0 };
