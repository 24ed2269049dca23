/** A preview that is kept: what changed in one path, and committing it. */
import * as fs from 'node:fs';
import { join } from 'node:path';
import { ToolError } from '../../src/base/errors.ts';
import { isBelow } from '../../src/base/paths.ts';
import { type PreviewChange, type PreviewList, type PreviewStep, previewList } from '../../src/base/preview.ts';
import { parseJson } from '../../src/base/text/json.ts';
import { PREVIEW_PARTS } from '../../src/sandbox/command/overlay.ts';
import type { CommitOutcome, CommitRequest, KeptChanges } from '../../src/tools/context/kept-changes.ts';
import { unifiedDiff } from '../../src/tools/edit/diff.ts';
import type { CheckedFile } from '../../src/tools/tool.ts';
import { chosenSteps } from './chosen-steps.ts';
import { Commit, type CommitParts } from './commit.ts';
import { UpperTree } from './upper-tree.ts';

export interface KeptPreviewParts extends Omit<CommitParts, 'declaredFor' | 'oldTexts'> {
  /** Runs changes of which all or none stay. */
  wholly<T>(work: () => Promise<T>): Promise<T>;
  /** Opens a file of the workspace, under the rules for its path. */
  open(path: string): CheckedFile;
}

export class KeptPreview implements KeptChanges {
  readonly #folder: string;
  readonly #parts: KeptPreviewParts;

  /** `folder` is the folder of the preview, as this host sees it. */
  constructor(folder: string, parts: KeptPreviewParts) {
    this.#folder = folder;
    this.#parts = parts;
  }

  async commit({ paths, only, merges, force }: CommitRequest): Promise<CommitOutcome> {
    const list = this.#list();
    using upper = this.#openUpper();
    assertSupported(list, only);
    const chosen = only ? chosenSteps(list.steps, only, (it) => upper.typeOf(it) !== undefined) : list.steps;
    const judged = new Set(paths);
    const declaredFor = (path: string): string | undefined =>
      judged.has(path) ? undefined : paths.find((it) => isBelow(it, path));
    if (!chosen.every(({ path }) => judged.has(path) || declaredFor(path) !== undefined))
      throw new ToolError('CONFLICT', 'the list of changes of this preview was changed, so it can not be committed');
    const oldTexts = join(this.#folder, PREVIEW_PARTS.old);
    const commit = new Commit(upper, { ...this.#parts, oldTexts, declaredFor });
    const steps = merges ? await commit.merging(chosen) : chosen;
    const found = await commit.conflicts(steps);
    const meant = found.length > 0 && force ? await commit.forced(steps) : { steps, conflicts: found };
    if (meant.conflicts.length > 0) return { committed: [], removed: [], merged: [], conflicts: meant.conflicts };
    await this.#parts.wholly(() => commit.run(meant.steps));
    return { ...committedBy(steps), merged: commit.merged, conflicts: [] };
  }

  async change(path: string): Promise<PreviewChange> {
    const change = this.#list().changes.find((it) => it.path === path || it.path === `${path}/`);
    if (!change)
      throw new ToolError('NOT_FOUND', `the preview has no change of \`${path}\``, {
        suggestion: 'Name a path that its list of changes holds.',
      });
    const { limits } = this.#parts;
    using upper = this.#openUpper();
    const diff = await diffOf(change, {
      upper,
      before: () => {
        using file = this.#parts.open(path);
        return file.size > limits.fileBytesMax ? undefined : file.bytes();
      },
      limits,
    });
    return { ...change, diff };
  }

  #openUpper(): UpperTree {
    return new UpperTree(join(this.#folder, PREVIEW_PARTS.upper));
  }

  /** Throws NOT_FOUND, CONFLICT. */
  #list(): PreviewList {
    let text: string;
    try {
      text = fs.readFileSync(join(this.#folder, PREVIEW_PARTS.list), 'utf8');
    } catch {
      throw new ToolError('NOT_FOUND', 'the preview is no longer kept'); // ENOENT
    }
    const list = previewList.safeParse(parseJson(text));
    if (list.success) return list.data;
    throw new ToolError('CONFLICT', 'the list of changes of this preview was changed', { cause: list.error });
  }
}

/** Unified diff of a changed text; undefined for anything else. `before` reads the file as it is in the workspace. */
export async function diffOf(
  { path, kind, bytesBefore, bytesAfter }: PreviewChange,
  { upper, before, limits }: { upper: UpperTree; before(): Buffer | undefined; limits: CommitParts['limits'] },
): Promise<string | undefined> {
  if (path.endsWith('/') || kind === 'mode' || kind === 'link' || kind === 'type') return undefined;
  if (Math.max(bytesBefore ?? 0, bytesAfter ?? 0) > limits.fileBytesMax) return undefined;
  const after = kind === 'delete' ? Buffer.alloc(0) : upper.read(path, limits.fileBytesMax);
  const old = kind === 'add' ? undefined : before();
  if (!after || (kind !== 'add' && !old)) return undefined;
  return unifiedDiff(path, { before: old, after }, limits);
}

function assertSupported({ unsupported }: PreviewList, only: readonly string[] | undefined): void {
  const [first] = unsupported;
  if (only || !first) return;
  const more = unsupported.length > 1 ? `, and ${unsupported.length - 1} more` : '';
  throw new ToolError(
    'UNSUPPORTED',
    `the preview can't be committed whole: \`${first.path}\`: ${first.reason}${more}`,
    {
      suggestion: 'Name the paths to commit.',
      details: { unsupported: unsupported.slice(0, 20) },
    },
  );
}

function committedBy(steps: readonly PreviewStep[]): Pick<CommitOutcome, 'committed' | 'removed'> {
  const filled = new Set(steps.filter(({ kind }) => kind !== 'delete').map(({ path }) => path));
  const removed = steps.filter(({ kind, path }) => kind === 'delete' && !filled.has(path)).map(({ path }) => path);
  return { committed: [...new Set(steps.map(({ path }) => path))], removed };
}
