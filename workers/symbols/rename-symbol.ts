/** Renames a symbol: from its definition, and only if every use still means the same afterwards. */
import { ToolError } from '../../src/base/errors.ts';
import type { NamePosition, RefactorPlan, TextEdit } from '../../src/tools/source/typescript.ts';
import { twinOf } from './module-specifiers.ts';
import type { Refactoring, WorkspaceEdit } from './refactoring.ts';
import { servedLanguage } from './source-languages.ts';
import { wordsAt } from './source-lines.ts';
import { EditedText, movedOffset, startOfEdit } from './text-edits.ts';
import { type FilePosition, type Location, pathOf, toPosition } from './workspace-sources.ts';

export interface RenameQuery extends NamePosition {
  readonly path: string;
  readonly newName: string;
}

/** A name at a position of a file. */
interface Named extends FilePosition {
  readonly name: string;
}

export async function renameSymbol(query: RenameQuery, work: Refactoring): Promise<RefactorPlan> {
  const { path, newName } = query;
  const { turn, sources } = work.options;
  assertIdentifier(newName);
  await turn.open(path);
  const symbol = await definitionOf(await nameAt(query, work), work);
  const twin = twinOf(symbol.path, sources);
  if (twin !== undefined && wordsAt(sources.read(twin) ?? '', symbol.name).length > 0)
    throw new ToolError(
      'UNSUPPORTED',
      `\`${symbol.name}\` is in \`${symbol.path}\` and in \`${twin}\`, of which TypeScript sees one`,
      {
        suggestion: 'Rename it in both with file_multi_edit, with wholeWord: true.',
      },
    );
  if (symbol.name === newName) throw new ToolError('INPUT_INVALID', `\`${newName}\` is its name already`);
  if (symbol.name.startsWith('#') !== newName.startsWith('#'))
    throw new ToolError('INPUT_INVALID', `\`${symbol.name}\` can't become \`${newName}\`: a name with # is private`);
  const candidates = (
    await work.options.filesWith({ pattern: symbol.name, literal: true, caseSensitive: true })
  ).filter((it) => servedLanguage(it) !== undefined);
  const reExporters = reExportersOf(symbol.path, work);
  reExporters.catch(() => {}); // Avoids an unhandled rejection if the server fails first.
  const uses = await turn.everywhere({ sources, firstFiles: [symbol.path], candidates }, () => usesOf(symbol, work));
  if (!uses.complete) work.truncated = true;
  const edit = await work.ask<WorkspaceEdit>('textDocument/rename', symbol.path, { ...at(symbol), newName });
  if (!edit) throw cantRename(symbol);
  work.add(edit);
  work.mapEdits((text, it) => withoutAlias(text, it));
  if (work.changed.size === 0) throw cantRename(symbol);
  await work.layAll();
  await assertSameUses(symbol, { newName, before: uses.found, work });
  const names = new RegExp(`[${WORD}]+`, 'gu');
  const keyOf = (it: string) => it.replaceAll(names, (word) => (word === newName ? symbol.name : word));
  return work.plan({ others: await reExporters, keyOf });
}

