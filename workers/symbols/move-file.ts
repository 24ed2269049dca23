/** Moves a source: its own imports and those of it are changed with it. */
import { dirname, join, normalize } from 'node:path';
import { pathToFileURL } from 'node:url';
import { ToolError } from '../../src/base/errors.ts';
import type { RefactorPlan } from '../../src/tools/source/typescript.ts';
import { isRelative, twinOf, withEnding } from './module-specifiers.ts';
import type { Refactoring, WorkspaceEdit } from './refactoring.ts';
import { servedLanguage } from './source-languages.ts';
import type { RangeEdit } from './text-edits.ts';
import { onePerProject, plain, uriOf } from './workspace-sources.ts';

export async function moveFile(from: string, wanted: string, work: Refactoring): Promise<RefactorPlan> {
  const { turn, sources, limits, take } = work.options;
  const to = normalize(plain(wanted));
  if (servedLanguage(to) === undefined)
    throw new ToolError('UNSUPPORTED', `\`${wanted}\` is no name of a TypeScript or JavaScript file`, {
      suggestion: 'Move other files with file_rename.',
    });
  const twin = twinOf(from, sources);
  if (twin !== undefined)
    throw new ToolError('UNSUPPORTED', `imports of \`${from}\` can mean \`${twin}\`, which stands beside it`, {
      suggestion: 'Move both with file_rename, and change their imports with file_multi_edit.',
    });
  if (to === from) throw new ToolError('INPUT_INVALID', `\`${wanted}\` is its path already`);
  const { text, hash } = take(from);
  const importers = (await importersOf(from, work)).filter((it) => servedLanguage(it) !== undefined);
  const first = onePerProject(importers, sources.stamps);
  if (first.length > limits.symbolFilesOpenMax) work.truncated = true;
  for (const it of [from, ...first.slice(0, limits.symbolFilesOpenMax)]) await turn.open(it);
  const newUri = pathToFileURL(join(sources.workspace, to)).href;
  const files = [{ oldUri: uriOf(from, sources), newUri }];
  const edit = (await turn.ask<WorkspaceEdit>('workspace/willRenameFiles', { files })) ?? {};
  work.add(
    withoutPackages(edit),
    inStyleOf((name) => (isIt(name, to) ? to : undefined)),
  );
  const own = work.changed.get(from);
  // Also a file whose own text stays the same is checked, and is there again while the errors of now are counted.
  work.keep(from);
  await work.layAll();
  // The server does not see files of ours in a directory that is not on disk yet.
  const isChecked = [...sources.stamps.keys()].some((it) => dirname(it) === dirname(to));
  if (isChecked) {
    await turn.lay(from, '');
    await turn.lay(to, own?.after ?? text);
  } else work.truncated = true;
  const plan = await work.plan({
    ...(isChecked ? { takeBack: () => turn.lay(to, '') } : { unchecked: new Set(work.changed.keys()) }),
    nowAt: (path) => (path === from ? to : path),
    keyOf: (message) => message.replaceAll(/(['"])[^'"]*\/[^'"]*\1/g, '·'),
  });
  return { ...plan, move: { from, to, ifHash: hash } };
}

/** The edits without those in packages, which name no file of a workspace; the server writes `./` for `.` in them. */
export const withoutPackages = ({ documentChanges = [], changes = {} }: WorkspaceEdit): WorkspaceEdit => ({
  changes: Object.fromEntries(Object.entries(changes).filter(([uri]) => !uri.includes('/node_modules/'))),
  documentChanges: documentChanges.filter((it) => !it.textDocument?.uri.includes('/node_modules/')),
});

/**
 * Names of modules as they were written: with an ending or without, and with a dot before `paths` of a tsconfig.json,
 * which must begin with one. `movedOf` gives the new path of the file that a name means, if that is the moved one.
 */
export const inStyleOf =
  (movedOf: (name: string) => string | undefined) =>
  (old: string, it: RangeEdit, path: string): RangeEdit => {
    const lostItsDot = path.endsWith('.json') && isRelative(old) && !isRelative(it.newText);
    const newText = lostItsDot ? `./${it.newText}` : withEnding(old, it.newText, movedOf(it.newText));
    return { ...it, newText: isSameModule(old, newText) ? old : newText };
  };

const isSameModule = (a: string, b: string): boolean => join('.', a, '.') === join('.', b, '.');

/** Whether a module name ends like the new path does. */
const isIt = (name: string, to: string): boolean => {
  const last = (it: string) =>
    it
      .replace(/\.[^./]+$/, '')
      .split('/')
      .at(-1);
  return last(name) === last(to);
};

/** Files that seem to name this one as a module. */
async function importersOf(path: string, { options: { filesWith } }: Refactoring): Promise<string[]> {
  const parts = path.replace(/\.[^./]+$/, '').split('/');
  const stem = (parts.at(-1) === 'index' ? parts.at(-2) : parts.at(-1)) ?? '';
  return filesWith({ pattern: stem, literal: true, caseSensitive: true });
}
