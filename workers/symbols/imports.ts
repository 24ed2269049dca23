/** Changes the imports of one file: in order, without those that nothing uses, with those that are missing. */
import type { RefactorPlan } from '../../src/tools/source/typescript.ts';
import { likeOthers } from './module-specifiers.ts';
import type { Refactoring, WorkspaceEdit } from './refactoring.ts';
import { EditedText, type RangeEdit, withEdits } from './text-edits.ts';
import type { Diagnostic } from './type-problems.ts';
import { pathOf } from './workspace-sources.ts';

interface CodeAction {
  readonly title: string;
  readonly edit?: WorkspaceEdit;
}

const KINDS = {
  organize_imports: 'source.organizeImports',
  remove_unused_imports: 'source.removeUnusedImports',
} as const;

export async function tidyImports(
  operation: keyof typeof KINDS,
  path: string,
  work: Refactoring,
): Promise<RefactorPlan> {
  await work.options.turn.open(path);
  const { text } = work.options.take(path);
  const range = { start: START, end: new EditedText(text).positionOf(text.length) };
  const context = { diagnostics: [], only: [KINDS[operation]] };
  const actions = await work.ask<readonly CodeAction[]>('textDocument/codeAction', path, { range, context });
  for (const { edit } of actions?.slice(0, 1) ?? []) if (edit) work.add(edit);
  await work.layAll();
  return work.plan({ keyOf: (it) => it });
}

const START = { line: 0, character: 0 };
/** Names that may lack an import; each costs two requests. */
const NAMES_MAX = 50;
/** Codes for a name that is not known. */
const UNKNOWN_NAME: ReadonlySet<unknown> = new Set([2304, 2503, 2552, 2686, 18004]);
const IS_IMPORT = /^(Add|Update) import\b|^Import\b/;

export async function addImports(path: string, work: Refactoring): Promise<RefactorPlan> {
  const { turn, take, sources } = work.options;
  await turn.open(path);
  let { text } = take(path);
  const unresolved = new Map<string, readonly string[]>();
  for (let round = 0; round < NAMES_MAX; round++) {
    const now = new EditedText(text);
    const missing = (await work.diagnostics(path)).filter((it) => UNKNOWN_NAME.has(it.code));
    const next = missing.find((it) => !unresolved.has(now.slice(it.range)));
    if (!next) break;
    const actions = await importsFor(next, path, work);
    const [only, other] = actions;
    const edits = only?.edit && !other ? editsIn(only.edit, path, work) : [];
    if (edits.length === 0) {
      unresolved.set(
        now.slice(next.range),
        actions.map((it) => it.title),
      );
      continue;
    }
    const others = [...text.matchAll(/\bfrom\s*['"]([^'"\n]+)['"]/g)].map((it) => it[1] as string);
    const fixed = (name: string) => likeOthers(name, others, path, sources);
    const ended = edits.map((it) => ({
      ...it,
      newText: it.newText.replaceAll(
        /(\bfrom\s*)(['"])([^'"\n]+)\2/g,
        (_, before, quote, name) => `${before}${quote}${fixed(name)}${quote}`,
      ),
    }));
    text = withEdits(text, now.toEdits(ended));
    await turn.lay(path, text);
  }
  work.replaceWhole(path, text);
  const plan = await work.plan({ keyOf: (it) => it });
  return {
    ...plan,
    unresolved: [...unresolved].map(([name, choices]) => ({ name, choices: choices.slice(0, CHOICES_SHOWN) })),
  };
}

const CHOICES_SHOWN = 10;

/** The imports that would give a name. */
async function importsFor(missing: Diagnostic, path: string, work: Refactoring): Promise<CodeAction[]> {
  const context = { diagnostics: [missing], only: ['quickfix'] };
  const given = await work.ask<readonly CodeAction[]>('textDocument/codeAction', path, {
    range: missing.range,
    context,
  });
  return (given ?? []).filter((it) => IS_IMPORT.test(it.title));
}

function editsIn({ changes = {}, documentChanges = [] }: WorkspaceEdit, path: string, work: Refactoring): RangeEdit[] {
  const all = [
    ...Object.entries(changes),
    ...documentChanges.map((it) => [it.textDocument?.uri ?? '', it.edits ?? []] as const),
  ];
  return all.every(([uri]) => pathOf(uri, work.options.sources) === path) ? all.flatMap(([, edits]) => edits) : [];
}
