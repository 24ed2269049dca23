/** `ringfence audit`: the most recent calls, one line each, with decision, result and duration. */
import type { AuditRecord } from '../../store/audit/entry.ts';
import { shortId } from '../ids.ts';
import { EXIT, print, printJson, say } from '../output.ts';
import { type AuditClient, type AuditQueryFlags, allEntries, resultOf, toFilter, toTable, whatOf } from './audit.ts';

const TITLES = ['ID', 'AT', 'WHO', 'TOOL', 'DECISION', 'RESULT', 'MS', 'WHAT'];

/**
 * Prints calls, the most recent last. A call with effects has an entry before it starts and one at its end; the newest one is shown.
 * Returns the exit code.
 */
export async function auditCalls(flags: AuditQueryFlags, client: AuditClient): Promise<number> {
  const { limit, filter } = toFilter(flags);
  const calls = new Map<string, AuditRecord>();
  for await (const entry of allEntries({ ...filter, calls: true, order: 'newest' }, client)) {
    const key = `${entry.sessionId}\0${entry.callId}`;
    if (!calls.has(key) && calls.size === limit) break;
    if (!calls.has(key)) calls.set(key, entry);
  }
  const newestLast = [...calls.values()].reverse();
  if (flags.json) printJson(newestLast.map(toCall));
  else if (newestLast.length === 0) say('no calls match; `ringfence audit query` lists entries of all kinds');
  else for (const line of toTable([TITLES, ...newestLast.map(toRow)])) print(line);
  return EXIT.OK;
}

function toCall(entry: AuditRecord): object {
  const { callId, sessionId, principal, at, tool, rule, code, durationMs, effects } = entry;
  const decision = decisionOf(entry);
  return { callId, sessionId, principal, at, tool, decision, rule, code, result: endOf(entry), durationMs, effects };
}

const toRow = (it: AuditRecord): string[] => [
  ...[shortId(it.callId ?? ''), it.at, it.principal, it.tool ?? '', decisionOf(it) ?? '', endOf(it)],
  ...[it.durationMs?.toFixed(1) ?? '', whatOf(it)],
];

/** The policy's decision; for an approval entry the policy decided to ask. */
const decisionOf = ({ kind, decision }: AuditRecord): AuditRecord['decision'] =>
  kind === 'approval' ? 'ask' : decision;

/**
 * The result in one word: `asked` for a call whose question is open or was just answered, `ok`, the error code, `under way`, or `unknown`
 * for a call whose daemon ended before it did.
 */
const endOf = (it: AuditRecord): string =>
  it.kind === 'approval' ? 'asked' : it.kind === 'intent' && it.outcome === undefined ? 'under way' : resultOf(it);
