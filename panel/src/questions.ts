/** The calls that wait for a person, and the answers given here: what was sent, what the daemon confirmed, what failed. */
import { computed, signal } from '@preact/signals';
import type { RememberScope } from '../../src/store/approvals/approval.ts';
import { agentOf, folderOf, titleText } from '../../src/store/approvals/question-words.ts';
import { ConnectionLost, onNotice, RequestError, request } from './connection.ts';
import { fleet } from './fleet/fleet-name.ts';
import type { Approval, AuditEntry, Notice } from './messages.ts';

/** The state of an answer given on this page. */
export type Sending =
  | { readonly is: 'sent'; readonly decision: 'approve' | 'deny'; readonly words?: string | undefined }
  | { readonly is: 'failed'; readonly reason: string };

/** A question that is over: as the daemon told it, or as its record has it. */
export interface Settled {
  readonly approvalId: string;
  readonly callId: string;
  /** Absent at a door, whose call goes on. */
  readonly sessionId?: string | undefined;
  readonly what: string;
  /** Absent in the record. */
  readonly who?: string;
  readonly decision: Notice<'approval.resolved'>['decision'];
  /** Name of the one who answered: a page, a person at a terminal, a remembered answer. */
  readonly by: string;
  /** What the person told the agent. */
  readonly words?: string | undefined;
  readonly atMs: number;
}

export interface PersonsAnswer {
  readonly decision: 'approve' | 'deny';
  readonly feedback?: string;
  readonly remember?: RememberScope;
}

/** Most questions that are kept after they were settled. */
const SETTLED_MAX = 30;

/** Waiting questions by id, in the order in which they were asked. */
export const questions = signal<ReadonlyMap<string, Approval>>(new Map());
export const sendings = signal<ReadonlyMap<string, Sending>>(new Map());
export const settled = signal<readonly Settled[]>([]);
export const waitingCount = computed(() => questions.value.size);

const changed = <V>(map: ReadonlyMap<string, V>, key: string, value: V | undefined): ReadonlyMap<string, V> => {
  const next = new Map(map);
  if (value === undefined) next.delete(key);
  else next.set(key, value);
  return next;
};

/** Reads all waiting questions; those that were settled while the connection was lost go. */
export async function loadQuestions(): Promise<void> {
  const { approvals } = await request('approvals.list');
  questions.value = new Map(approvals.map((it) => [it.approvalId, it as Approval]));
  sendings.value = new Map([...sendings.value].filter(([id, it]) => questions.value.has(id) && it.is === 'failed'));
  if (fleet.value === undefined) await loadHistory();
}

/** Reads what was answered before this page was opened. */
async function loadHistory(): Promise<void> {
  const { entries } = await request('audit.query', { kind: 'approval', limit: 4 * SETTLED_MAX });
  const known = new Set(settled.value.map((it) => it.approvalId));
  const past = entries.flatMap(toSettled).filter((it) => !known.has(it.approvalId));
  settled.value = [...settled.value, ...past].toSorted((a, b) => b.atMs - a.atMs).slice(0, SETTLED_MAX);
}

function toSettled({ callId, sessionId, tool = '', effects = [], detail = {}, at }: AuditEntry): Settled[] {
  const { event, approvalId, decision, by, feedback } = detail as Readonly<Record<string, string>>;
  if (event !== 'resolved' || callId === undefined) return [];
  const line = effects.every(({ kind }) => kind === 'exec') ? effects.map(({ target }) => target).join('; ') : '';
  const what = titleText({ tool, effects, input: line === '' ? {} : { command: line } } as unknown as Approval);
  return [{ approvalId, callId, sessionId, what, decision, by, words: feedback, atMs: Date.parse(at) } as Settled];
}

/** Sends an answer for exactly what is shown. The question stays until the daemon says that it is settled. */
export async function answer({ approvalId, digest }: Approval, given: PersonsAnswer): Promise<void> {
  const set = (it: Sending | undefined) => {
    sendings.value = changed(sendings.value, approvalId, it);
  };
  set({ is: 'sent', decision: given.decision, words: given.feedback });
  try {
    await request('approvals.resolve', { approvalId, digest, ...given });
  } catch (error) {
    set({ is: 'failed', reason: reasonOf(error as Error) });
    if (error instanceof RequestError) await loadQuestions().catch(() => {}); // The connection is over; it is read again.
  }
}

function reasonOf(error: Error): string {
  if (error instanceof RequestError && error.data.reason === 'APPROVAL_STALE')
    return 'The question has changed since it was shown, and nothing was answered. Look at it again.';
  if (error instanceof ConnectionLost)
    return `${sentence(error.message)} Nobody knows yet whether your answer arrived.`;
  return sentence(error.message);
}

const sentence = (text: string): string => `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;

onNotice('approval.requested', ({ approval }) => {
  questions.value = changed(questions.value, approval.approvalId, approval as Approval);
});

onNotice('approval.resolved', ({ approvalId, decision, by }) => {
  const approval = questions.value.get(approvalId);
  const sending = sendings.value.get(approvalId);
  questions.value = changed(questions.value, approvalId, undefined);
  sendings.value = changed(sendings.value, approvalId, undefined);
  if (!approval) return;
  const { callId, sessionId, door } = approval;
  const words = sending?.is === 'sent' ? sending.words : undefined;
  const told = { what: titleText(approval), who: `${agentOf(approval)} · ${folderOf(approval)}`, decision, by, words };
  const it = { approvalId, callId, sessionId: door ? undefined : sessionId, ...told, atMs: Date.now() };
  settled.value = [it, ...settled.value].slice(0, SETTLED_MAX);
});
