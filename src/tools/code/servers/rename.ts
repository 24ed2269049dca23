/**
 * Renames in Python, Go and Rust by a language server of the person's toolchains. It runs as a command, and `git apply` writes in a
 * second one what it answered: so the walls, previews and undo of commands hold for both.
 */
import { pathToFileURL } from 'node:url';
import { ToolError } from '../../../base/errors.ts';
import { type ChangedFiles, readText } from '../../edit/changed-files.ts';
import { unifiedDiff } from '../../edit/diff.ts';
import type { NamePosition, RefactorPlan, TextEdit } from '../../source/typescript.ts';
import type { ToolContext } from '../../tool.ts';
import { edited, plainPath } from '../planned-changes.ts';
import { type LanguageServer, withLanguageServer } from './language-server.ts';

interface Served {
  readonly id: string;
  /** Command lines of its servers, the best first. */
  readonly servers: readonly string[];
}

const PYTHON: Served = {
  id: 'python',
  servers: [
    'pyright-langserver --stdio',
    'basedpyright-langserver --stdio',
    '.venv/bin/pylsp',
    'pylsp',
    'jedi-language-server',
  ],
};
const SERVED: Readonly<Record<string, Served>> = {
  py: PYTHON,
  pyi: PYTHON,
  go: { id: 'go', servers: ['gopls'] },
  rs: { id: 'rust', servers: ['rust-analyzer'] },
};

/** The language of a file that such a server renames in; undefined for others. */
export const servedBy = (path: string): Served | undefined => SERVED[/\.(pyi?|go|rs)$/.exec(path)?.[1] ?? ''];

/** Writes what a server answered; each hunk only where its lines still stand. */
export const APPLY = 'git apply --unidiff-zero --whitespace=nowarn -';

export interface ServerRename extends NamePosition {
  readonly path: string;
  readonly newName: string;
}

interface Place {
  readonly line: number;
  readonly character: number;
}
interface Range {
  readonly start: Place;
  readonly end: Place;
}
interface Location {
  readonly uri: string;
  readonly range: Range;
}
interface ServerEdit {
  readonly range: Range;
  readonly newText: string;
}
interface WorkspaceEdit {
  readonly changes?: Readonly<Record<string, readonly ServerEdit[]>>;
  readonly documentChanges?: readonly {
    readonly kind?: string;
    readonly textDocument?: { readonly uri: string };
    readonly edits?: readonly ServerEdit[];
  }[];
}

const NAMES_TRIED = 20;
const IDENTIFIER = /^[\p{ID_Start}_][\p{ID_Continue}]*$/u;

/**
 * What a rename would change. Throws CONFLICT if the name means something else afterwards, NOT_FOUND, INPUT_INVALID, UNSUPPORTED
 * without a server, and for files that may not be changed.
 */
export function planByServer(query: ServerRename, served: Served, ctx: ToolContext): Promise<RefactorPlan> {
  const { newName } = query;
  if (!IDENTIFIER.test(newName))
    throw new ToolError('INPUT_INVALID', `newName \`${newName}\` is not an identifier of ${served.id}`, {
      suggestion: 'Use letters, digits and _.',
    });
  const path = plainPath(query.path);
  const text = textAt(path, ctx).text;
  return withLanguageServer(served.servers, ctx, async (server) => {
    const textDocument = { uri: uriOf(path, ctx) };
    const open = (uri: string, of: string) =>
      server.tell('textDocument/didOpen', { textDocument: { uri, languageId: served.id, version: 1, text: of } });
    await open(textDocument.uri, text);
    const position = await onlyPlace({ ...query, path }, text, server, ctx);
    const before = await usesAt(position, textDocument, server);
    const edit = await server.ask<WorkspaceEdit>('textDocument/rename', { textDocument, position, newName });
    const files = filesOf(edit ?? {}, ctx);
    if (files.length === 0)
      throw new ToolError('NOT_FOUND', `line ${position.line + 1} of \`${path}\` has nothing that can be renamed`);
    const plan = { newErrors: [], checkedFiles: 0, truncated: false, unresolved: [] };
    const planned = { ...plan, files: files.map(({ path, ifHash, edits }) => ({ path, ifHash, edits })) };
    if (!files.some((it) => wordsIn(it.before, newName).length > 0)) return planned;
    // What has that name already may be another thing, or take the name over. A server that can't tell has the rename refused.
    for (const it of files) {
      const uri = uriOf(it.path, ctx);
      const contentChanges = [{ text: it.after }];
      if (it.path === path)
        await server.tell('textDocument/didChange', { textDocument: { uri, version: 2 }, contentChanges });
      else await open(uri, it.after);
    }
    const own = files.find((it) => it.path === path);
    const moved = own ? placeAt(own.after, movedOffset(offsetOf(text, position), own.edits)) : position;
    const after = await usesAt(moved, textDocument, server);
    if (after !== before)
      throw new ToolError(
        'CONFLICT',
        `\`${newName}\` would mean something else: ${before} places name it now, ${after} would then`,
        { suggestion: 'Choose another name; nothing was changed.' },
      );
    return planned;
  });
}

