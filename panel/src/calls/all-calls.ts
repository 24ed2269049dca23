/** The calls of all sessions: read at first and after gaps, and kept up to date by what the daemon tells. */
import { computed, signal } from '@preact/signals';
import { onNotice, request } from '../connection.ts';
import type { CallState, ListedCall, StageName } from '../messages.ts';

/** A call in the list; one that was just told lacks what only the list of the daemon says. */
export type KnownCall = Pick<ListedCall, 'callId' | 'sessionId' | 'tool' | 'state' | 'createdAt'> &
  Partial<Omit<ListedCall, 'callId' | 'sessionId' | 'tool' | 'state' | 'createdAt'>> & {
    /** Counts the calls that this page was told of; absent for those that it has only read. */
    readonly arrival?: number;
  };

/** Most calls that the page keeps; the oldest go first. */
const KEPT_MAX = 20_000;
/** Most calls that one request gives. */
const PAGE = 1_000;
/** Milliseconds between two requests for what notices don't tell. */
const DETAILS_MS = 2_000;
/** Calls that are asked for beyond those in view, since more arrive meanwhile. */
const DETAILS_MARGIN = 20;
/** Most calls of which details are asked while the list is searched: each costs the daemon time that calls need. */
const SEARCHED_MAX = 200;
/** Most calls whose details the daemon did not have. */
const UNANSWERED_MAX = 10_000;
/** Milliseconds in which notices are collected before they are shown. */
const FRAME_MS = 100;

/** Known calls by session and call, oldest first. */
const byKey = new Map<string, KnownCall>();
const revision = signal(0);
/** All known calls, newest first. */
export const calls = computed<readonly KnownCall[]>(() => (revision.value > 0 ? [...byKey.values()].reverse() : []));

const keyOf = ({ sessionId, callId }: Pick<KnownCall, 'sessionId' | 'callId'>): string => `${sessionId} ${callId}`;

/** What waits for its turn: to be shown, or to be read in full. */
const pending = new Set<'show' | 'details'>();

/** Does it once within the time, however often it is asked for. */
function soon(what: 'show' | 'details', withinMs: number, work: () => void): void {
  if (pending.has(what)) return;
  pending.add(what);
  setTimeout(() => {
    pending.delete(what);
    work();
  }, withinMs);
}

const show = (): void =>
  soon('show', FRAME_MS, () => {
    revision.value += 1;
  });

/** The address of a call's view. Two sessions may have calls of the same id. */
export const callAddress = (callId: string, sessionId?: string): string =>
  `#/calls/${encodeURIComponent(callId)}${sessionId === undefined ? '' : `/${encodeURIComponent(sessionId)}`}`;

export const isEnded = ({ status }: CallState): boolean =>
  status !== 'queued' && status !== 'in-progress' && status !== 'blocked-on-user';

/** Reads the newest calls of all sessions. */
export async function loadCalls(limit = PAGE): Promise<void> {
  const { calls: newest } = (await request('calls.list', { everywhere: true, ended: true, limit })) as {
    calls: ListedCall[];
  };
  for (const it of newest.reverse()) {
    const known = byKey.get(keyOf(it));
    // A notice that came meanwhile is newer than this answer.
    const state = known && isEnded(known.state) && !isEnded(it.state) ? known.state : it.state;
    byKey.set(keyOf(it), { ...it, state, ...(known?.arrival !== undefined && { arrival: known.arrival }) });
  }
  for (const key of byKey.keys()) {
    if (byKey.size <= KEPT_MAX) break;
    byKey.delete(key);
  }
  show();
}

/** Number of calls that this page was told of. */
let arrivals = 0;
/** Calls in view of which only a notice is known, with the number of each. */
const wanted = new Map<string, number>();
/** Calls whose details the daemon did not have when it was asked. */
const unanswered = new Set<string>();
/** Calls that were told of since the list was last asked. */
const changed = new Set<string>();
/** Whether the list is filtered by what notices don't tell. */
export const isSearching = signal(false);

const lacksDetails = ({ summary, durationMs, state }: KnownCall): boolean =>
  summary === undefined || (durationMs === undefined && isEnded(state));
const markOf = (call: KnownCall): string => `${keyOf(call)} ${call.state.status}`;

/** Asks, a moment later, for what notices don't tell of a call that is in view. */
export function wantDetails(call: KnownCall): void {
  if (!lacksDetails(call) || unanswered.has(markOf(call))) return;
  wanted.set(markOf(call), call.arrival ?? 0);
  soon('details', DETAILS_MS, loadDetails);
}

function loadDetails(): void {
  // Nobody sees it now; `visibilitychange` asks for all.
  if (document.hidden) return;
  const marks = [...wanted.keys()];
  const inView = marks.length === 0 ? 0 : arrivals - Math.min(...wanted.values()) + DETAILS_MARGIN;
  const searched = isSearching.value ? Math.min(changed.size + DETAILS_MARGIN, SEARCHED_MAX) : 0;
  wanted.clear();
  changed.clear();
  // The connection may be over; the list is read again when there is another one.
  void loadCalls(Math.min(Math.max(inView, searched, 1), PAGE)).then(
    () => noteUnanswered(new Set(marks)),
    () => {},
  );
}

function noteUnanswered(marks: ReadonlySet<string>): void {
  if (unanswered.size > UNANSWERED_MAX) unanswered.clear();
  for (const it of byKey.values()) if (lacksDetails(it) && marks.has(markOf(it))) unanswered.add(markOf(it));
}

/** Reads the newest calls once more, for a filter that needs what notices don't tell. */
export function search(isOn: boolean): void {
  isSearching.value = isOn;
  if (isOn) void loadCalls().catch(() => {}); // As above.
}

document.addEventListener('visibilitychange', () => {
  if (!document.hidden) void loadCalls().catch(() => {}); // As above.
});

onNotice('call.update', ({ callId, sessionId = '', tool = '', state }) => {
  const key = keyOf({ sessionId, callId });
  const known = byKey.get(key);
  const createdAt = new Date().toISOString();
  byKey.set(key, known ? { ...known, state } : { callId, sessionId, tool, state, createdAt, arrival: ++arrivals });
  show();
  changed.add(key);
  if (isSearching.value) soon('details', DETAILS_MS, loadDetails);
});

/** The words for a state. */
export function stateOf({ state, code }: Pick<KnownCall, 'state'> & { readonly code?: string | undefined }): string {
  switch (state.status) {
    case 'queued':
      return 'queued';
    case 'blocked-on-user':
      return 'waits for you';
    case 'in-progress':
      return 'running';
    case 'done':
      return 'done';
    case 'cancelled':
      return 'cancelled';
    case 'rejected-by-user':
      return 'denied';
    default:
      return code ?? 'failed';
  }
}

/** The stages in the words of this page, in order. */
export const STAGE_WORDS: Readonly<Record<StageName, string>> = {
  waiting: 'judged',
  asking: 'asked a person',
  queued: 'queued',
  starting: 'starting',
  running: 'running',
  settling: 'settling',
};
