/** Changes inside of one file: extracts a function, a variable or a type, and inlines a variable. */
import { ToolError } from '../../src/errors.ts';
import type { ExtractQuery, NamePosition, RefactorPlan } from '../../src/tools/source/typescript.ts';
import type { TypeScript6Child } from '../typescript6-child.ts';
import type { Refactoring } from './refactoring.ts';
import { assertIdentifier, nameAt } from './rename-symbol.ts';
import { EditedText } from './text-edits.ts';

type InlineQuery = { readonly operation: 'inline'; readonly path: string } & NamePosition;

export async function refactorLocally(
  query: ExtractQuery | InlineQuery,
  work: Refactoring,
  typescript6: TypeScript6Child,
): Promise<RefactorPlan> {
  const { turn, sources, signal } = work.options;
  const { operation, path } = query;
  await turn.open(path);
  const text = new EditedText(work.options.take(path).text);
  const asked = query.operation === 'inline' ? await namedRange(query, text, work) : extractedRange(query, text);
  const request = { operation, path, workspace: sources.workspace, text: text.text, ...asked };
  const done = await typescript6.refactor(request, signal);
  if ('refused' in done)
    throw new ToolError(done.code, `${operation} in \`${path}\`: ${done.refused}`.slice(0, 1000).toWellFormed(), {
      suggestion: 'Nothing was changed.',
    });
  work.replaceWhole(path, done.text);
  await work.layAll();
  const plan = await work.plan({ keyOf: (it) => it });
  return { ...plan, ...(done.name !== undefined && { name: done.name }) };
}

async function namedRange(query: InlineQuery, text: EditedText, work: Refactoring) {
  const found = await nameAt(query, work);
  const start = text.offsetOf(found);
  return { start, end: start + found.name.length };
}

function extractedRange({ range, newName, scope, path }: ExtractQuery, text: EditedText) {
  if (newName !== undefined) assertIdentifier(newName);
  if (newName?.startsWith('#'))
    throw new ToolError('INPUT_INVALID', `newName \`${newName}\` would be private to a class; choose another name`);
  const offsetAt = (line: number, column: number): number => {
    const position = { line: line - 1, character: column - 1 };
    const offset = text.offsetOf(position);
    const { line: row, character } = text.positionOf(offset);
    if (row === position.line && character === position.character) return offset;
    throw new ToolError('INPUT_INVALID', `range: \`${path}\` has no line ${line} with a column ${column}`);
  };
  const start = offsetAt(range.startLine, range.startColumn);
  const end = offsetAt(range.endLine, range.endColumn);
  if (end <= start) throw new ToolError('INPUT_INVALID', 'range: its end must come after its start');
  return { start, end, ...(newName !== undefined && { newName }), ...(scope && { scope }) };
}