/** Writes a planned rename, all of it or nothing. Throws CONFLICT if the files changed meanwhile. */
export async function applyByCommand({ all }: ChangedFiles, ctx: ToolContext): Promise<void> {
  const patches: string[] = [];
  // A diff that a person is shown may be cut; this one is not.
  const limits = { ...ctx.limits, previewDiffBytes: ctx.limits.changeBytesMax };
  for (const { path, before, content } of all) {
    const patch = await unifiedDiff(path, { before, after: content }, limits);
    if (patch === undefined)
      throw new ToolError('FILE_LIMIT', `\`${path}\` changes in too many places; nothing was changed`, {
        suggestion: 'Rename with file_multi_edit and wholeWord: true.',
      });
    patches.push(patch);
  }
  const ran = await ctx.run(ctx.command({ command: APPLY, cwd: '.', env: {}, stdin: patches.join('') }));
  if (ran.exitCode === 0) return;
  throw new ToolError('CONFLICT', `nothing was changed: ${ran.stderr.trim().slice(0, 500).toWellFormed()}`, {
    suggestion: 'Call again. A file that a rule protects is changed by the person.',
  });
}

/** The place of the name that the caller means. Throws NOT_FOUND, or INPUT_INVALID if it is several. */
async function onlyPlace(
  { path, symbol, line, column }: ServerRename,
  text: string,
  server: LanguageServer,
  ctx: ToolContext,
): Promise<Place> {
  if (line !== undefined && column !== undefined) return { line: line - 1, character: column - 1 };
  if (symbol === undefined) throw new ToolError('INPUT_INVALID', 'give symbol, or line and column, of the name');
  if (!IDENTIFIER.test(symbol)) throw new ToolError('INPUT_INVALID', `symbol \`${symbol}\` is not an identifier`);
  const places = text
    .split(/\r\n|\n|\r/)
    .flatMap((it, row) =>
      line === undefined || row === line - 1 ? wordsIn(it, symbol).map((character) => ({ line: row, character })) : [],
    );
  const met = new Map<string, Place>();
  const textDocument = { uri: uriOf(path, ctx) };
  for (const position of places.slice(0, NAMES_TRIED)) {
    const asked = server.ask<Location | Location[]>('textDocument/definition', { textDocument, position });
    // Some servers refuse a place without a name, such as one in a comment.
    const answer = await asked.catch((error: ToolError) => (error.code === 'CONFLICT' ? null : Promise.reject(error)));
    const [found] = answer === null ? [] : [answer].flat();
    const { uri, range } = found ?? {};
    if (range) met.set(`${uri} ${range.start.line} ${range.start.character}`, position);
  }
  const [only, other] = [...met.values()];
  if (!only) throw new ToolError('NOT_FOUND', `\`${symbol}\` in \`${path}\` is not a symbol`);
  if (!other) return only;
  throw new ToolError(
    'INPUT_INVALID',
    `\`${symbol}\` in \`${path}\` means several symbols: in line ${only.line + 1} and in line ${other.line + 1}`,
    { suggestion: 'Give the line and the column too.' },
  );
}

