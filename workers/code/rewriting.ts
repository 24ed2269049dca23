/** Finds a pattern in a syntax tree and fills in its replacement. Runs in the parser process only. */
import type { SgNode } from '@ast-grep/napi';
import type { TextRange } from '../../src/tools/source/syntax.ts';
import type { ParsedLanguage } from '../symbols/source-languages.ts';

export interface RewriteQuestion {
  readonly language: ParsedLanguage;
  readonly text: string;
  readonly pattern: string;
  readonly rewrite: string;
  readonly replacementsMax: number;
}

export type RewriteAnswer =
  | { readonly edits: TextRange[] }
  | {
      readonly code: 'INPUT_INVALID' | 'FILE_LIMIT';
      readonly message: string;
      readonly suggestion: string;
      /** Whether the message is about this text, and not about the pattern. */
      readonly isOfFile: boolean;
    };

type Parse = (text: string) => SgNode;

/** A name in a pattern or a rewrite: `$A` for one node, `$$$A` for any number. */
const NAMES = /(\$\$\$|\$)([A-Z_][A-Z0-9_]*)/g;

export function rewriteIn(question: RewriteQuestion, parse: Parse): RewriteAnswer {
  const { text, pattern, rewrite, replacementsMax } = question;
  const known = new Set([...pattern.matchAll(NAMES)].map(([name]) => name));
  const unknown = [...rewrite.matchAll(NAMES)].find(([name]) => !known.has(name));
  if (unknown)
    return refusal(`rewrite names \`${unknown[0]}\`, which pattern does not`, 'Use the names of the pattern.');
  const root = parse(text);
  let found: SgNode[];
  try {
    found = root.findAll(pattern);
  } catch (error) {
    return refusal(`pattern is not one piece of code: ${messageOf(error)}`, 'Give one expression or one statement.');
  }
  const edits: TextRange[] = [];
  let end = -1;
  for (const node of found.sort(byStart)) {
    const { from, to } = rangeOf(node);
    if (from < end) continue; // Inside of a match that is replaced as a whole.
    if (edits.length === replacementsMax)
      return {
        code: 'FILE_LIMIT',
        message: `the pattern matches more than ${replacementsMax} times`,
        suggestion: 'Narrow the pattern, or leave the file out with exclude.',
        isOfFile: true,
      };
    const filled = fill(rewrite, node, text);
    end = to;
    if (filled !== text.slice(from, to)) edits.push({ from, to, text: filled });
  }
  if (edits.length > 0 && !hasErrors(root) && hasErrors(parse(applied(text, edits))))
    return {
      code: 'INPUT_INVALID',
      message: 'the rewritten code is not valid',
      suggestion: 'Correct rewrite; preview: true shows what it makes of the other files.',
      isOfFile: true,
    };
  return { edits };
}

const refusal = (message: string, suggestion: string): RewriteAnswer => ({
  code: 'INPUT_INVALID',
  message,
  suggestion,
  isOfFile: false,
});

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error)).slice(0, 300);

const rangeOf = (node: SgNode): { from: number; to: number } => {
  const { start, end } = node.range();
  return { from: start.index, to: end.index };
};

/** Outer nodes before the inner ones that begin with them. */
function byStart(a: SgNode, b: SgNode): number {
  const [one, two] = [rangeOf(a), rangeOf(b)];
  return one.from - two.from || two.to - one.to;
}

function fill(rewrite: string, node: SgNode, text: string): string {
  return rewrite.replaceAll(NAMES, (_, kind: string, name: string) => {
    if (kind === '$') return node.getMatch(name)?.text() ?? '';
    const many = node.getMultipleMatches(name);
    const [first, last] = [many.at(0), many.at(-1)];
    return first && last ? text.slice(rangeOf(first).from, rangeOf(last).to) : '';
  });
}

const hasErrors = (root: SgNode): boolean => root.find({ rule: { kind: 'ERROR' } }) !== null;

function applied(text: string, edits: readonly TextRange[]): string {
  let at = 0;
  let made = '';
  for (const { from, to, text: by } of edits) {
    made += text.slice(at, from) + by;
    at = to;
  }
  return made + text.slice(at);
}
