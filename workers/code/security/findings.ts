/** Finds code that is often unsafe. Runs in the parser child. */
import type { SgNode } from '@ast-grep/napi';
import type { SecurityFinding } from '../../../src/tools/source/analysis.ts';
import { findKinds, treeOf } from '../../symbols/grammars.ts';
import type { SourceText } from '../module-table.ts';
import { GO_RULES, PYTHON_RULES, RUST_RULES } from './other-rules.ts';
import { familyOf, type SecurityRule } from './rule.ts';
import { SCRIPT_RULES } from './script-rules.ts';

const RULES = [...SCRIPT_RULES, ...PYTHON_RULES, ...GO_RULES, ...RUST_RULES];

/** One finding for each rule and line. */
export function findingsIn({ language, text }: SourceText): Omit<SecurityFinding, 'file'>[] {
  const rules = RULES.filter((it) => it.family === familyOf(language));
  const byKind = Map.groupBy(
    rules.flatMap((rule) => rule.kinds.map((kind) => ({ kind, rule }))),
    (it) => it.kind,
  );
  const found = new Map<string, Omit<SecurityFinding, 'file'>>();
  for (const node of findKinds(language, treeOf(language, text), [...byKind.keys()])) {
    const match = byKind.get(`${node.kind()}`)?.find(({ rule }) => isMatch(node, rule));
    if (!match) continue;
    const { rule, severity, message } = match.rule;
    const { line, column } = node.range().start;
    const key = `${rule} ${line}`;
    if (!found.has(key)) found.set(key, { severity, rule, message, line: line + 1, column: column + 1 });
  }
  return [...found.values()];
}

function isMatch(node: SgNode, { fields, except = {} }: SecurityRule): boolean {
  const matches = ([field, pattern]: [string, RegExp]) => {
    const text = textOf(node, field);
    return text !== undefined && pattern.test(text);
  };
  return Object.entries(fields).every(matches) && !Object.entries(except).some(matches);
}

/** The fields of a node, under one name in all languages. */
const FIELDS: Readonly<Record<string, readonly string[]>> = {
  callee: ['function', 'constructor'],
  arguments: ['arguments'],
  key: ['name', 'key', 'left', 'pattern'],
  value: ['value', 'right'],
};

/** The text of a part, cut: patterns are no good for long texts, and take time that grows with them. */
function textOf(node: SgNode, field: string): string | undefined {
  if (field === 'text') return node.text().slice(0, TEXT_CHARS);
  const part = (FIELDS[field] ?? []).map((it) => node.field(it)).find((it) => it !== null);
  return (part ?? partOfPair(node, field))?.text().slice(0, TEXT_CHARS);
}

/** Pairs of Go have no fields: the first named child is the key, the second the value. */
function partOfPair(node: SgNode, field: string): SgNode | undefined {
  if (node.kind() !== 'keyed_element') return undefined;
  return node.children().filter((it) => it.isNamed())[field === 'key' ? 0 : 1];
}

const TEXT_CHARS = 2_000;