/** Offsets at which an identifier stands as a whole word. */
const wordsIn = (text: string, name: string): number[] =>
  [...text.matchAll(new RegExp(`(?<![\\p{L}\\p{N}_])${name}(?![\\p{L}\\p{N}_])`, 'gu'))].map((it) => it.index);

async function usesAt(position: Place, textDocument: { uri: string }, server: LanguageServer): Promise<number> {
  const context = { includeDeclaration: true };
  const found = await server.ask<Location[]>('textDocument/references', { textDocument, position, context });
  return new Set((found ?? []).map(({ uri, range }) => `${uri} ${range.start.line} ${range.start.character}`)).size;
}

/** The changed files of an answer. Throws UNSUPPORTED for what is no edit of a text, POLICY_DENIED. */
function filesOf({ changes = {}, documentChanges }: WorkspaceEdit, ctx: ToolContext) {
  const isRefused = ctx.refusedBelow('.', 'write');
  const all = documentChanges?.map((it) => {
    if (it.kind !== undefined || !it.textDocument)
      throw new ToolError('UNSUPPORTED', 'this name is that of a file or folder, which would have to be moved', {
        suggestion: 'Move it with file_rename, then change the imports with file_multi_edit.',
      });
    return [it.textDocument.uri, it.edits ?? []] as const;
  });
  const byPath = Map.groupBy(all ?? Object.entries(changes), ([uri]) => pathOf(uri, ctx));
  return [...byPath].map(([path, lists]) => {
    if (isRefused(path))
      throw new ToolError('POLICY_DENIED', `this would change \`${path}\`, which a rule protects`, {
        suggestion: 'Ask the person to change that file.',
      });
    const { before, text } = textAt(path, ctx);
    const edits = lists
      .flatMap(([, some]) => some)
      .map(({ range, newText }) => ({
        start: offsetOf(text, range.start),
        end: offsetOf(text, range.end),
        text: newText,
      }))
      .toSorted((a, b) => a.start - b.start);
    return { path, ifHash: ctx.hashOf(before), edits, before: text, after: edited(path, text, edits) };
  });
}

function textAt(path: string, ctx: ToolContext) {
  const found = readText(path, '.', ctx);
  if ('code' in found) throw new ToolError(found.code, `\`${path}\` can't be read as a text`);
  return found;
}

const uriOf = (path: string, { workspace }: ToolContext): string => pathToFileURL(`${workspace}/${path}`).href;

/** The path of a file of the workspace. Throws UNSUPPORTED for others. */
function pathOf(uri: string, { workspace }: ToolContext): string {
  const full = decodeURIComponent(uri.replace(/^file:\/\//, ''));
  if (full.startsWith(`${workspace}/`)) return plainPath(full.slice(workspace.length));
  throw new ToolError('UNSUPPORTED', `this would change \`${full.slice(0, 300)}\`, which is outside of the workspace`, {
    suggestion: 'Choose a name that only this workspace uses.',
  });
}

/** Offset of a place in UTF-16 units; a place beyond its line or the text is at its end. */
function offsetOf(text: string, { line, character }: Place): number {
  let start = 0;
  for (let row = 0; row < line; row++) {
    const next = text.indexOf('\n', start);
    if (next === -1) return text.length;
    start = next + 1;
  }
  const end = text.indexOf('\n', start);
  return Math.min(start + character, end === -1 ? text.length : end);
}

function placeAt(text: string, offset: number): Place {
  const before = text.slice(0, offset).split('\n');
  return { line: before.length - 1, character: before.at(-1)?.length ?? 0 };
}

/** The offset after edits of what was at `offset`; at the start of an edited name, where the new one starts. */
function movedOffset(offset: number, edits: readonly TextEdit[]): number {
  let moved = offset;
  for (const it of edits) {
    if (it.start <= offset && offset <= it.end) return moved - (offset - it.start);
    if (it.end <= offset) moved += it.text.length - (it.end - it.start);
  }
  return moved;
}
