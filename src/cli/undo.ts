import { type Caller, connect } from './connect.ts';
import { EXIT, harmless, print, printJson, say } from './output.ts';

export interface UndoFlags {
  readonly force?: boolean;
  readonly json?: boolean;
}

interface UndoAnswer {
  readonly callId?: string;
  readonly restored: readonly string[];
  readonly conflicts: readonly string[];
  readonly merged: readonly string[];
  readonly undo: string;
  readonly error?: { readonly code: string; readonly message: string; readonly suggestion?: string };
}

/** `ringfence undo CALL_ID`. Gives the exit code. */
export async function undo(callId: string, { force = false, json }: UndoFlags, caller: Caller): Promise<number> {
  const flags = { ...caller.flags, workspace: caller.flags.workspace ?? caller.cwd };
  await using client = await connect({ ...caller, flags, role: 'operator' });
  const answer = (await client.request('calls.undo', { callId, force })) as UndoAnswer;
  if (json) printJson(answer);
  else tell(answer, force);
  const isWhole = answer.error === undefined && (force || answer.conflicts.length === 0);
  return isWhole ? EXIT.OK : EXIT.FAILED;
}

function tell({ callId, restored, conflicts, merged, undo: again, error }: UndoAnswer, force: boolean): void {
  if (error) {
    say(harmless(`${error.code}: ${error.message}`));
    if (error.suggestion !== undefined) say(harmless(error.suggestion));
    return;
  }
  for (const path of restored) print(harmless(`restored ${path}${merged.includes(path) ? ' (merged)' : ''}`));
  for (const path of conflicts) say(harmless(`changed since, or not kept: ${path}`));
  if (conflicts.length > 0 && !force)
    say('nothing was restored; --force restores it, and loses what was changed since');
  else if (restored.length === 0) print('everything is as it was before the call already');
  if (again !== 'none') print(`ringfence undo ${callId} takes this back`);
}
