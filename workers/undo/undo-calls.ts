/** Undoes one call, or several as one: all of them, or with a conflict nothing; rolls back calls that were cut off. */
import { ToolError } from '../../src/base/errors.ts';
import type { Limits } from '../../src/base/limits.ts';
import type { UndoOutcome } from '../../src/tools/tool.ts';
import type { Anchor } from '../context/anchor.ts';
import { HeldPaths } from '../context/held-paths.ts';
import type { PathRules } from '../context/path-rules.ts';
import type { Changes } from './changes.ts';
import type { ReadableEntry, Spool } from './spool.ts';
import { TreeChanges } from './tree-changes.ts';
import { removePassing, Undo, type UndoParts } from './undo.ts';

export interface UndoPartsOptions {
  readonly anchor: Anchor;
  readonly rules: PathRules;
  readonly changes: Changes;
  readonly limits: Limits;
  readonly readOnly?: boolean | undefined;
  /** Paths at which protected names may be changed. */
  readonly lifted?: readonly string[] | undefined;
  breathe(): Promise<void>;
}

/** The parts of an undo or a commit, which unlike other calls may write the state of repositories. */
export function undoParts(options: UndoPartsOptions): UndoParts {
  const { changes, limits, readOnly = false, breathe } = options;
  const paths = new HeldPaths({ ...options, readOnly, writesGit: true });
  return { paths, changes, trees: new TreeChanges({ paths, changes, limits, breathe }), limits, breathe };
}

/** Rolls back a call that was cut off: paths in conflict are left, the rest is as before. */
export async function rollBackCall(spool: Spool, parts: UndoParts): Promise<void> {
  const entries = spool.entries();
  await removePassing(entries, parts);
  await new Undo(parts, { force: false, skipsConflicts: true }).run(entries);
  spool.remove();
}

/** The entries of a call's journal. Throws CONFLICT if it holds other paths than those that were asked about. */
export function entriesOf(spool: Spool, paths: readonly string[]): ReadableEntry[] {
  const entries = spool.entries().filter(({ entry: it }) => it.kind !== 'prepare');
  const named = new Set(paths);
  if (entries.length === 0 || !entries.every(({ entry: it }) => named.has(it.path) && named.has(it.from ?? it.path)))
    throw new ToolError('CONFLICT', 'the undo journal of this call was changed, so the call can not be undone');
  return entries;
}

/**
 * Undoes calls in this order. Ends at the first conflict unless forced; the caller then takes back what was done, and the
 * outcome names nothing but the conflicts.
 */
export async function undoAll(
  calls: readonly (readonly ReadableEntry[])[],
  parts: UndoParts,
  force: boolean,
): Promise<UndoOutcome> {
  const all = { restored: new Set<string>(), removed: new Set<string>(), conflicts: new Set<string>() };
  const merged = new Set<string>();
  for (const entries of calls) {
    const outcome = await new Undo(parts, { force }).run(entries);
    if (outcome.conflicts.length > 0 && !force)
      return { restored: [], removed: [], conflicts: outcome.conflicts, merged: [] };
    for (const it of outcome.restored) {
      all.restored.add(it);
      // An older call may bring back what a newer one had made.
      all.removed.delete(it);
    }
    for (const it of outcome.removed) all.removed.add(it);
    for (const it of outcome.conflicts) all.conflicts.add(it);
    for (const it of outcome.merged) merged.add(it);
  }
  const { restored, removed, conflicts } = all;
  return { restored: [...restored], removed: [...removed], conflicts: [...conflicts], merged: [...merged] };
}
