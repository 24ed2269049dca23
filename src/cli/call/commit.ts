/** Commits and discards previews of commands. */
import type { CommitResult, ToolResult } from '../../base/call.ts';
import type { Client } from '../../client/client.ts';
import { type CliCaller, connect } from '../connect.ts';
import { EXIT, exitCodeOf, harmless, print, printJson, say } from '../output.ts';
import { askPerson, hearOfPrograms, park } from './call.ts';

export interface CommitFlags {
  readonly json?: boolean;
  readonly force?: boolean;
}

/** `ringfence commit PREVIEW_ID [PATH …]`. Returns the exit code. */
export async function commit(
  previewId: string,
  paths: readonly string[],
  { json, force = false }: CommitFlags,
  caller: CliCaller,
): Promise<number> {
  await using client = await connect(caller);
  const answer = await answered(client, { previewId, paths, force }, caller);
  if (json) printJson(answer);
  else printCommit(answer);
  if (answer.error) return exitCodeOf({ success: false, error: answer.error } as ToolResult);
  return answer.conflicts.length === 0 ? EXIT.OK : EXIT.FAILED;
}

/** The answer to the commit; a person at this terminal is asked if the policy asks. */
async function answered(
  client: Client,
  { previewId, paths, force }: { previewId: string; paths: readonly string[]; force: boolean },
  caller: CliCaller,
): Promise<CommitResult> {
  await hearOfPrograms(client);
  const over = new AbortController();
  client.onUpdate((callId, state) => {
    if (state.status !== 'blocked-on-user') return;
    const asking = askPerson(state.approvalId, { caller, over: over.signal });
    asking
      .then((person) => (person === 'nobody' || person === 'left' ? park(client, callId) : undefined))
      .catch(() => {});
  });
  try {
    const which = { previewId, force, ...(paths.length > 0 && { paths }) };
    return await client.request('calls.commit', which);
  } finally {
    over.abort();
  }
}

function printCommit({ callId, committed, removed, merged, conflicts, undo, error }: CommitResult): void {
  if (error) {
    say(harmless(`${error.code}: ${error.message}`));
    if (error.suggestion !== undefined) say(harmless(error.suggestion));
    return;
  }
  const doneTo = (path: string) =>
    removed.includes(path) ? 'removed' : merged.includes(path) ? 'merged' : 'committed';
  for (const path of committed) print(harmless(`${doneTo(path)} ${path}`));
  for (const path of conflicts) say(harmless(`changed since the preview: ${path}`));
  if (conflicts.length > 0) say('nothing was committed; run the command again with --preview, or commit with --force');
  else if (committed.length === 0) print('nothing to commit: the command changed no file');
  if (undo !== 'none') print(`to undo it: ringfence undo ${callId}`);
}

/** `ringfence discard PREVIEW_ID`. Returns the exit code. */
export async function discard(previewId: string, { json }: CommitFlags, caller: CliCaller): Promise<number> {
  await using client = await connect(caller);
  const answer = await client.request('calls.discard', { previewId });
  if (json) printJson(answer);
  else print('discarded');
  return EXIT.OK;
}
