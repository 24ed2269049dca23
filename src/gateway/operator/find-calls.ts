/** Finds calls of all sessions for an operator: running ones, and those with a given id or part of one. */
import type { CallRecord } from '../../base/call.ts';
import { RpcError } from '../../base/errors.ts';
import type { UndoJournal } from '../../store/undo/undo-journal.ts';
import type { Params } from '../../wire/protocol/messages.ts';
import type { DurableCalls } from '../durable-calls.ts';
import type { RecentCalls } from '../recent-calls.ts';
import type { Results } from '../results.ts';
import type { Session } from '../session.ts';
import type { Sessions } from '../sessions.ts';
import { type ListedCall, type RunningCall, toListed, toRunning } from './listed-call.ts';

export interface FindParts {
  readonly sessions: Sessions;
  readonly recent: RecentCalls;
  readonly durable: DurableCalls;
  readonly undoJournal: UndoJournal;
  readonly results: Pick<Results, 'owners'>;
}

/** A found call as far as known; a call found only by its output has nothing but its ids. */
export type FoundCall = Pick<CallRecord, 'callId' | 'sessionId'> & Partial<CallRecord>;

/** Fewer characters of an id would match too many calls. */
const PART_CHARS_MIN = 4;
/** Most calls in one answer. */
const FOUND_MAX = 16;

/**
 * Answers `calls.find`: the calls with this id; if there are none, those whose id begins or ends with it. Newest first, each
 * once; with what is kept of their results if `results` asks for it.
 */
export async function findCalls(
  { id, results }: Params<'calls.find'>,
  parts: FindParts,
): Promise<{ calls: FoundCall[] }> {
  const all = await everywhere(id, parts);
  const exact = all.filter(({ callId }) => callId === id);
  const isPart = id.length >= PART_CHARS_MIN;
  const found = exact.length > 0 || !isPart ? exact : all.filter(({ callId }) => isMeant(callId, id));
  const once = new Map<string, FoundCall>();
  for (const it of found) {
    if (!once.has(keyOf(it))) once.set(keyOf(it), it);
  }
  const calls = [...once.values()].slice(0, FOUND_MAX);
  return { calls: results ? calls : calls.map(({ result: _, ...it }) => it) };
}

const isMeant = (callId: string, part: string): boolean => callId.startsWith(part) || callId.endsWith(part);

/** Matches from all sources, the most detailed source first, since several may know a call. */
async function everywhere(id: string, parts: FindParts): Promise<FoundCall[]> {
  const { sessions, recent, durable, undoJournal, results } = parts;
  const records: FoundCall[] = [
    ...sessions.all.flatMap(({ session }) => session.remembered.records.filter((it) => isMeant(it.callId, id))),
    ...recent.records.filter((it) => isMeant(it.callId, id)),
    ...durable.named(id, FOUND_MAX),
  ];
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

/**
 * Answers an operator's `calls.list` with `everywhere` and `ended`: the newest calls that are running or remembered, newest
 * first, at most `limit`.
 */
export function allCalls(
  limit: number,
  { sessions, durable, recent }: Pick<FindParts, 'sessions' | 'durable' | 'recent'>,
): { calls: RunningCall[] } {
  const open = sessions.all.flatMap(({ session }) => rememberedOf(session, limit));
  const known = new Set(open.map(keyOf));
  const orphans = durable.underWay.map(toRunning).filter((it) => !known.has(keyOf(it)));
  const all = [...recent.listed, ...open, ...orphans.map((it) => ({ ...it, summary: '' }))];
  return { calls: all.sort((a, b) => (a.createdAt > b.createdAt ? -1 : 1)).slice(0, limit) };
}

/** The newest calls of a session, and all that run. */
function rememberedOf(session: Session, limit: number): ListedCall[] {
  const effectsById = new Map(session.underWay.map(({ record, effects }) => [record.callId, effects]));
  const all = [...session.remembered.all];
  const wanted = all.filter(({ record }, at) => at >= all.length - limit || !record.result);
  return wanted.map(({ call, record }) =>
    toListed(call, { record, effects: effectsById.get(record.callId) ?? [], ...session.options }),
  );
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
