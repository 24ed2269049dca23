/** Cyclomatic and cognitive complexity of functions. Runs in the parser child. */
import type { SgNode } from '@ast-grep/napi';
import type { FunctionComplexity } from '../../src/tools/source/analysis.ts';
import { findKinds, treeOf } from '../symbols/grammars.ts';
import type { ParsedLanguage } from '../symbols/source-languages.ts';
import { type MeasuredFunction, measureMaintainability } from './maintainability.ts';
import type { SourceText } from './module-table.ts';

/** Kinds of nodes that count, by what they count for. */
interface Counted {
  readonly functions: readonly string[];
  /** An `if`: an `else` counts, too, and an `else if` counts as the `if` that it goes on with. */
  readonly ifs: readonly string[];
  /** One more way through the function, and one more for each level that it is nested in. */
  readonly branches: readonly string[];
  /** Cognitive only: a switch is one thing to read, whatever the number of its cases. */
  readonly switches: readonly string[];
  /** Cyclomatic only. */
  readonly cases: readonly string[];
  /** Expressions of which some operators count. */
  readonly logical: readonly string[];
  /** Cognitive only, if a label is named. */
  readonly jumps: readonly string[];
  /** Nodes with a name and a value, which may be a function without a name. */
  readonly named: readonly string[];
}

const SCRIPT: Counted = {
  functions: [
    ...['function_declaration', 'function_expression', 'generator_function_declaration', 'generator_function'],
    ...['arrow_function', 'method_definition'],
  ],
  ifs: ['if_statement'],
  branches: [
    ...['for_statement', 'for_in_statement', 'while_statement', 'do_statement', 'catch_clause', 'ternary_expression'],
  ],
  switches: ['switch_statement'],
  cases: ['switch_case'],
  logical: ['binary_expression'],
  jumps: ['break_statement', 'continue_statement'],
  named: ['variable_declarator', 'pair', 'public_field_definition', 'assignment_expression'],
};

const COUNTED: Readonly<Record<ParsedLanguage, Counted>> = {
  typescript: SCRIPT,
  tsx: SCRIPT,
  python: {
    functions: ['function_definition', 'lambda'],
    ifs: ['if_statement', 'elif_clause'],
    branches: ['for_statement', 'while_statement', 'except_clause', 'conditional_expression'],
    switches: ['match_statement'],
    cases: ['case_clause', 'if_clause'],
    logical: ['boolean_operator'],
    jumps: [],
    named: ['assignment'],
  },
  go: {
    functions: ['function_declaration', 'method_declaration', 'func_literal'],
    ifs: ['if_statement'],
    branches: ['for_statement'],
    switches: ['expression_switch_statement', 'type_switch_statement', 'select_statement'],
    cases: ['expression_case', 'type_case', 'communication_case'],
    logical: ['binary_expression'],
    jumps: ['break_statement', 'continue_statement', 'goto_statement'],
    named: ['short_var_declaration', 'var_spec'],
  },
  rust: {
    functions: ['function_item', 'closure_expression'],
    ifs: ['if_expression'],
    branches: ['for_expression', 'while_expression', 'loop_expression'],
    switches: ['match_expression'],
    cases: ['match_arm'],
    logical: ['binary_expression'],
    jumps: ['break_expression', 'continue_expression'],
    named: ['let_declaration'],
  },
};

const LOGICAL = new Set(['&&', '||', '??', 'and', 'or']);

interface Open {
  readonly end: number;
  readonly nests: boolean;
  readonly counts?: FunctionComplexity;
}

/**
 * The functions of a source, in its order. What a function holds counts for the innermost function alone; its nesting
 * goes on from the outer one. Cognitive complexity is counted as biome counts it.
 */
export function complexityOf(source: SourceText): FunctionComplexity[] {
  const { language, text } = source;
  const kinds = COUNTED[language];
  const root = treeOf(language, text);
  const nodes = findKinds(language, root, Object.values(kinds).flat());
  const names = namesOf(nodes, kinds);
  const isChained = new Set(
    nodes
      .filter((it) => kinds.ifs.includes(kindOf(it)))
      .flatMap((it) => it.fieldChildren('alternative'))
      .flatMap((it) => chainedIn(it, kinds) ?? [])
      .map(keyOf),
  );
  const isContinued = new Set(
    nodes.flatMap((it) => (operatorOf(it, kinds) === undefined ? [] : continuedBy(it, kinds))),
  );
  const found: MeasuredFunction[] = [];
  let open: Open[] = [];
  for (const node of nodes) {
    const { start, end } = node.range();
    open = open.filter((it) => it.end > start.index);
    const kind = kindOf(node);
    const inner = open.findLast((it) => it.counts)?.counts;
    if (kinds.functions.includes(kind)) {
      const counts = toFunction(node, names.get(keyOf(node)));
      found.push({ start: start.index, end: end.index, counts });
      open.push({ end: end.index, nests: inner !== undefined, counts });
      continue;
    }
    if (!inner) continue;
    const { cyclomatic, cognitive, nests } = weightOf(node, { kinds, isContinued });
    const level = open.filter((it) => it.nests).length;
    inner.cyclomatic += cyclomatic;
    inner.cognitive += cognitive;
    // The first `if` of a chain is open, and nests what is in the whole chain.
    if (nests) inner.cognitive += isChained.has(keyOf(node)) ? level - 1 : level;
    if (nests) open.push({ end: end.index, nests: !isChained.has(keyOf(node)) });
  }
  measureMaintainability(source, found);
  return found.map((it) => it.counts);
}

