/** `ringfence fleet status` and `fleet nodes`: how the nodes and their records are. */

import type { HubStatus } from '../../fleet/hub.ts';
import { Unanswered } from '../../fleet/link.ts';
import { subjects } from '../../fleet/subjects.ts';
import { fromWire, toWire } from '../../fleet/wire.ts';
import type { CliCaller } from '../connect.ts';
import { EXIT, harmless, print, printJson } from '../output.ts';
import { type KnownNode, Nodes } from './nodes.ts';
import { type FleetFlags, folderOf } from './operator.ts';

export async function fleetNodes(flags: FleetFlags, caller: CliCaller): Promise<number> {
  await using nodes = await Nodes.connect(folderOf(flags, caller));
  const all = await nodes.look();
  if (flags.json) printJson(all.map(toJsonNode));
  else if (all.length === 0) print('no machine has joined; ringfence fleet invite NAME');
  else for (const it of all) print(harmless(lineOf(it)));
  return EXIT.OK;
}

const toJsonNode = ({ beat, ...node }: KnownNode) => ({ ...node, here: beat !== undefined, ...beat });

function lineOf({ name, labels, beat, hasPolicy }: KnownNode): string {
  const tags = labels.length > 0 ? `  [${labels.join(' ')}]` : '';
  if (!beat) return `${name}  not heard${tags}`;
  const { sessions, running, queued, questions, load, freeMemory, paused, draining, obstacle } = beat;
  const notes = [
    ...(paused ? ['paused'] : []),
    ...(draining ? ['draining'] : []),
    ...(hasPolicy ? [] : ['another policy']),
    ...(obstacle === undefined ? [] : [`takes no sessions: ${obstacle}`]),
  ];
  const work = `${sessions} sessions, ${running} calls, ${queued} queued, ${questions} questions`;
  const machine = `load ${load.toFixed(2)}, ${Math.round(freeMemory / 2 ** 20)} MiB free`;
  return `${name}  ${notes.join(', ') || 'ready'}  ${work}, ${machine}${tags}`;
}

const HUB_MS = 3_000;

/** Tells how the fleet is; exit code 1 if a node is away, or a record is late or can't be trusted. */
export async function fleetStatus(flags: FleetFlags, caller: CliCaller): Promise<number> {
  await using nodes = await Nodes.connect(folderOf(flags, caller));
  const [all, hub] = await Promise.all([nodes.look(), askHub(nodes)]);
  const records = all.map(({ name }) => ({ node: name, ...recordOf(name, hub) }));
  const away = all.filter((it) => !it.beat).map((it) => it.name);
  const isWell = away.length === 0 && records.every((it) => it.problem === undefined);
  const questions = all.reduce((sum, it) => sum + (it.beat?.questions ?? 0), 0);
  if (flags.json) printJson({ ok: isWell, hub: hub !== undefined, questions, nodes: all.map(toJsonNode), records });
  else {
    print(`${all.length - away.length} of ${all.length} nodes are here; ${questions} questions wait`);
    for (const it of away) print(harmless(`${it} was not heard`));
    for (const it of records) print(harmless(`record of ${it.node}: ${it.problem ?? `whole, ${it.entries} entries`}`));
  }
  return isWell ? EXIT.OK : EXIT.FAILED;
}

async function askHub({ link }: Nodes): Promise<HubStatus | undefined> {
  try {
    return fromWire(await link.request(subjects.hubStatus, toWire({}), HUB_MS)) as HubStatus;
  } catch (error) {
    if (error instanceof Unanswered) return undefined;
    throw error;
  }
}

/** The state of a node's record: its entries at the hub, and what is wrong with it. */
function recordOf(node: string, hub: HubStatus | undefined): { entries: number; problem?: string } {
  const log = hub?.logs.find((it) => it.node === node);
  const entries = log?.end.seq ?? 0;
  if (!hub) return { entries, problem: 'the hub does not answer' };
  if (!log) return { entries, problem: 'nothing has come of it' };
  if (log.broken !== undefined) return { entries, problem: `broken: ${log.broken}` };
  if (log.isLate) return { entries, problem: `late: last heard at ${new Date(log.heardMs).toISOString()}` };
  if (log.gaps.length > 0)
    return { entries, problem: `entries ${log.gaps.map((it) => it.join(' to ')).join(', ')} are missing` };
  return { entries };
}
