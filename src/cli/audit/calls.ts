/** `ringfence audit`: the most recent calls, one line each: when it began, how it ended, whose it was, where, and what it did. */

import { systemPowers } from '../../base/powers.ts';
import { folderName } from '../../base/text/shown-text.ts';
import { agentOf } from '../../store/approvals/question-words.ts';
import type { AuditRecord } from '../../store/audit/entry.ts';
import { shortId } from '../ids.ts';
import { EXIT, print, printJson, say } from '../output.ts';
import { type Column, isTerminal, printTable, since, stateCell, took } from '../screen/table.ts';
import { type AuditClient, type AuditQueryFlags, allEntries, resultOf, toFilter, toTable, whatOf } from './audit.ts';

const TITLES = ['ID', 'AT', 'WHO', 'AGENT', 'WORKSPACE', 'TOOL', 'DECISION', 'RESULT', 'MS', 'WHAT'];
const COLUMNS: readonly Column[] = [
  { head: 'when', align: 'right', style: 'dim' },
  { head: 'state' },
  { head: 'agent', style: 'dim' },
  { head: 'folder', style: 'dim' },
  { head: 'call', grows: true },
  { head: 'took', align: 'right', style: 'dim' },
  { head: 'id', style: 'dim' },
];

/** A call on record: its newest entry, what it began with, and the session that made it. */
interface RecordedCall {
  readonly newest: AuditRecord;
  readonly input: unknown;
  readonly agent: string;
  readonly workspace: string;
}

/**
 * Prints calls, the most recent last. A call with effects has an entry before it starts and one at its end; the newest one is shown.
 * Returns the exit code.
 */
export async function auditCalls(flags: AuditQueryFlags, client: AuditClient): Promise<number> {
  const { limit, filter } = toFilter(flags);
  const newest = new Map<string, AuditRecord>();
  const inputs = new Map<string, unknown>();
  for await (const entry of allEntries({ ...filter, calls: true, order: 'newest' }, client)) {
    const key = `${entry.sessionId}\0${entry.callId}`;
    if (!newest.has(key) && newest.size === limit) break;
    if (!newest.has(key)) newest.set(key, entry);
    if (entry.input !== undefined) inputs.set(key, entry.input);
  }
  const sessions = await sessionsOf([...newest.values()], client);
  const calls = [...newest].reverse().map(([key, entry]): RecordedCall => {
    const { client: name = '', workspace = '' } = sessions.get(entry.sessionId) ?? {};
    const { principal } = entry;
    return { newest: entry, input: inputs.get(key), agent: agentOf({ client: name, principal }), workspace };
  });
  if (flags.json) printJson(calls.map(toCall));
  else if (calls.length === 0) say('no calls match; `ringfence audit query` lists entries of all kinds');
  else if (isTerminal()) printTable(COLUMNS, calls.map(toCells));
  else for (const line of toTable([TITLES, ...calls.map(toRow)])) print(line);
  return EXIT.OK;
}

type SessionFacts = Readonly<Partial<Record<'client' | 'workspace', string>>>;

/** What each session said of itself when it began. */
async function sessionsOf(entries: readonly AuditRecord[], client: AuditClient): Promise<Map<string, SessionFacts>> {
  const known = new Map<string, SessionFacts>();
  for (const session of new Set(entries.map(({ sessionId }) => sessionId))) {
    const asked = { session, kind: 'session', order: 'oldest', limit: 1 };
    const page = await client.request('audit.query', asked);
    known.set(session, (page.entries[0]?.detail ?? {}) as SessionFacts);
  }
  return known;
}

/** When a call began: the entry of one that has ended is from its end. */
const startOf = ({ newest: { at, kind, durationMs = 0 } }: RecordedCall): string =>
  kind === 'outcome' ? new Date(Date.parse(at) - durationMs).toISOString() : at;

/** The whole command, or the first effect. */
function didOf({ newest, input }: RecordedCall): string {
  const { command } = (input ?? {}) as { command?: unknown };
  return typeof command === 'string' ? command : whatOf(newest);
}

function toCall(call: RecordedCall): object {
  const { callId, sessionId, principal, at, tool, rule, code, durationMs, effects } = call.newest;
  const { agent, workspace } = call;
  const facts = { decision: decisionOf(call.newest), rule, code, result: endOf(call.newest), durationMs, effects };
  return {
    callId,
    sessionId,
    principal,
    agent,
    workspace,
    at,
    startedAt: startOf(call),
    tool,
    ...facts,
    what: didOf(call),
  };
}

const toRow = (call: RecordedCall): string[] => {
  const it = call.newest;
  return [
    ...[shortId(it.callId ?? ''), startOf(call), it.principal, call.agent, call.workspace, it.tool ?? ''],
    ...[decisionOf(it) ?? '', endOf(it), it.durationMs?.toFixed(1) ?? '', didOf(call)],
  ];
};

const toCells = (call: RecordedCall) => {
  const it = call.newest;
  const { command } = (call.input ?? {}) as { command?: unknown };
  const did = typeof command === 'string' ? command : `${it.tool} ${it.effects?.[0]?.target ?? ''}`;
  return [
    since(systemPowers().now() - Date.parse(startOf(call))),
    stateCell(it.code ?? endOf(it)),
    call.agent,
    folderName(call.workspace),
    did,
    it.durationMs === undefined ? '' : took(it.durationMs),
    shortId(it.callId ?? ''),
  ];
};

/** The policy's decision; for an approval entry the policy decided to ask. */
const decisionOf = ({ kind, decision }: AuditRecord): AuditRecord['decision'] =>
  kind === 'approval' ? 'ask' : decision;

/**
 * The result in one word: `asked` for a call whose question is open or was just answered, `ok`, the error code, `under way`, or `unknown`
 * for a call whose daemon ended before it did.
 */
const endOf = (it: AuditRecord): string =>
  it.kind === 'approval' ? 'asked' : it.kind === 'intent' && it.outcome === undefined ? 'under way' : resultOf(it);
