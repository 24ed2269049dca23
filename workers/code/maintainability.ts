/** The maintainability index of functions. Runs in the parser child. */
import type { FunctionComplexity } from '../../src/tools/source/analysis.ts';
import type { SourceText } from './module-table.ts';
import { tokensIn } from './token-lines.ts';

export interface MeasuredFunction {
  /** Offsets of the beginning and the end of the text, in UTF-16 units. */
  readonly start: number;
  readonly end: number;
  readonly counts: FunctionComplexity;
}

/** Halstead's counts of operators and operands. */
interface Vocabulary {
  readonly distinct: Set<string>;
  all: number;
}

/**
 * Fills in the index of each function; they are in the order of their beginnings. A token counts for the innermost
 * function alone, so that the work grows with the text and not with how deep functions lie in each other.
 */
export function measureMaintainability(source: SourceText, functions: readonly MeasuredFunction[]): void {
  const vocabularies = new Map(functions.map((it) => [it, { distinct: new Set<string>(), all: 0 } as Vocabulary]));
  const open: MeasuredFunction[] = [];
  let next = 0;
  for (const { token, at } of tokensIn(source)) {
    for (let it = functions[next]; it && it.start <= at; it = functions[++next]) open.push(it);
    while (open.length > 0 && (open.at(-1) as MeasuredFunction).end <= at) open.pop();
    const vocabulary = vocabularies.get(open.at(-1) as MeasuredFunction);
    if (!vocabulary) continue;
    vocabulary.distinct.add(token);
    vocabulary.all += 1;
  }
  for (const [{ counts }, { distinct, all }] of vocabularies)
    counts.maintainability = indexOf(all * Math.log2(Math.max(distinct.size, 2)), counts);
}

/** The index in the form that Visual Studio gives it: from 0 to 100, higher is better. */
function indexOf(volume: number, { cyclomatic, lines }: FunctionComplexity): number {
  const index = 171 - 5.2 * Math.log(Math.max(volume, 1)) - 0.23 * cyclomatic - 16.2 * Math.log(lines);
  return Math.round(Math.min(Math.max((index * 100) / 171, 0), 100));
}
