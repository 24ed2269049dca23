import type { ToolResult } from '../base/call.ts';
import type { Client } from '../client/client.ts';
import { showCall } from './call/command-output.ts';
import { callIdOf } from './ids.ts';
import { exitCodeOf, OperatorError, printJson } from './output.ts';

export interface ResultFlags {
  readonly wait?: boolean;
  readonly json?: boolean;
}

/** `ringfence result CALL_ID`: shows the result of a call as `ringfence call` would. Returns its exit code. */
export async function result(id: string, { wait = false, json = false }: ResultFlags, client: Client): Promise<number> {
  const callId = await callIdOf(id, client);
  const { result: known, state } = await client.record(callId);
  if (!known && !wait)
    throw new OperatorError(`the call has no result yet (${state.status}); add --wait to wait for it`);
  const ended = known ? Promise.resolve(known) : resultOf(callId, client);
  const found = json ? await ended : await showCall({ callId, result: ended }, client);
  if (json) printJson(found);
  return exitCodeOf(found);
}

/** Waits until a call is over. Throws OperatorError if its result is forgotten. */
async function resultOf(callId: string, client: Client): Promise<ToolResult> {
  // The output ends with the call, even if it is empty.
  for await (const _ of client.output(callId));
  const { result: found, state } = await client.record(callId);
  if (!found) throw new OperatorError(`the call has ended (${state.status}), but its result is no longer kept`);
  return found;
}
