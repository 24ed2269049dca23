/** `ringfence fleet kill`, `pause`, `resume`, `drain` and `undrain`: orders to nodes. */

import { FleetError } from '../../fleet/fleet-error.ts';
import type { FoundCall } from '../../fleet/node-orders.ts';
import type { Order } from '../../fleet/orders.ts';
import type { CliCaller } from '../connect.ts';
import { EXIT, harmless, print, printJson, say, UsageError } from '../output.ts';
import { Nodes } from './nodes.ts';
import { type FleetFlags, folderOf } from './operator.ts';
import type { Told } from './panel/messages.ts';

/** Sends an order to the named nodes, or to all; exit code 1 if one did not obey. */
export async function fleetOrder(
  order: Order,
  named: readonly string[],
  { all = false, ...flags }: FleetFlags & { all?: boolean },
  caller: CliCaller,
): Promise<number> {
  if (all === named.length > 0) throw new UsageError('name the nodes, or say --all');
  await using nodes = await Nodes.connect(folderOf(flags, caller));
  const told = await Promise.all((all ? nodes.names : named).map((it) => obeyed(nodes, it, order)));
  if (flags.json) printJson(told);
  else for (const { node, done, problem } of told) say(harmless(problem ?? `${node}: ${done}`));
  return told.every((it) => it.problem === undefined) ? EXIT.OK : EXIT.FAILED;
}

/** Tells what a node knows of a call, for one whose answer was lost; exit code 1 if it knows none. */
export async function fleetCall(
  node: string,
  callId: string,
  { result = false, ...flags }: FleetFlags & { result?: boolean },
  caller: CliCaller,
): Promise<number> {
  await using nodes = await Nodes.connect(folderOf(flags, caller));
  const answer = await nodes.order(node, { kind: 'call', callId, result });
  const { calls, leftOutBytes } = 'found' in answer ? answer.found : { calls: [] };
  if (flags.json) printJson(calls);
  else if (calls.length === 0) say(harmless(`${node} has started no call ${callId}`));
  else for (const it of calls) print(harmless(lineOf(it)));
  if (leftOutBytes !== undefined)
    say(`the result is left out: ${leftOutBytes} bytes are more than an answer may have; ask for it at ${node}`);
  return calls.length > 0 ? EXIT.OK : EXIT.FAILED;
}

function lineOf({ callId, tool = '', state, result }: FoundCall): string {
  const shown = result && JSON.stringify(result.success ? result.data : result.error);
  return `${callId}  ${tool}  ${state?.status ?? 'unknown'}${shown === undefined ? '' : `  ${shown}`}`;
}

/** What a node answers to an order; the problem if it does not obey. */
export async function obeyed(nodes: Nodes, node: string, order: Order): Promise<Told> {
  try {
    const answer = await nodes.order(node, order);
    return { node, ...('done' in answer && { done: answer.done }) };
  } catch (error) {
    if (error instanceof FleetError) return { node, problem: error.message };
    throw error;
  }
}
