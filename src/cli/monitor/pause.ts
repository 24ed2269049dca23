/** `ringfence pause` and `ringfence resume`: keeps calls from beginning, ends those that run, lets them go on. */

import { showLine } from '../../base/text/shown-text.ts';
import type { Client } from '../../client/client.ts';
import { EXIT, printJson, say } from '../output.ts';

/** Keeps calls from beginning; with `stop`, also ends those under way. Returns the exit code. */
export async function pause(
  { stop = false, json }: { stop?: boolean; json?: boolean },
  client: Pick<Client, 'request'>,
): Promise<number> {
  const answer = (await client.request('gateway.pause', { cancel: stop })) as {
    paused: { at: string; by: string };
    cancelled: number;
  };
  const { paused, cancelled } = answer;
  if (json) printJson(answer);
  if (stop) say(`ended ${cancelled} calls`);
  say(showLine(`paused since ${paused.at} by ${paused.by}: no call begins until \`ringfence resume\``));
  return EXIT.OK;
}

/** Lets calls begin again. Returns the exit code. */
export async function resume({ json }: { json?: boolean }, client: Pick<Client, 'request'>): Promise<number> {
  const answer = await client.request('gateway.resume', {});
  if (json) printJson(answer);
  say(answer.wasPaused ? 'calls begin again' : 'it was not paused');
  return EXIT.OK;
}
