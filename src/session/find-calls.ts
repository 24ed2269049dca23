/** Finds calls of all sessions for an operator: running ones, and those with a given id or part of one. */
import type { CallRecord, Effect } from '../call.ts';
import { RpcError } from '../errors.ts';
import { redactText } from '../redact.ts';
import type { UndoJournal } from '../store/undo-journal.ts';
import type { DurableCalls } from './durable-calls.ts';
import type { RecentCalls } from './recent-calls.ts';
import type { Results } from './results.ts';
import type { Session } from './session.ts';
import type { Sessions } from './sessions.ts';

export interface FindParts {
  readonly sessions: Sessions;
  readonly recent: RecentCalls;
  readonly durable: DurableCalls;
  readonly undoJournal: UndoJournal;
  readonly results: Pick<Results, 'owners'>;
}

/** A found call as far as known; a call found only by its output has nothing but its ids. */
export type FoundCall = Pick<CallRecord, 'callId' | 'sessionId'> & Partial<Omit<CallRecord, 'result'>>;

export interface RunningCall extends Omit<CallRecord, 'result'> {
  readonly workspace: string;
  readonly principal: string;
  /** Name and version that the client gave. */
  readonly client: string;
  readonly effects: readonly Effect[];
}

/** Fewer characters of an id would match too many calls. */
const PART_CHARS_MIN = 4;
/** Most calls in one answer. */
const FOUND_MAX = 16;
/** Most effects shown of a running call. */
const EFFECTS_SHOWN = 4;
const TARGET_CHARS = 256;

/** Answers `calls.find`: the calls with this id; if there are none, those whose id begins or ends with it. Newest first, each once. */
export async function findCalls(id: string, parts: FindParts): Promise<{ calls: FoundCall[] }> {
  const all = await everywhere(id, parts);
  const exact = all.filter(({ callId }) => callId === id);
  const isPart = id.length >= PART_CHARS_MIN;
  const found = exact.length > 0 || !isPart ? exact : all.filter(({ callId }) => isMeant(callId, id));
  const once = new Map<string, FoundCall>();
  for (const it of found) {
    if (!once.has(keyOf(it))) once.set(keyOf(it), it);
  }
  return { calls: [...once.values()].slice(0, FOUND_MAX) };
}

const isMeant = (callId: string, part: string): boolean => callId.startsWith(part) || callId.endsWith(part);

/** Matches from all sources, the most detailed source first, since several may know a call. */
async function everywhere(id: string, parts: FindParts): Promise<FoundCall[]> {
  const { sessions, recent, durable, undoJournal, results } = parts;
  const records = [
    ...sessions.all.flatMap(({ session }) => session.remembered.records.filter((it) => isMeant(it.callId, id))),
    ...recent.records.filter((it) => isMeant(it.callId, id)),
    ...durable.named(id, FOUND_MAX),
  ].map(({ result: _, ...record }) => record);
  const journalled = undoJournal
    .named(id, FOUND_MAX)
    .map(({ begunMs, ...it }) => ({ ...it, createdAt: new Date(begunMs).toISOString() }));
  const logged = (await results.owners()).filter((it) => isMeant(it.callId, id));
  const owners = logged.map(({ callId, sessionId }) => ({ callId, sessionId }));
  return [...records, ...journalled, ...owners];
}

/** Answers an operator's `calls.list` with `everywhere`: running calls, oldest first. */
export function runningCalls({ sessions, durable }: Pick<FindParts, 'sessions' | 'durable'>): { calls: RunningCall[] } {
  const open = sessions.all.flatMap(({ session }) => runningOf(session));
  const known = new Set(open.map(keyOf));
  const orphans = durable.underWay.map(toRunning).filter((it) => !known.has(keyOf(it)));
  return { calls: [...open, ...orphans].sort((a, b) => (a.createdAt < b.createdAt ? -1 : 1)) };
}

const keyOf = ({ sessionId, callId }: Pick<CallRecord, 'sessionId' | 'callId'>): string => `${sessionId}\0${callId}`;

const runningOf = (session: Session): RunningCall[] =>
  session.underWay.map((it) => toRunning({ ...it, ...session.options }));

interface RunningCallFacts {
  readonly record: CallRecord;
  readonly effects: readonly Effect[];
  readonly workspace: string;
  readonly principal: string;
  readonly client?: string;
}

function toRunning({ record, effects, workspace, principal, client = '' }: RunningCallFacts): RunningCall {
  const { result: _, ...known } = record;
  const shown = effects.slice(0, EFFECTS_SHOWN).map(({ kind, target }) => ({
    kind,
    target: redactText(target).slice(0, TARGET_CHARS),
  }));
  return { ...known, workspace, principal, client, effects: shown };
}

/** The only session that runs a call with this id. Throws RpcError INVALID_PARAMS if several do. */
export function sessionRunning(callId: string, session: string | undefined, sessions: Sessions): Session | undefined {
  const having = sessions.all
    .map((it) => it.session)
    .filter((it) => (session ?? it.options.id) === it.options.id)
    .filter((it) => it.underWay.some(({ record }) => record.callId === callId));
  if (having.length > 1)
    throw new RpcError(
      'INVALID_PARAMS',
      `${having.length} sessions have a running call ${callId}; name one:  ${having.map(({ options }) => options.id).join(', ')}`,
    );
  return having[0];
}
