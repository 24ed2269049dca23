/** What all refactorings share: texts before and after, and whether the files would have errors that they do not have now. */
import { ToolError } from '../../src/base/errors.ts';
import type { Limits } from '../../src/base/limits.ts';
import type { RefactorPlan, TextEdit } from '../../src/tools/source/typescript.ts';
import type { ContentQuery } from '../../src/tools/tool.ts';
import { servedLanguage } from './source-languages.ts';
import { EditedText, type RangeEdit, withEdits } from './text-edits.ts';
import { type Diagnostic, type FileDiagnostic, TypeProblems } from './type-problems.ts';
import type { ServerTurn } from './typescript-server.ts';
import { pathOf, uriOf, type WorkspaceSources } from './workspace-sources.ts';

export interface RefactoringOptions {
  readonly turn: ServerTurn;
  readonly sources: WorkspaceSources;
  readonly limits: Limits;
  readonly signal: AbortSignal;
  /** Gives the content of a file that may be written: its text without a byte order mark, and its hash. Throws what refuses it. */
  take(path: string): { text: string; hash: string };
  /** The sources that match a query, sorted. */
  filesWith(query: ContentQuery): Promise<string[]>;
  isRefused(path: string): boolean;
}

/** The edits of a workspace as the server gives them: in either form of the protocol. */
export interface WorkspaceEdit {
  readonly changes?: Readonly<Record<string, readonly RangeEdit[]>>;
  readonly documentChanges?: readonly {
    readonly textDocument?: { readonly uri: string };
    readonly edits?: readonly RangeEdit[];
  }[];
}

interface ChangedText {
  readonly before: EditedText;
  readonly hash: string;
  readonly edits: readonly TextEdit[];
  readonly after: string;
}

export class Refactoring {
  readonly options: RefactoringOptions;
  /** Changed files by path. */
  readonly changed = new Map<string, ChangedText>();
  truncated = false;

  constructor(options: RefactoringOptions) {
    this.options = options;
  }

  /** Requests something about a file. */
  ask<T>(method: string, path: string, params: object = {}): Promise<T | null> {
    const { turn, sources } = this.options;
    return turn.ask<T>(method, { textDocument: { uri: uriOf(path, sources) }, ...params });
  }

  /** Notes edits, by file. Throws UNSUPPORTED if one is in a file that may not be changed, FILE_LIMIT. */
  add(
    { changes = {}, documentChanges = [] }: WorkspaceEdit,
    fixed = (_: string, it: RangeEdit, _path: string) => it,
  ): void {
    const { sources, limits } = this.options;
    const all = [
      ...Object.entries(changes),
      ...documentChanges.map((it) => [it.textDocument?.uri ?? '', it.edits ?? []] as const),
    ];
    for (const [uri, edits] of all) {
      const path = pathOf(uri, sources);
      if (path === undefined) throw elsewhere(uri, sources);
      this.addTo(path, (text) =>
        edits.map((it) => fixed(text.slice(it.range), it, path)).filter((it) => text.slice(it.range) !== it.newText),
      );
    }
    if (this.changed.size <= limits.refactorFilesMax) return;
    throw new ToolError(
      'FILE_LIMIT',
      `${this.changed.size} files would change; at most ${limits.refactorFilesMax} may`,
      {
        details: { limit: limits.refactorFilesMax, used: this.changed.size, enforcedBy: 'tool' },
      },
    );
  }

  addTo(path: string, make: (text: EditedText) => readonly RangeEdit[]): void {
    const { text, hash } = this.options.take(path);
    const before = new EditedText(text);
    const edits = before.toEdits(make(before));
    this.changed.set(path, { before, hash, edits, after: withEdits(text, edits) });
  }

  /** Replaces each noted edit by another one of the same file. */
  mapEdits(change: (text: string, edit: TextEdit) => TextEdit): void {
    for (const [path, it] of this.changed) {
      const { text } = it.before;
      const edits = it.edits.map((edit) => change(text, edit));
      this.changed.set(path, { ...it, edits, after: withEdits(text, edits) });
    }
  }

