/**
 * The method `session.quarantine`: what commands left at protected names of a workspace, and what becomes of it; and which
 * ordinary files that programs of the person run, or agents obey, were changed.
 */
import type * as z from 'zod';
import { ToolError } from '../../base/errors.ts';
import { runByOf, usedBy } from '../../base/protected-names.ts';
import type { Quarantine } from '../../hosts/quarantine/quarantine.ts';
import type { LeftNames } from '../../pipeline/execute/left-names.ts';
import type { JournalledCall } from '../../store/undo/journalled-call.ts';
import type { UndoJournal } from '../../store/undo/undo-journal.ts';
import type { Params } from '../../wire/protocol/messages.ts';
import type { quarantineAnswer } from '../../wire/protocol/quarantine-shapes.ts';
import type { Session } from '../session.ts';

export interface QuarantineParts {
  readonly quarantine: Quarantine;
  readonly pipeline: { readonly leftNames: LeftNames };
  readonly undoJournal: Pick<UndoJournal, 'all'>;
}

export const quarantineMethods = (parts: QuarantineParts) => ({
  'session.quarantine': ({ session }: { session: Session }, params: Params<'session.quarantine'>) =>
    decide(session, params, parts),
});

async function decide(
  { options: { workspace } }: Session,
  { keep = [], drop = [] }: Params<'session.quarantine'>,
  { quarantine, pipeline, undoJournal }: QuarantineParts,
): Promise<z.output<typeof quarantineAnswer>> {
  const done: string[] = [];
  const errors: z.output<typeof quarantineAnswer>['errors'] = [];
  for (const [how, paths] of [
    ['keep', keep],
    ['drop', drop],
  ] as const) {
    const items = quarantine.list(workspace);
    for (const path of paths) {
      const own = items.filter((it) => it.path === path).map((item) => ({ item }));
      const ended = await pipeline.leftNames.decide(how, own);
      done.push(...ended.done);
      const unknown = own.length === 0 ? [{ path, error: notThere(path) }] : [];
      for (const { path: at, error } of [...ended.errors, ...unknown])
        errors.push({ path: at, code: error.code, message: error.message });
    }
  }
  const items = quarantine.list(workspace).map(({ path, at, owner }) => {
    return { path, at, callId: owner.callId, runBy: runByOf(path) };
  });
  return { items, changed: changedIn(undoJournal.all(workspace)), done, errors };
}

/** Changed files that are listed; an agent can change any number. */
const CHANGED_MAX = 1_000;

/** The last call that changed each file that programs of the person run or agents obey. */
function changedIn(calls: readonly JournalledCall[]): z.output<typeof quarantineAnswer>['changed'] {
  const found = new Map<string, z.output<typeof quarantineAnswer>['changed'][number]>();
  for (const { paths, callId } of calls)
    for (const path of paths) {
      const used = found.size < CHANGED_MAX && !found.has(path) ? usedBy(path) : undefined;
      if (used) found.set(path, { path, callId, ...used });
    }
  return [...found.values()].sort((a, b) => (a.path < b.path ? -1 : 1));
}

const notThere = (path: string): ToolError =>
  new ToolError('NOT_FOUND', `nothing at \`${path}\` was moved out of this workspace`, {
    suggestion: '`ringfence changes` lists what was.',
  });
