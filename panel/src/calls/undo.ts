/** Undo of a call, for all views that offer it. */
import { request, requestIn } from '../connection.ts';
import type { Answer } from '../messages.ts';

/** A call as addresses name it, and where it worked. */
export interface Undoable {
  readonly callId: string;
  readonly session: string | undefined;
  readonly workspace: string | undefined;
}

/** Asks the daemon to undo a call in its own workspace; with `force`, also what was changed since. */
export function undo({ callId, session, workspace }: Undoable, force: boolean): Promise<Answer<'calls.undo'>> {
  const params = { callId, session, force };
  return workspace ? requestIn(workspace, 'calls.undo', params) : request('calls.undo', params);
}