  /** Replaces what was noted for a file by one edit. */
  replaceWhole(path: string, after: string): void {
    const { text, hash } = this.options.take(path);
    const edits = [{ start: 0, end: text.length, text: after }];
    if (text === after) this.changed.delete(path);
    else this.changed.set(path, { before: new EditedText(text), hash, edits, after });
  }

  /** Counts a file as changed although its text is not. */
  keep(path: string): void {
    if (!this.changed.has(path)) this.addTo(path, () => []);
  }

  /** Lays the new texts over the files. */
  async layAll(): Promise<void> {
    for (const [path, { after }] of this.changed) await this.options.turn.lay(path, after);
  }

  /** The plan, if the changed files and `others` have no errors that they do not have now. */
  async plan(checks: Checks): Promise<RefactorPlan> {
    const { newErrors, checkedFiles } = await this.#newErrors(checks);
    const files = [...this.changed]
      .filter(([, it]) => it.edits.length > 0)
      .map(([path, { hash, edits }]) => ({ path, ifHash: hash, edits }))
      .toSorted((a, b) => (a.path < b.path ? -1 : 1)); // The language server answers in any order.
    return { files, newErrors, checkedFiles, truncated: this.truncated, unresolved: [] };
  }

  async diagnostics(path: string): Promise<Diagnostic[]> {
    return (await this.ask<{ items?: Diagnostic[] }>('textDocument/diagnostic', path))?.items ?? [];
  }

  async #newErrors({ others = [], nowAt = (it) => it, keyOf, unchecked, takeBack }: Checks) {
    const { limits, sources, turn } = this.options;
    const paths = [...new Set([...this.changed.keys(), ...others])].filter(
      (it) => servedLanguage(it) && !unchecked?.has(it),
    );
    if (paths.length > limits.refactorCheckedMax) this.truncated = true;
    const checked = paths.slice(0, limits.refactorCheckedMax);
    const after: FileDiagnostic[] = [];
    for (const path of checked) after.push(...(await this.#errorsIn(nowAt(path), path)));
    // Most refactorings end here: what has no errors has no new ones.
    if (after.length === 0) return { newErrors: [], checkedFiles: checked.length };
    for (const [path, { before }] of this.changed) await turn.lay(path, before.text);
    await takeBack?.();
    const before: FileDiagnostic[] = [];
    for (const path of new Set(after.map((it) => it.path))) before.push(...(await this.#errorsIn(path, path)));
    const known = new Map<string, number>();
    const keyIn = (it: FileDiagnostic) => `${it.path} ${it.code} ${keyOf(it.message)}`;
    for (const it of before) known.set(keyIn(it), (known.get(keyIn(it)) ?? 0) + 1);
    const fresh = after.filter((it) => {
      const left = known.get(keyIn(it)) ?? 0;
      known.set(keyIn(it), left - 1);
      return left <= 0;
    });
    const problems = new TypeProblems({ workspace: sources.workspace, isRefused: this.options.isRefused });
    const newErrors = fresh.slice(0, NEW_ERRORS_SHOWN).map((it) => problems.toProblem(it));
    return { newErrors, checkedFiles: checked.length };
  }

  async #errorsIn(path: string, named: string): Promise<FileDiagnostic[]> {
    const all = await this.diagnostics(path);
    return all.filter((it) => (it.severity ?? 1) === 1).map((it) => ({ ...it, path: named }));
  }
}

export interface Checks {
  /** Unchanged files that may get errors. */
  readonly others?: readonly string[];
  /** Files that can't be checked before they are where they will be. */
  readonly unchecked?: ReadonlySet<string>;
  /** Takes back what else the server was given. */
  takeBack?(): Promise<void>;
  /** The path at which the server has the new text of a file. */
  nowAt?(path: string): string;
  /** A message without what the refactoring itself changes in it. */
  keyOf(message: string): string;
}

const NEW_ERRORS_SHOWN = 50;

function elsewhere(uri: string, { workspace }: WorkspaceSources): ToolError {
  const path = decodeURI(uri)
    .replace(/^file:\/\//, '')
    .replace(`${workspace}/`, '');
  return new ToolError(
    'UNSUPPORTED',
    `this would change \`${path}\`, which is ignored, hidden or outside of the workspace`,
    {
      suggestion: 'Change the declaration there first, or choose another name.',
    },
  );
}