/** An edit that takes an alias away that is the name itself: `{ b as a }` becomes `{ a }`, and not `{ a as a }`. */
function withoutAlias(text: string, edit: TextEdit): TextEdit {
  const name = edit.text;
  const isListed = /\b(?:import|export)\s+(?:type\s+)?(?:[\p{ID_Continue}$]+\s*,\s*)?\{[^{}]*$/u;
  if (!isListed.test(text.slice(Math.max(0, edit.start - LIST_CHARS_MAX), edit.start))) return edit;
  const [, after, alias] =
    /^(\s+as\s+)([\p{ID_Continue}$]+)/u.exec(text.slice(edit.end, edit.end + LIST_CHARS_MAX)) ?? [];
  if (after !== undefined && alias === name) return { ...edit, end: edit.end + after.length + alias.length };
  const [before, own] =
    /([\p{ID_Continue}$]+)\s+as\s+$/u.exec(text.slice(Math.max(0, edit.start - LIST_CHARS_MAX), edit.start)) ?? [];
  return before !== undefined && own === name ? { ...edit, start: edit.start - before.length } : edit;
}

/** Characters of a list of imports or exports that are looked at. */
const LIST_CHARS_MAX = 10_000;

const at = ({ line, character }: FilePosition) => ({ position: { line, character } });

function assertIdentifier(name: string): void {
  if (/^#?[\p{ID_Start}$_][\p{ID_Continue}$\u200c\u200d]*$/u.test(name) && !RESERVED.has(name)) return;
  throw new ToolError('INPUT_INVALID', `newName \`${name}\` is not an identifier of TypeScript`, {
    suggestion: 'Use letters, digits, _ and $, and no reserved word.',
  });
}

const RESERVED: ReadonlySet<string> = new Set(
  (
    'break case catch class const continue debugger default delete do else enum export extends false finally for function if import in ' +
    'instanceof new null return super switch this throw true try typeof var void while with yield let static implements interface package ' +
    'private protected public await'
  ).split(' '),
);

/** The name that the caller means. Throws INPUT_INVALID, NOT_FOUND. */
async function nameAt(
  { path, line, column, symbol }: NamePosition & { readonly path: string },
  work: Refactoring,
): Promise<Named> {
  const text = work.options.sources.read(path) ?? '';
  const lines = text.split(/\r\n|\n|\r/);
  if (line !== undefined && column !== undefined) {
    const found = identifierAt(lines[line - 1] ?? '', column - 1);
    if (!found || (symbol !== undefined && found.name !== symbol))
      throw new ToolError(
        'NOT_FOUND',
        `there is no ${symbol === undefined ? 'name' : `\`${symbol}\``} at line ${line}, column ${column} of \`${path}\``,
      );
    return { path, line: line - 1, ...found };
  }
  if (symbol === undefined) throw new ToolError('INPUT_INVALID', 'give symbol, or line and column, of the name');
  const all = lines.flatMap((it, row) =>
    line === undefined || row === line - 1
      ? wordsAt(it, symbol).map((character) => ({ path, line: row, character, name: symbol }))
      : [],
  );
  return onlyOne(all, { path, symbol, line }, work);
}

/** The one symbol that all these names mean. Throws NOT_FOUND, or INPUT_INVALID if there are several. */
async function onlyOne(
  all: readonly Named[],
  { path, symbol, line }: { path: string; symbol: string; line: number | undefined },
  work: Refactoring,
): Promise<Named> {
  const met = new Map<string, Named>();
  for (const it of all.slice(0, NAMES_TRIED)) {
    const found = (await definitionsAt(it, work))[0];
    if (found)
      met.set(
        `${found.uri} ${found.range.start.line} ${found.range.start.character}`,
        met.get(`${found.uri} ${found.range.start.line} ${found.range.start.character}`) ?? it,
      );
    // Names of a file's own top come first, and mostly are meant.
    if (met.size > 1) break;
  }
  const [only, other] = [...met.values()];
  const where = `in ${line === undefined ? '' : `line ${line} of `}\`${path}\``;
  if (!only) throw new ToolError('NOT_FOUND', `\`${symbol}\` ${where} is not a symbol`);
  if (!other) return only;
  throw new ToolError(
    'INPUT_INVALID',
    `\`${symbol}\` ${where} means several symbols: in line ${only.line + 1} and in line ${other.line + 1}`,
    {
      suggestion: 'Give the line and the column too.',
    },
  );
}

const NAMES_TRIED = 20;
const WORD = '#\\p{L}\\p{N}_$';

function identifierAt(line: string, character: number): { name: string; character: number } | undefined {
  for (const it of line.matchAll(/#?[\p{ID_Start}$_][\p{ID_Continue}$\u200c\u200d]*/gu))
    if (it.index <= character && character <= it.index + it[0].length) return { name: it[0], character: it.index };
  return undefined;
}

const definitionsAt = async (it: FilePosition, work: Refactoring): Promise<readonly Location[]> =>
  (await work.ask<readonly Location[]>('textDocument/definition', it.path, at(it))) ?? [];

/**
 * Finds the definition of a name. An import of the same name leads to the definition, since a rename at the import would only
 * add an alias there; a name that is an alias itself is renamed where it stands. Throws UNSUPPORTED, NOT_FOUND.
 */
async function definitionOf(named: Named, work: Refactoring): Promise<Named> {
  const { sources, turn } = work.options;
  const definitions = await definitionsAt(named, work);
  if (definitions.length === 0) throw cantRename(named);
  for (const it of definitions) {
    const path = pathOf(it.uri, sources);
    const text = path === undefined ? undefined : sources.read(path);
    if (text === undefined) {
      throw new ToolError(
        'UNSUPPORTED',
        `\`${named.name}\` is defined in a file that is ignored, hidden or outside of the workspace`,
      );
    }
    if (new EditedText(text).slice(it.range) !== named.name) continue;
    const found = toPosition(it, sources) as FilePosition;
    await turn.open(found.path);
    return { ...found, name: named.name };
  }
  return named;
}

async function usesOf(symbol: FilePosition, work: Refactoring): Promise<FilePosition[]> {
  const context = { includeDeclaration: true };
  const found = await work.ask<readonly Location[]>('textDocument/references', symbol.path, { ...at(symbol), context });
  return (found ?? []).flatMap((it) => toPosition(it, work.options.sources) ?? []);
}

/**
 * Compares the uses before and after: a new name that something nearer has, or that merges with another declaration,
 * changes the meaning of code, and often without any error. Throws CONFLICT.
 */
async function assertSameUses(
  symbol: Named,
  { newName, before, work }: { newName: string; before: readonly FilePosition[]; work: Refactoring },
): Promise<void> {
  const texts = new Map<string, EditedText>();
  const place = (it: FilePosition, toOffset: (offset: number, path: string) => number, isNew: boolean): string => {
    const changed = work.changed.get(it.path);
    if (!changed) return `${it.path} ${it.line} ${it.character}`;
    const text = texts.get(`${it.path} ${isNew}`) ?? (isNew ? new EditedText(changed.after) : changed.before);
    texts.set(`${it.path} ${isNew}`, text);
    return `${it.path} @${toOffset(text.offsetOf(it), it.path)}`;
  };
  const editsOf = (path: string) => work.changed.get(path)?.edits ?? [];
  const expected = new Set(before.map((it) => place(it, (offset, path) => movedOffset(offset, editsOf(path)), false)));
  const own = work.changed.get(symbol.path);
  const moved = own ? movedOffset(own.before.offsetOf(symbol), own.edits) : undefined;
  const now = own && moved !== undefined ? new EditedText(own.after).positionOf(moved) : symbol;
  const after = await usesOf({ path: symbol.path, ...now }, work);
  const found = new Set(after.map((it) => place(it, (offset, path) => startOfEdit(offset, editsOf(path)), true)));
  if (found.size === expected.size && [...found].every((it) => expected.has(it))) return;
  const lost = before.find((it) => !found.has(place(it, (offset, path) => movedOffset(offset, editsOf(path)), false)));
  const gained = after.find(
    (it) => !expected.has(place(it, (offset, path) => startOfEdit(offset, editsOf(path)), true)),
  );
  const where = lost ?? gained;
  const line = where ? ` in line ${where.line + 1} of \`${where.path}\`` : '';
  throw new ToolError(
    'CONFLICT',
    `\`${newName}\` already means something else${line}, so renaming \`${symbol.name}\` would change what the code does`,
    {
      suggestion: 'Choose another name; nothing was changed.',
    },
  );
}

/** Files that export what a file exports: two such names may collide there. */
async function reExportersOf(path: string, work: Refactoring): Promise<string[]> {
  const parts = path.replace(/\.[^./]+$/, '').split('/');
  const stems = parts.at(-1) === 'index' ? parts.slice(-2) : parts.slice(-1);
  const pattern = `^\\s*(export\\b.*|\\})\\s*from\\s*['"][^'"]*\\b(${stems.map(toRust).join('|')})(\\.\\w+)?['"]`;
  return work.options.filesWith({ pattern, literal: false, caseSensitive: true });
}

const toRust = (text: string): string => text.replaceAll(/[^\p{L}\p{N}_]/gu, (it) => `\\${it}`);

const cantRename = ({ name, path, line }: Named): ToolError =>
  new ToolError('NOT_FOUND', `\`${name}\` in line ${line + 1} of \`${path}\` is nothing that can be renamed`);
