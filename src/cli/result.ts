import type { Client } from '../client.ts';
import { CliError, EXIT, exitCodeOf, printJson, printResult } from './output.ts';

export interface ResultFlags {
  readonly wait?: boolean;
  readonly json?: boolean;
}

/** `ringfence result CALL_ID`: what came of a call, as `ringfence call` would have told it. Gives its exit code. */
export async function result(
  callId: string,
  { wait = false, json = false }: ResultFlags,
  client: Client,
): Promise<number> {
  let record = await client.record(callId);
  if (!record.result && wait) {
    // Its output ends with it, also where it has none.
    for await (const _ of client.output(callId));
    record = await client.record(callId);
  }
  const { result: found, state } = record;
  if (!found) throw new CliError(EXIT.FAILED, `the call has no result yet (${state.status}); --wait waits for it`);
  if (json) printJson(found);
  else printResult(found);
  return exitCodeOf(found);
}
