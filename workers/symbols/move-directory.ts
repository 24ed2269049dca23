/**
 * Moves a directory with all that it holds. The language server changes the imports that it knows: those of files in
 * projects. Every relative import of a source that moves, or that names one that does, is then looked at here: it must
 * name the same file as before. So files that are in no project, and imports of other files than sources, follow too.
 */
import { basename, dirname, join, normalize, relative } from 'node:path';
import { ToolError } from '../../src/base/errors.ts';
import type { RefactorPlan } from '../../src/tools/source/typescript.ts';
import { grammarOf } from '../code/code-languages.ts';
import type { SyntaxParser } from '../syntax-parser.ts';
import { isRelative } from './module-specifiers.ts';
import { inStyleOf, withoutPackages } from './move-file.ts';
import type { Refactoring, WorkspaceEdit } from './refactoring.ts';
import { isProject, servedLanguage } from './source-languages.ts';
import { onePerProject, plain, uriOf } from './workspace-sources.ts';

interface Move {
  readonly from: string;
  readonly to: string;
}

export async function moveDirectory(
  from: string,
  wanted: string,
  work: Refactoring,
  parser: SyntaxParser,
): Promise<RefactorPlan> {
  const { turn, sources, limits } = work.options;
  const move = { from, to: normalize(plain(wanted)) };
  assertMovable(move, wanted, [...sources.stamps.keys()]);
  const concerned = await concernedBy(move, work);
  const first = onePerProject(concerned, sources.stamps).slice(0, limits.symbolFilesOpenMax);
  for (const it of first) await turn.open(it);
  const files = [{ oldUri: uriOf(from, sources), newUri: uriOf(move.to, sources) }];
  const edit = (await turn.ask<WorkspaceEdit>('workspace/willRenameFiles', { files })) ?? {};
  work.add(
    withoutPackages(edit),
    inStyleOf(() => undefined),
  );
  for (const path of concerned) await keepImports(path, move, { work, parser });
  // The server does not see files in a directory that is not on disk yet, so errors can't be compared.
  work.truncated = true;
  return { ...(await work.plan({ unchecked: new Set(work.changed.keys()), keyOf: (it) => it })), move };
}

/** Throws INPUT_INVALID and UNSUPPORTED. */
function assertMovable({ from, to }: Move, wanted: string, paths: readonly string[]): void {
  if (from === '' || `${to}/`.startsWith(`${from}/`))
    throw new ToolError('INPUT_INVALID', `\`${wanted}\` is \`${from || '.'}\` itself, or inside of it`);
  if (servedLanguage(to) !== undefined)
    throw new ToolError('UNSUPPORTED', `\`${from}\` is a directory, and \`${wanted}\` is the name of a source file`);
  const settings = paths.find((it) => it.startsWith(`${from}/`) && (isProject(it) || basename(it) === 'package.json'));
  if (settings === undefined) return;
  throw new ToolError(
    'UNSUPPORTED',
    `\`${from}\` holds the project \`${settings}\`, whose settings depend on its place`,
    {
      suggestion: 'Move it with file_rename, then change the settings and the imports that name it.',
    },
  );
}

/** The sources that move, and those that may name one of them: such a relative import has the directory's name in it. */
async function concernedBy({ from }: Move, work: Refactoring): Promise<string[]> {
  const { sources, filesWith, limits } = work.options;
  const isSource = (it: string) => servedLanguage(it) !== undefined;
  const inside = [...sources.stamps.keys()].filter((it) => it.startsWith(`${from}/`) && isSource(it));
  const named = await filesWith({ pattern: basename(from), literal: true, caseSensitive: true });
  const all = [...inside.sort(), ...named.filter((it) => !it.startsWith(`${from}/`) && isSource(it))];
  if (all.length <= limits.symbolParsedMax) return all;
  throw new ToolError(
    'FILE_LIMIT',
    `the imports of ${all.length} files would be looked at; at most ${limits.symbolParsedMax} are`,
    {
      suggestion: 'Move the directories in it one by one.',
      details: { limit: limits.symbolParsedMax, used: all.length, enforcedBy: 'tool' },
    },
  );
}

/** Mends the relative imports of a file that would not name the same file as before. Throws UNSUPPORTED if it can't. */
async function keepImports(
  path: string,
  move: Move,
  { work, parser }: { work: Refactoring; parser: SyntaxParser },
): Promise<void> {
  const { sources, limits, signal } = work.options;
  const before = sources.read(path);
  if (before === undefined || !/['"`]\.{1,2}['"`/]/.test(before)) return;
  const modulesOf = async (text: string): Promise<string[]> => {
    const files = [{ path, language: grammarOf(path) ?? 'typescript', text }];
    const [table] = (await parser.inspect('modules', { files, timeMs: limits.symbolParseMs }, signal)) ?? [];
    if (table) return table.imports.map((it) => it.module);
    throw new ToolError('UNSUPPORTED', `the imports of \`${path}\` can't be read: it ends the parser`);
  };
  const old = await modulesOf(before);
  const text = work.changed.get(path)?.after ?? before;
  const now = text === before ? old : await modulesOf(text);
  const wrong = wrongImports(path, move, old, now);
  if (wrong.size === 0) return;
  const mended = text.replaceAll(SPECIFIER, (all, start: string, quote: string, name: string) => {
    const fresh = wrong.get(name);
    return fresh === undefined ? all : `${start}${quote}${fresh}${quote}`;
  });
  const left = wrongImports(path, move, old, await modulesOf(mended));
  const [missed] = left.keys();
  if (missed !== undefined)
    throw new ToolError('UNSUPPORTED', `the import of '${missed}' in \`${path}\` can't be changed`, {
      suggestion: 'Move the directory with file_rename, and change its imports with file_multi_edit.',
    });
  work.replaceWhole(path, mended);
}

const SPECIFIER = /(\b(?:from|import|require)\s*\(?\s*)(['"`])(\.[^'"`\n]*)\2/g;

/** Relative imports as they are now that do not name the same file as before the move, each with its right name. */
function wrongImports(path: string, move: Move, old: readonly string[], now: readonly string[]): Map<string, string> {
  const wrong = new Map<string, string>();
  const home = dirname(moved(path, move));
  for (const [at, name] of old.entries()) {
    const other = now[at] ?? '';
    if (!isRelative(name) || (other !== '' && !isRelative(other))) continue;
    const target = moved(join(dirname(path), name), move);
    if (normalize(join(home, other, '.')) === target) continue;
    const fresh = relative(home, target) || '.';
    wrong.set(other, isRelative(fresh) ? fresh : `./${fresh}`);
  }
  return wrong;
}

function moved(path: string, { from, to }: Move): string {
  const at = normalize(join(path, '.'));
  return at === from || at.startsWith(`${from}/`) ? to + at.slice(from.length) : at;
}