interface Context {
  readonly kinds: Counted;
  readonly isContinued: ReadonlySet<string>;
}

function weightOf(
  node: SgNode,
  { kinds, isContinued }: Context,
): { cyclomatic: number; cognitive: number; nests: boolean } {
  const kind = kindOf(node);
  if (kinds.ifs.includes(kind)) {
    const elses = node.fieldChildren('alternative').filter((it) => it.isNamed() && chainedIn(it, kinds) === undefined);
    return { cyclomatic: 1, cognitive: 1 + elses.length, nests: true };
  }
  if (kinds.branches.includes(kind)) return { cyclomatic: 1, cognitive: 1, nests: true };
  if (kinds.switches.includes(kind)) return { cyclomatic: 0, cognitive: 1, nests: true };
  if (kinds.cases.includes(kind)) return { cyclomatic: 1, cognitive: 0, nests: false };
  if (kinds.jumps.includes(kind)) {
    const isLabelled = /^\w+\s+'?[\p{L}_$][\w$]*\s*;?$/u.test(node.text().slice(0, 200));
    return { cyclomatic: 0, cognitive: isLabelled ? 1 : 0, nests: false };
  }
  if (operatorOf(node, kinds) === undefined) return { cyclomatic: 0, cognitive: 0, nests: false };
  return { cyclomatic: 1, cognitive: isContinued.has(keyOf(node)) ? 0 : 1, nests: false };
}

/** The `if` of an `else if`, which is read as one chain with its own. */
function chainedIn(alternative: SgNode, { ifs }: Counted): SgNode | undefined {
  if (ifs.includes(kindOf(alternative))) return alternative;
  const first = alternative.children().find((it) => it.isNamed());
  return kindOf(alternative) === 'else_clause' && ifs.includes(kindOf(first)) ? first : undefined;
}

/** Operands that go on with the same operator: `a && b && c` is one thing to read. */
function continuedBy(node: SgNode, kinds: Counted): string[] {
  const operator = operatorOf(node, kinds);
  return [node.field('left'), node.field('right')].flatMap((it) =>
    it && operatorOf(it, kinds) === operator ? [keyOf(it)] : [],
  );
}

function operatorOf(node: SgNode, { logical }: Counted): string | undefined {
  if (!logical.includes(kindOf(node))) return undefined;
  const operator = node.field('operator')?.text();
  return operator !== undefined && LOGICAL.has(operator) ? operator : undefined;
}

/** The names of functions that are values of something with a name. */
function namesOf(nodes: readonly SgNode[], { named, functions }: Counted): Map<string, string> {
  const found = new Map<string, string>();
  for (const node of nodes) {
    if (!named.includes(kindOf(node))) continue;
    const value = node.field('value') ?? node.field('right');
    const inner = kindOf(value) === 'expression_list' ? value?.children().find((it) => it.isNamed()) : value;
    if (!inner || !functions.includes(kindOf(inner))) continue;
    const name = node.field('name') ?? node.field('key') ?? node.field('left') ?? node.field('pattern');
    if (name) found.set(keyOf(inner), name.text().slice(0, NAME_CHARS));
  }
  return found;
}

function toFunction(node: SgNode, name: string | undefined): FunctionComplexity {
  const { start, end } = node.range();
  const parameters = node
    .field('parameters')
    ?.children()
    .filter((it) => it.isNamed() && kindOf(it) !== 'comment');
  return {
    name: node.field('name')?.text().slice(0, NAME_CHARS) ?? name ?? '(anonymous)',
    line: start.line + 1,
    column: start.column + 1,
    cyclomatic: 1,
    cognitive: 0,
    maintainability: 100,
    lines: end.line - start.line + 1,
    parameters: parameters?.length ?? (node.field('parameter') ? 1 : 0),
  };
}

const NAME_CHARS = 100;

const kindOf = (node: SgNode | null | undefined): string => `${node?.kind()}`;
const keyOf = (node: SgNode): string => {
  const { start, end } = node.range();
  return `${start.index} ${end.index} ${kindOf(node)}`;
};
