/** Undoes one call, or several as one: all of them, or with a conflict nothing. */
import { ToolError } from '../../src/errors.ts';
import type { UndoOutcome } from '../../src/tools/tool.ts';
import type { ReadableEntry, Spool } from './spool.ts';
import { Undo, type UndoParts } from './undo.ts';

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
