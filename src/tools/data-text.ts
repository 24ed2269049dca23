/** Texts of JSON, JSONC, YAML and TOML as plain values that know where they stood. Synchronous, for work that is bounded. */
import type * as jsonc from 'jsonc-parser';
import type * as toml from 'smol-toml';
import type * as yaml from 'yaml';

export type DataFormat = 'json' | 'jsonc' | 'yaml' | 'toml';

/** Line and column, counted from 1. */
export interface Spot {
  line: number;
  column: number;
}

export interface Problem extends Partial<Spot> {
  message: string;
}

export interface DataText {
  readonly problems: readonly Problem[];
  /** Undefined where there are problems. */
  readonly value: unknown;
  /** Where the value at a path stands, as far as the format tells. */
  spotOf(path: readonly string[]): Spot | undefined;
}

export interface Parsers {
  readonly jsonc: typeof jsonc;
  readonly toml: typeof toml;
  readonly yaml: typeof yaml;
}

/** Loaded by the first call: the gateway has no use for them. */
export async function loadParsers(): Promise<Parsers> {
  const [jsonc, toml, yaml] = await Promise.all([import('jsonc-parser'), import('smol-toml'), import('yaml')]);
  return { jsonc, toml, yaml };
}

/** Aliases of aliases may multiply to this many copies of one value. */
const ALIASES_MAX = 100;

/** One document. Never throws for what it says. */
export function readData(text: string, format: DataFormat, parsers: Parsers): DataText {
  try {
    if (format === 'yaml') return readYaml(text, parsers.yaml);
    if (format === 'toml') return readToml(text, parsers.toml);
    return readJson(text, format, parsers.jsonc);
  } catch (error) {
    // Recursive parsers; what ends work that takes too long is no RangeError.
    if (!(error instanceof RangeError)) throw error;
    return broken([{ message: 'nested too deep to be read' }]);
  }
}

const broken = (problems: readonly Problem[]): DataText => ({ problems, value: undefined, spotOf: () => undefined });

function readJson(
  text: string,
  format: 'json' | 'jsonc',
  { parseTree, printParseErrorCode, findNodeAtLocation }: typeof jsonc,
): DataText {
  const lines = new Lines(text);
  const errors: jsonc.ParseError[] = [];
  const commented = format === 'jsonc';
  const root = parseTree(text, errors, { disallowComments: !commented, allowTrailingComma: commented });
  const problems = errors.map(
    (it): Problem => ({ message: words(printParseErrorCode(it.error)), ...lines.at(it.offset) }),
  );
  if (problems.length > 0 || !root)
    return broken(problems.length > 0 ? problems : [{ message: 'empty', line: 1, column: 1 }]);
  if (!commented) {
    try {
      JSON.parse(text);
    } catch (error) {
      // The tolerant parser let something through, such as a byte order mark.
      return broken([{ message: (error as Error).message, line: 1, column: 1 }]);
    }
  }
  return {
    problems,
    value: plainOf(root),
    spotOf(path) {
      const steps = stepsOf(path, (taken) => findNodeAtLocation(root, taken)?.type === 'array');
      const node = findNodeAtLocation(root, steps);
      return node && lines.at(node.offset);
    },
  };
}

/** `InvalidSymbol` as `invalid symbol`. */
const words = (code: string): string => code.replace(/(?<=[a-z])(?=[A-Z])/g, ' ').toLowerCase();

function plainOf(node: jsonc.Node): unknown {
  if (node.type === 'array') return (node.children ?? []).map(plainOf);
  if (node.type !== 'object') return node.value;
  const object = {};
  for (const { children } of node.children ?? []) {
    const [key, value] = children as [jsonc.Node, jsonc.Node];
    // An assignment would take `__proto__` for what it is called.
    Object.defineProperty(object, key.value, {
      value: plainOf(value),
      enumerable: true,
      configurable: true,
      writable: true,
    });
  }
  return object;
}

function stepsOf(path: readonly string[], isList: (taken: (string | number)[]) => boolean): (string | number)[] {
  const steps: (string | number)[] = [];
  for (const it of path) steps.push(isList(steps) ? Number(it) : it);
  return steps;
}

function readYaml(text: string, { parseDocument, LineCounter, isNode, isSeq }: typeof yaml): DataText {
  const counter = new LineCounter();
  const document = parseDocument(text, { lineCounter: counter, prettyErrors: false, strict: true });
  const at = (offset: number): Spot => {
    const { line, col } = counter.linePos(offset);
    return { line: Math.max(line, 1), column: Math.max(col, 1) };
  };
  const problems = document.errors.map(
    ({ message, pos }): Problem => ({ message: message.split('\n')[0] as string, ...at(pos[0]) }),
  );
  if (problems.length > 0) return broken(problems);
  let value: unknown;
  try {
    value = document.toJS({ maxAliasCount: ALIASES_MAX });
  } catch (error) {
    if (!(error instanceof ReferenceError)) throw error;
    return broken([{ message: `aliases multiply: ${error.message}` }]);
  }
  return {
    problems,
    value,
    spotOf(path) {
      const steps = stepsOf(path, (taken) =>
        isSeq(taken.length === 0 ? document.contents : document.getIn(taken, true)),
      );
      const node = steps.length === 0 ? document.contents : document.getIn(steps, true);
      return isNode(node) && node.range ? at(node.range[0]) : undefined;
    },
  };
}

function readToml(text: string, { parse, TomlError, TomlDate }: typeof toml): DataText {
  try {
    // A date is to a schema what it is in JSON.
    const value: unknown = JSON.parse(
      JSON.stringify(parse(text), (_, it) => (it instanceof TomlDate ? it.toISOString() : it)),
    );
    return { problems: [], value, spotOf: () => undefined };
  } catch (error) {
    if (!(error instanceof TomlError)) throw error;
    const message = (error.message.split('\n')[0] as string).replace(/^Invalid TOML document: /, '');
    return broken([{ message, line: error.line, column: error.column }]);
  }
}

/** Offsets of a text to lines. */
class Lines {
  readonly #starts: number[] = [0];

  constructor(text: string) {
    for (let at = text.indexOf('\n'); at >= 0; at = text.indexOf('\n', at + 1)) this.#starts.push(at + 1);
  }

  at(offset: number): Spot {
    let [low, high] = [0, this.#starts.length - 1];
    while (low < high) {
      const middle = Math.ceil((low + high) / 2);
      if ((this.#starts[middle] as number) <= offset) low = middle;
      else high = middle - 1;
    }
    return { line: low + 1, column: offset - (this.#starts[low] as number) + 1 };
  }
}
