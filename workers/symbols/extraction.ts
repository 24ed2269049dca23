/** Extracts a function, a variable or a type from a range of a file, by TypeScript 6. */
import type ts from 'typescript6';
import type { LocallyRefactored, LocalRefactoring } from './local-refactoring.ts';
import { movedOffset, withEdits } from './text-edits.ts';
import type { FileProject } from './typescript6-project.ts';

const KINDS: Readonly<Record<string, readonly string[]>> = {
  extract_function: ['refactor.extract.function'],
  extract_variable: ['refactor.extract.constant'],
  // In JavaScript a type can only be written in a comment.
  extract_type: ['refactor.extract.type', 'refactor.extract.typedef'],
};

export const PREFERENCES = { provideRefactorNotApplicableReason: true };

export function extract(project: FileProject, request: LocalRefactoring): LocallyRefactored {
  const { service, file, format } = project;
  const { operation, newName, scope = operation === 'extract_function' ? 'outermost' : 'nearest' } = request;
  const range = withoutSpace(request);
  if (range.pos >= range.end) return { refused: 'the range holds no code', code: 'INPUT_INVALID' };
  const offered = service
    .getApplicableRefactors(file, range, PREFERENCES, 'invoked', 'refactor.extract', true)
    .flatMap(({ name, actions }) => actions.map((it) => ({ refactor: name, ...it })))
    .filter((it) => KINDS[operation]?.includes(it.kind ?? ''));
  const possible = offered.filter((it) => it.notApplicableReason === undefined);
  const chosen = possible.at(scope === 'outermost' ? -1 : 0);
  if (!chosen) return { refused: reasonOf(offered), code: 'INPUT_INVALID' };
  const done = service.getEditsForRefactor(file, format, range, chosen.refactor, chosen.name, PREFERENCES);
  const text = done && textAfter(project, done.edits);
  if (text === undefined || done?.renameLocation === undefined)
    return { refused: 'TypeScript 6 gave no edits of this file alone', code: 'INPUT_INVALID' };
  project.text = text;
  const name = nameAt(text, done.renameLocation);
  if (newName === undefined || newName === name) return { text, name };
  return renamed(project, done.renameLocation, newName);
}

function withoutSpace({ text, start, end }: LocalRefactoring): ts.TextRange {
  const code = text.slice(start, end);
  return { pos: start + (code.length - code.trimStart().length), end: end - (code.length - code.trimEnd().length) };
}

/** Why nothing can be extracted, as TypeScript says it. */
export const reasonOf = (offered: readonly { readonly notApplicableReason?: string }[]): string =>
  offered.find((it) => it.notApplicableReason !== undefined)?.notApplicableReason ??
  'TypeScript 6 offers it nowhere here';

/** The file's text after edits; undefined if other files would change, too. */
export function textAfter({ file, text }: FileProject, edits: readonly ts.FileTextChanges[]): string | undefined {
  const [only, other] = edits;
  if (!only || other || only.fileName !== file) return undefined;
  return withEdits(text, toEdits(only.textChanges));
}

const toEdits = (changes: readonly ts.TextChange[]) =>
  changes
    .map(({ span, newText }) => ({ start: span.start, end: span.start + span.length, text: newText }))
    .sort((a, b) => a.start - b.start || a.end - b.end);

const nameAt = (text: string, offset: number): string =>
  /^[\p{ID_Continue}$\u200c\u200d]*/u.exec(text.slice(offset))?.[0] ?? '';

/** Gives what was extracted its name. A name that means something else in one of these places is refused. */
function renamed(project: FileProject, offset: number, newName: string): LocallyRefactored {
  const { service, file } = project;
  const found = service.findRenameLocations(file, offset, false, false, {
    providePrefixAndSuffixTextForRename: true,
  });
  if (!found?.every((it) => it.fileName === file))
    return { refused: 'TypeScript 6 can not name what it extracted', code: 'INPUT_INVALID' };
  const edits = found
    .map(({ textSpan: { start, length }, prefixText = '', suffixText = '' }) => ({
      start,
      end: start + length,
      text: prefixText + newName + suffixText,
      shift: prefixText.length,
    }))
    .sort((a, b) => a.start - b.start);
  project.text = withEdits(project.text, edits);
  const expected = new Set(
    edits.map(
      ({ start, shift }) =>
        movedOffset(
          start,
          edits.filter((it) => it.start < start),
        ) + shift,
    ),
  );
  const [first = 0] = expected;
  const uses = service.getReferencesAtPosition(file, first) ?? [];
  const isSame =
    uses.length === expected.size && uses.every((it) => it.fileName === file && expected.has(it.textSpan.start));
  if (!isSame) return { refused: `\`${newName}\` already means something else here`, code: 'CONFLICT' };
  return { text: project.text, name: newName };
}
