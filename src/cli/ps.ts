/** `ringfence ps` and `ringfence cancel`: running calls of all sessions. */
import type { CallState, Effect } from '../call.ts';
import type { Client } from '../client.ts';
import { systemPowers } from '../powers.ts';
import { showLine } from '../text/shown-text.ts';
import { callIdOf, shortId } from './ids.ts';
import { EXIT, harmless, print, printJson, say } from './output.ts';

interface ListedCall {
  readonly callId: string;
  readonly tool: string;
  readonly createdAt: string;
  readonly state: CallState;
  readonly workspace: string;
  readonly client: string;
  readonly effects: readonly Effect[];
}

/** Lists running calls, oldest first. Returns the exit code. */
export async function ps({ json }: { json?: boolean }, client: Pick<Client, 'request'>): Promise<number> {
  const { calls } = (await client.request('calls.list', { everywhere: true })) as { calls: ListedCall[] };
  if (json) printJson(calls);
  else if (calls.length === 0) say('no calls are running');
  else for (const it of calls) print(showLine(lineOf(it, systemPowers().now())));
  return EXIT.OK;
}

function lineOf({ callId, tool, createdAt, state, workspace, client, effects }: ListedCall, nowMs: number): string {
  const seconds = Math.max(0, Math.round((nowMs - Date.parse(createdAt)) / 1000));
  const what = effects.map(({ target }) => target).join(', ');
  const state16 = state.status.padEnd(15);
  return `${shortId(callId)}  ${state16}  ${`${seconds} s`.padStart(6)}  ${tool.padEnd(18)} ${what}   (${client}, ${workspace})`;
}

/** Cancels a call. Returns the exit code: 1 if it is not running. */
export async function cancel(
  id: string,
  { session, json }: { session?: string; json?: boolean },
  client: Pick<Client, 'request'>,
): Promise<number> {
  const callId = await callIdOf(id, client);
  const params = { callId, ...(session !== undefined && { session }) };
  const { cancelled } = (await client.request('calls.cancel', params)) as { cancelled: boolean };
  if (json) printJson({ callId, cancelled });
  else
    say(
      harmless(
        cancelled ? `cancelled ${callId}` : `no call ${callId} is running; list the running calls with: ringfence ps`,
      ),
    );
  return cancelled ? EXIT.OK : EXIT.FAILED;
}
