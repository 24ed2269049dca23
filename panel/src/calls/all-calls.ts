/** The calls of all sessions: read at first and after gaps, and kept up to date by what the daemon tells. */
import { computed, signal } from '@preact/signals';
import { onNotice, request } from '../connection.ts';
import type { CallState, ListedCall, StageName } from '../messages.ts';

/** A call in the list; one that was just told lacks what only the list of the daemon says. */
export type KnownCall = Pick<ListedCall, 'callId' | 'sessionId' | 'tool' | 'state' | 'createdAt'> &
  Partial<Omit<ListedCall, 'callId' | 'sessionId' | 'tool' | 'state' | 'createdAt'>>;

/** Most calls that the page keeps; the oldest go first. */
const KEPT_MAX = 20_000;
/** Most calls that one request gives. */
const PAGE = 1_000;
/** Milliseconds between two requests for what notices don't tell. */
const DETAILS_MS = 2_000;
/** Fewest and most calls of which that is asked at once: each costs the daemon time that the calls of agents need. */
const DETAILS = { min: 20, max: 200 };
/** Milliseconds in which notices are collected before they are shown. */
const FRAME_MS = 100;

/** By session and call, oldest first. */
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

export const isEnded = ({ status }: CallState): boolean =>
  status !== 'queued' && status !== 'in-progress' && status !== 'blocked-on-user';

/** Reads the newest calls of all sessions. */
export async function loadCalls(limit = PAGE): Promise<void> {
  const { calls: newest } = (await request('calls.list', { everywhere: true, ended: true, limit })) as {
    calls: ListedCall[];
  };
  for (const it of newest.reverse()) {
    const known = byKey.get(keyOf(it));
    // What was told meanwhile is newer than this answer.
    byKey.set(keyOf(it), known && isEnded(known.state) && !isEnded(it.state) ? { ...it, state: known.state } : it);
  }
  for (const key of byKey.keys()) {
    if (byKey.size <= KEPT_MAX) break;
    byKey.delete(key);
  }
  show();
}

/** Calls that were told of since the list was last asked. */
const changed = new Set<string>();

function loadDetails(): void {
  // Nobody sees it now; `visibilitychange` asks for all.
  if (document.hidden) return;
  const limit = Math.min(Math.max(changed.size, DETAILS.min), DETAILS.max);
  changed.clear();
  // The connection may be over; the list is read again when there is another one.
  void loadCalls(limit).catch(() => {});
}

document.addEventListener('visibilitychange', () => {
  changed.clear();
  if (!document.hidden) void loadCalls().catch(() => {}); // As above.
});

onNotice('call.update', ({ callId, sessionId = '', tool = '', state }) => {
  const key = keyOf({ sessionId, callId });
  const known = byKey.get(key);
  byKey.set(key, known ? { ...known, state } : { callId, sessionId, tool, state, createdAt: new Date().toISOString() });
  show();
  // Summary, times and errors come with the list, for many calls at once.
  changed.add(key);
  soon('details', DETAILS_MS, loadDetails);
});

/** The words for a state. */
export function stateOf({ state, code }: Pick<KnownCall, 'state' | 'code'>): string {
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
