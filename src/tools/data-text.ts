/** Parses JSON, JSONC, YAML and TOML to plain values whose positions in the text are known. Synchronous, to run within a time bound. */
import type * as jsonc from 'jsonc-parser';
import type * as toml from 'smol-toml';
import type * as yaml from 'yaml';
import { TextLines } from '../base/text/text-lines.ts';

export type DataFormat = 'json' | 'jsonc' | 'yaml' | 'toml';

/** Line and column, counted from 1. */
export interface TextPosition {
  line: number;
  column: number;
}

export interface DataProblem extends Partial<TextPosition> {
  message: string;
}

export interface DataText {
  readonly problems: readonly DataProblem[];
  /** Undefined if there are problems. */
  readonly value: unknown;
  /** The position of the value at a path, as far as the format tells it. */
  spotOf(path: readonly string[]): TextPosition | undefined;
}

export interface DataParsers {
  readonly jsonc: typeof jsonc;
  readonly toml: typeof toml;
  readonly yaml: typeof yaml;
}

/** Loads the parsers on the first call: the gateway does not need them. */
export async function loadParsers(): Promise<DataParsers> {
  const [jsonc, toml, yaml] = await Promise.all([import('jsonc-parser'), import('smol-toml'), import('yaml')]);
  return { jsonc, toml, yaml };
}

/** The most copies of one value that nested YAML aliases may make. */
const ALIASES_MAX = 100;

/** Parses one document. Reports problems of the text instead of throwing them. */
export function readData(text: string, format: DataFormat, parsers: DataParsers): DataText {
  try {
    if (format === 'yaml') return readYaml(text, parsers.yaml);
    if (format === 'toml') return readToml(text, parsers.toml);
    return readJson(text, format, parsers.jsonc);
  } catch (error) {
    // The parsers are recursive and overflow the stack; the error of a time bound is not a RangeError.
    if (!(error instanceof RangeError)) throw error;
    return broken([TOO_DEEP]);
  }
}

const TOO_DEEP: DataProblem = { message: 'nested too deep to be read' };

const broken = (problems: readonly DataProblem[]): DataText => ({
  problems,
  value: undefined,
  spotOf: () => undefined,
});

function readJson(
  text: string,
  format: 'json' | 'jsonc',
  { parseTree, printParseErrorCode, findNodeAtLocation }: typeof jsonc,
): DataText {
  const lines = new TextLines(text);
  const errors: jsonc.ParseError[] = [];
  const commented = format === 'jsonc';
  const root = parseTree(text, errors, { disallowComments: !commented, allowTrailingComma: commented });
  const problems = errors.map(
    (it): DataProblem => ({ message: words(printParseErrorCode(it.error)), ...lines.at(it.offset) }),
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

/** Turns `InvalidSymbol` into `invalid symbol`. */
const words = (code: string): string => code.replace(/(?<=[a-z])(?=[A-Z])/g, ' ').toLowerCase();

function plainOf(node: jsonc.Node): unknown {
  if (node.type === 'array') return (node.children ?? []).map(plainOf);
  if (node.type !== 'object') return node.value;
  const object = {};
  for (const { children } of node.children ?? []) {
    const [key, value] = children as [jsonc.Node, jsonc.Node];
    // An assignment to `__proto__` would set the prototype.
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

function readYaml(text: string, parser: typeof yaml): DataText {
  const { parseDocument, LineCounter, isNode, isSeq } = parser;
  const counter = new LineCounter();
  const document = parseDocument(text, { lineCounter: counter, prettyErrors: false, strict: true });
  const at = (offset: number): TextPosition => {
    const { line, col } = counter.linePos(offset);
    return { line: Math.max(line, 1), column: Math.max(col, 1) };
  };
  // The parser reports such an error for each level that it could not parse.
  if (document.errors.some((it) => it.message.startsWith('Maximum call stack'))) return broken([TOO_DEEP]);
  const problems = document.errors.map(
    ({ code, message, pos }): DataProblem => ({
      message:
        code === 'MULTIPLE_DOCS' ? 'a second document; one is checked at a time' : (message.split('\n')[0] as string),
      ...at(pos[0]),
    }),
  );
  if (problems.length > 0) return broken(problems);
  let value: unknown;
  try {
    value = document.toJS({ maxAliasCount: ALIASES_MAX });
  } catch (error) {
    if (!(error instanceof ReferenceError)) throw error;
    const alias = unresolvedAlias(document, parser);
    if (!alias) return broken([{ message: `aliases multiply: ${error.message}` }]);
    const message = `nothing before it has the anchor of the alias ${alias.source}`;
    return broken([{ message, ...(alias.range && at(alias.range[0])) }]);
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

/** The first alias without an anchor before it. */
function unresolvedAlias(document: yaml.Document, { visit, isAlias }: typeof yaml): yaml.Alias | undefined {
  const anchors = new Set<string>();
  let found: yaml.Alias | undefined;
  visit(document, {
    Node(_, node) {
      if (!isAlias(node)) {
        if (node.anchor !== undefined) anchors.add(node.anchor);
        return undefined;
      }
      if (anchors.has(node.source)) return undefined;
      found = node;
      return visit.BREAK;
    },
  });
  return found;
}

function readToml(text: string, { parse, TomlError, TomlDate }: typeof toml): DataText {
  // A schema sees a date as the string that it is in JSON; infinity and NaN, which JSON lacks, stay numbers.
  const problems: DataProblem[] = [];
  const plain = (it: unknown): unknown => {
    if (typeof it === 'bigint') {
      // TOML has 64-bit integers; a schema sees them as JSON numbers.
      if (BigInt.asIntN(64, it) !== it)
        problems.push({ message: `the integer ${shortened(`${it}`)} needs more than 64 bits` });
      return Number(it);
    }
    if (it instanceof TomlDate) return it.toISOString();
    if (Array.isArray(it)) return it.map(plain);
    if (typeof it !== 'object' || it === null) return it;
    return Object.fromEntries(Object.entries(it).map(([key, value]) => [key, plain(value)]));
  };
  try {
    const value = plain(parse(text, { integersAsBigInt: 'asNeeded' }));
    return problems.length > 0 ? broken(problems) : { problems, value, spotOf: () => undefined };
  } catch (error) {
    if (!(error instanceof TomlError)) throw error;
    const message = (error.message.split('\n')[0] as string).replace(/^Invalid TOML document: /, '');
    return broken([{ message, line: error.line, column: error.column }]);
  }
}

const shortened = (digits: string): string => (digits.length > 40 ? `${digits.slice(0, 40)}…` : digits);
