/** `ringfence pause` and `ringfence resume`: keeps calls of all or of one agent from beginning, ends them, lets them go on. */

import { folderName, showLine } from '../../base/text/shown-text.ts';
import type { Client } from '../../client/client.ts';
import { agentOf } from '../../store/approvals/question-words.ts';
import { idOf } from '../ids.ts';
import { EXIT, type JsonFlag, printJson, say } from '../output.ts';
import type { Status } from '../status.ts';

type Requests = Pick<Client, 'request'>;

/** Keeps calls of an agent, or of all, from beginning; with `stop`, also ends those under way. Returns the exit code. */
export async function pause(
  agent: string | undefined,
  { stop = false, json }: { stop?: boolean; json?: boolean },
  client: Requests,
): Promise<number> {
  const asked = { cancel: stop, ...(await sessionOf(agent, client)) };
  const answer = (await client.request('gateway.pause', asked)) as {
    paused: { at: string; by: string };
    cancelled: number;
  };
  const { paused, cancelled } = answer;
  if (json) printJson(answer);
  if (stop) say(`ended ${cancelled} calls`);
  const whose = agent === undefined ? 'no call begins' : `no call of ${agent} begins`;
  const resumed = `\`ringfence resume${agent === undefined ? '' : ` ${agent}`}\``;
  say(showLine(`paused since ${paused.at} by ${paused.by}: ${whose} until ${resumed}`));
  return EXIT.OK;
}

/** Lets calls of an agent begin again, or those of all agents that are not paused alone. Returns the exit code. */
export async function resume(agent: string | undefined, { json }: JsonFlag, client: Requests): Promise<number> {
  const answer = await client.request('gateway.resume', await sessionOf(agent, client));
  if (json) printJson(answer);
  say(answer.wasPaused ? 'calls begin again' : 'it was not paused');
  const paused = (await sessionsOf(client)).filter((it) => it.paused);
  const names = paused.map((it) => `${agentOf(it)} in ${folderName(it.workspace)} (${it.sessionId})`);
  if (names.length > 0) say(showLine(`still paused: ${names.join(', ')}`));
  return EXIT.OK;
}

const sessionsOf = async (client: Requests): Promise<Status['openSessions']> =>
  ((await client.request('status', {})) as unknown as Status).openSessions.filter(({ role }) => role === 'agent');

/** The session of an agent, by its name if only one has that, or by a part of its id. Throws UsageError. */
async function sessionOf(agent: string | undefined, client: Requests): Promise<{ session?: string }> {
  if (agent === undefined) return {};
  const sessions = await sessionsOf(client);
  const named = sessions.filter((it) => agentOf(it) === agent).map(({ sessionId }) => sessionId);
  const ids = sessions.map(({ sessionId }) => sessionId);
  return { session: named.length === 1 ? (named[0] as string) : idOf(agent, ids) };
}
