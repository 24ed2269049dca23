/** `ringfence ps` and `ringfence cancel`: running calls of all sessions, and their commands in the background. */
import type * as z from 'zod';
import { systemPowers } from '../base/powers.ts';
import { folderName, showLine } from '../base/text/shown-text.ts';
import type { Client } from '../client/client.ts';
import { agentOf } from '../store/approvals/question-words.ts';
import type { Answer } from '../wire/protocol/answers.ts';
import type { runningCall } from '../wire/protocol/shapes.ts';
import { callIdOf, shortId } from './ids.ts';
import { EXIT, harmless, type JsonFlag, print, printJson, say } from './output.ts';
import { type Cell, type Column, isTerminal, printTable, since, stateCell } from './screen/table.ts';

type ListedCall = z.output<typeof runningCall>;
type ListedBackground = Answer<'background.list'>['commands'][number];

/** Lists running calls, then what they left running in the background, each oldest first. Returns the exit code. */
export async function ps({ json }: JsonFlag, client: Pick<Client, 'request'>): Promise<number> {
  const { calls } = (await client.request('calls.list', { everywhere: true })) as { calls: ListedCall[] };
  const { commands } = await client.request('background.list', {});
  const running = commands.filter(({ exited }) => !exited);
  const nowMs = systemPowers().now();
  if (json) printJson([...calls, ...running]);
  else if (calls.length + running.length === 0) say('no calls are running');
  else if (isTerminal())
    printTable(COLUMNS, [
      ...calls.map((it) =>
        toCells(it, { word: WORDS[it.state.status] ?? it.state.status, since: it.createdAt, did: didOf(it) }, nowMs),
      ),
      ...running.map((it) =>
        toCells(it, { word: it.detached ? 'detached' : 'background', since: it.startedAt, did: it.command }, nowMs),
      ),
    ]);
  else
    for (const line of [...calls.map((it) => lineOf(it, nowMs)), ...running.map((it) => backgroundLine(it, nowMs))])
      print(showLine(line));
  return EXIT.OK;
}

const COLUMNS: readonly Column[] = [
  { head: 'state' },
  { head: 'since', align: 'right', style: 'dim' },
  { head: 'agent', style: 'dim' },
  { head: 'folder', style: 'dim' },
  { head: 'call', grows: true },
  { head: 'id', style: 'dim' },
];
const WORDS: Readonly<Record<string, string>> = { 'in-progress': 'running', 'blocked-on-user': 'waits for you' };

/** What a call does: its command line, which its effects name in parts, or its tool and first target. */
const didOf = ({ tool, effects }: ListedCall): string => {
  const programs = effects.filter(({ kind }) => kind === 'exec').map(({ target }) => target);
  return programs.length > 0 ? programs.join('; ') : `${tool} ${effects[0]?.target ?? ''}`;
};

const toCells = (
  { callId, client, workspace }: Pick<ListedCall, 'callId' | 'client' | 'workspace'>,
  { word, since: from, did }: { word: string; since: string; did: string },
  nowMs: number,
): Cell[] => [
  stateCell(word),
  since(nowMs - Date.parse(from)),
  agentOf({ client, principal: '' }),
  folderName(workspace),
  did,
  shortId(callId),
];

function lineOf(call: ListedCall, nowMs: number): string {
  const { tool, createdAt, state, effects } = call;
  const what = effects.map(({ target }) => target).join(', ');
  return toLine(call, { status: state.status, since: createdAt, what: `${tool.padEnd(18)} ${what}` }, nowMs);
}

function backgroundLine(it: ListedBackground, nowMs: number): string {
  const ports = it.ports.length > 0 ? `   ports ${it.ports.join(', ')}` : '';
  const status = it.detached ? 'detached' : 'background';
  return toLine(it, { status, since: it.startedAt, what: `${it.command}${ports}` }, nowMs);
}

function toLine(
  { callId, client, workspace }: Pick<ListedCall, 'callId' | 'client' | 'workspace'>,
  { status, since, what }: { status: string; since: string; what: string },
  nowMs: number,
): string {
  const seconds = Math.max(0, Math.round((nowMs - Date.parse(since)) / 1000));
  return `${shortId(callId)}  ${status.padEnd(15)}  ${`${seconds} s`.padStart(6)}  ${what}   (${client}, ${workspace})`;
}

/** Cancels a call. Returns the exit code: 1 if it is not running. */
export async function cancel(
  id: string,
  { session, json }: { session?: string; json?: boolean },
  client: Pick<Client, 'request'>,
): Promise<number> {
  const callId = await callIdOf(id, client);
  const params = { callId, session };
  const { cancelled } = await client.request('calls.cancel', params);
  if (json) printJson({ callId, cancelled });
  else
    say(
      harmless(
        cancelled ? `cancelled ${callId}` : `no call ${callId} is running; list the running calls with: ringfence ps`,
      ),
    );
  return cancelled ? EXIT.OK : EXIT.FAILED;
}
