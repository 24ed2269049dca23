import type { UndoResult } from '../../base/call.ts';
import { type CliCaller, connectOperator } from '../connect.ts';
import { callIdOf } from '../ids.ts';
import { EXIT, harmless, print, printJson, say, UsageError } from '../output.ts';

export interface UndoFlags {
  readonly last?: boolean;
  readonly force?: boolean;
  readonly json?: boolean;
}

/** `ringfence undo CALL_ID | --last`. Returns the exit code. */
export async function undo(
  id: string | undefined,
  { last = false, force = false, json }: UndoFlags,
  caller: CliCaller,
): Promise<number> {
  if ((id !== undefined) === last)
    throw new UsageError('write either the id of a call or --last; `ringfence audit` lists the calls');
  await using client = await connectOperator(caller);
  const which = id === undefined ? { last: true } : { callId: await callIdOf(id, client) };
  const answer = await client.request('calls.undo', { ...which, force });
  if (json) printJson(answer);
  else printUndo(answer, { force, last });
  const isWhole = answer.error === undefined && (force || answer.conflicts.length === 0);
  return isWhole ? EXIT.OK : EXIT.FAILED;
}

function printUndo(answer: UndoResult, { force, last }: { force: boolean; last: boolean }): void {
  if (last && answer.undone !== undefined) say(harmless(`the last call that changed files here is ${answer.undone}`));
  printUndone(answer, force);
}

/** Prints what an undo restored, or why it did not. */
export function printUndone(answer: UndoResult, force: boolean): void {
  const { callId, restored, removed, conflicts, merged, left = [], restoreCommand, undo: again, error } = answer;
  if (error) {
    say(harmless(`${error.code}: ${error.message}`));
    if (error.suggestion !== undefined) say(harmless(error.suggestion));
    return;
  }
  for (const path of restored) {
    const how = merged.includes(path) ? ' (merged)' : '';
    print(harmless(`${removed.includes(path) ? 'removed' : 'restored'} ${path}${how}`));
  }
  for (const path of conflicts) say(harmless(`changed since the call, or not kept: ${path}`));
  if (conflicts.length > 0 && !force)
    say('nothing was restored; add --force to restore anyway and lose the later changes');
  else if (restored.length === 0) print('nothing to undo: all files are as they were before the call');
  for (const { path, why } of left) say(harmless(`not brought back: ${path} (${why})`));
  if (restoreCommand !== undefined) say(harmless(`to bring it back: ${restoreCommand}`));
  if (again !== 'none') print(`to reverse this undo: ringfence undo ${callId}`);
}
