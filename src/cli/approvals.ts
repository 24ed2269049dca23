/** `ringfence approvals`: shows questions to a person and sends the answers, one at a time. */
import { systemPowers } from '../base/powers.ts';
import { showLine } from '../base/text/shown-text.ts';
import { type Approval, type Grant, rememberFor, rememberToolFor } from '../store/approvals/approval.ts';
import { coveredBy, heldIn, holdsUntil } from '../store/approvals/grant-words.ts';
import { agentOf, folderOf, leftOf, titleText } from '../store/approvals/question-words.ts';
import type { Answer } from '../wire/protocol/answers.ts';
import { idOf } from './ids.ts';
import { EXIT, type JsonFlag, print, printJson, printRows, say, toJson, UsageError } from './output.ts';
import { notifyDesktop } from './questions/notify.ts';
import { type PersonsAnswer, Prompt, type Terminal } from './questions/prompt.ts';
import { toLine } from './questions/question.ts';
import { type Column, isTerminal, printTable } from './screen/table.ts';

/** The part of a client that approvals need. */
export interface ApprovalsClient {
  request(method: string, params: unknown): Promise<unknown>;
  /** Ends with the connection. */
  notifications(topics: readonly string[]): AsyncIterable<{ method: string; params: unknown }>;
}

const QUESTIONS: readonly Column[] = [
  { head: 'left', align: 'right', style: 'dim' },
  { head: 'question', grows: true, style: 'bold' },
  { head: 'agent' },
  { head: 'folder' },
  { head: 'id', style: 'dim' },
];

export async function approvalsList(client: ApprovalsClient, flags: JsonFlag): Promise<number> {
  const approvals = await listed(client);
  const nowMs = systemPowers().now();
  if (isTerminal() && !flags.json && approvals.length > 0) {
    printTable(
      QUESTIONS,
      approvals.map((it) => [
        leftOf(it, nowMs).replace(' left', ''),
        titleText(it),
        agentOf(it),
        folderOf(it),
        it.approvalId,
      ]),
    );
    return EXIT.OK;
  }
  return printRows(approvals, flags.json, 'no call waits for an answer', (it) => toLine(it, nowMs));
}

/** The id of the approval that `text` abbreviates. Throws UsageError if it is ambiguous. */
const approvalIdOf = async (text: string, client: ApprovalsClient): Promise<string> =>
  idOf(
    text,
    (await listed(client)).map((it) => it.approvalId),
  );

/** The id of the remembered answer that `text` abbreviates. Throws UsageError if it is ambiguous. */
const grantIdOf = async (text: string, client: ApprovalsClient): Promise<string> =>
  idOf(
    text,
    (await grantsNow(client)).map((it) => it.grantId),
  );

export interface ApproveFlags {
  readonly json?: boolean;
  readonly remember?: 'exact' | 'tool' | 'session' | 'project';
  readonly always?: boolean;
}

/** Approves the question that `id` abbreviates. Rejects with RemoteError if it is gone. Returns the exit code. */
export async function approvalsApprove(
  client: ApprovalsClient,
  id: string,
  { remember, always, json }: ApproveFlags,
): Promise<number> {
  const approvalId = await approvalIdOf(id, client);
  const ofDoor = remember === 'session' || remember === 'project';
  const match = ofDoor ? 'door' : (remember ?? (always ? 'exact' : undefined));
  const approval = (await listed(client)).find((it) => it.approvalId === approvalId);
  const covers = match && approval?.remember[match];
  if (match === 'tool' && approval && !rememberToolFor(approval) && rememberFor(approval).match !== 'tool')
    throw new UsageError(
      'an approval can be remembered for a whole tool only if the impact of the call is low; nothing was approved; use --remember exact',
    );
  const scope = ofDoor ? remember : always ? 'always' : 'session';
  const answer = await client.request('approvals.resolve', {
    approvalId,
    decision: 'approve',
    remember: match && { scope, match },
  });
  if (json) printJson(answer);
  say(`approved ${approvalId}${covers === undefined ? '' : `, and remembered: ${showLine(covers)}`}`);
  return EXIT.OK;
}

/** Denies the question that `id` abbreviates. Rejects with RemoteError if it is gone. Returns the exit code. */
export async function approvalsDeny(
  client: ApprovalsClient,
  id: string,
  { feedback, remember, json }: { feedback?: string; remember?: 'session'; json?: boolean },
): Promise<number> {
  const approvalId = await approvalIdOf(id, client);
  const answer = await client.request('approvals.resolve', {
    approvalId,
    decision: 'deny',
    ...(feedback && { feedback }),
    remember: remember && { scope: remember, match: 'door' },
  });
  if (json) printJson(answer);
  say(`denied ${approvalId}`);
  return EXIT.OK;
}

export async function approvalsGrants(client: ApprovalsClient, flags: JsonFlag): Promise<number> {
  const { grants, statistics } = (await client.request('approvals.grants', {})) as {
    grants: Grant[];
    statistics: Answer<'approvals.grants'>['statistics'];
  };
  if (!flags.json) {
    const { approve, deny, questions } = statistics;
    const ended = Object.entries(questions).map(([state, n]) => `${n} ${state}`);
    say(`${approve.count} say yes, ${deny.count} say no; questions so far: ${ended.join(', ') || 'none'}`);
  }
  return printRows(grants, flags.json, 'no answers are remembered', (it) => showLine(lineOf(it)));
}

const grantsNow = async (client: ApprovalsClient): Promise<Grant[]> =>
  ((await client.request('approvals.grants', {})) as { grants: Grant[] }).grants;

/** One line about a remembered answer and the calls that it covers. */
function lineOf(grant: Grant): string {
  const { grantId, decision, by } = grant;
  const until = holdsUntil(grant, (ms) => new Date(ms).toISOString());
  return `${grantId}  ${decision.padEnd(7)}  ${coveredBy(grant)}, ${heldIn(grant)}, ${until}, by ${by}`;
}

/** Revokes one remembered answer, or all. Rejects with RemoteError if there is none with this id. Returns the exit code. */
export async function approvalsRevoke(
  client: ApprovalsClient,
  id: string | undefined,
  { all, json }: { all?: boolean; json?: boolean } = {},
): Promise<number> {
  if ((id === undefined) !== (all === true)) throw new UsageError('name one answer, or give --all');
  const grantId = id === undefined ? undefined : await grantIdOf(id, client);
  const answer = await client.request('approvals.revoke', grantId === undefined ? { all: true } : { grantId });
  if (json) printJson(answer);
  say(`revoked ${grantId ?? `${(answer as { grants: unknown[] }).grants.length} answers`}`);
  return EXIT.OK;
}

/** Asks about all calls that wait, one after the other; lists them where nobody sits at a terminal. Returns the exit code. */
export async function approvalsAnswer(client: ApprovalsClient, io: Terminal): Promise<number> {
  const isAsked = io.isTTY && !io.json && (await listed(client)).length > 0;
  return isAsked ? await approvalsWatch(client, io, { untilEmpty: true }) : await approvalsList(client, io);
}

/**
 * Shows each question as it arrives and asks for an answer, until the input or the connection ends, or until Ctrl-C (or `signal`), which
 * leaves the rest unanswered. Returns the exit code.
 */
export async function approvalsWatch(
  client: ApprovalsClient,
  io: Terminal,
  { signal, untilEmpty = false }: { signal?: AbortSignal; untilEmpty?: boolean } = {},
): Promise<number> {
  if (io.json) return await tellQuestions(client, io);
  using prompt = new Prompt(io, signal);
  const queue = new QuestionQueue();
  const notifications = client.notifications(['approvals']);
  const hearing = readQuestions(notifications, { queue, prompt }).finally(() => prompt.leave(EXIT.UNREACHABLE));
  hearing.catch(() => {}); // The connection ended with an error; the exit code says so.
  prompt.left.addEventListener('abort', () => queue.wake());
  for (const approval of await listed(client)) queue.add(approval);
  prompt.say(
    queue.size === 0
      ? 'Waiting for questions; press Ctrl-C to leave.'
      : `${queue.size} waiting; press Ctrl-C to leave.`,
  );
  for (;;) {
    if (untilEmpty && queue.size === 0) return prompt.exitCode;
    const next = await queue.next(prompt.left);
    if (!next) return prompt.exitCode;
    if (queue.size > 1) prompt.say(`(${queue.size - 1} more after this one)`);
    const answer = await prompt.ask(next.approval, next.closed);
    if (!answer || next.closed.aborted) continue;
    if (await resolve(client, { approval: next.approval, answer, prompt })) queue.remove(next.approval.approvalId);
  }
}

/** Prints a line of JSON for each notification about a question, pending ones first, until the connection ends. Returns the exit code. */
async function tellQuestions(client: ApprovalsClient, { notify }: Terminal): Promise<number> {
  const tell = (it: { readonly method: string; readonly params: unknown }) => {
    print(toJson(it));
    if (notify && it.method === 'approval.requested') notifyDesktop((it.params as { approval: Approval }).approval);
  };
  const notifications = client.notifications(['approvals']);
  const next = notifications[Symbol.asyncIterator]();
  let coming = next.next(); // Subscribed before listing, so that none is missed.
  for (const approval of await listed(client)) tell({ method: 'approval.requested', params: { approval } });
  for (;;) {
    const { done, value } = await coming;
    if (done) return EXIT.UNREACHABLE;
    tell(value);
    coming = next.next();
  }
}

async function listed(client: ApprovalsClient): Promise<Approval[]> {
  return ((await client.request('approvals.list', {})) as { approvals: Approval[] }).approvals;
}

/** Sends an answer; returns whether the question is over. An answer that the daemon rejects leaves the question open. */
async function resolve(
  client: ApprovalsClient,
  { approval: { approvalId, digest }, answer, prompt }: { approval: Approval; answer: PersonsAnswer; prompt: Prompt },
): Promise<boolean> {
  try {
    await client.request('approvals.resolve', { approvalId, digest, ...answer });
    prompt.say(`${answer.decision === 'approve' ? 'Approved' : 'Denied'}${answer.remember ? ' and remembered' : ''}.`);
    return true;
  } catch (error) {
    prompt.answered.delete(approvalId);
    prompt.say(`The answer was not accepted: ${showLine((error as Error).message)}`);
    const still = await listed(client).catch(() => []); // The connection is over and with it all questions.
    return !still.some((it) => it.approvalId === approvalId);
  }
}

async function readQuestions(
  notifications: AsyncIterable<{ method: string; params: unknown }>,
  { queue, prompt }: { queue: QuestionQueue; prompt: Prompt },
): Promise<void> {
  for await (const { method, params } of notifications) {
    if (method === 'approval.requested') queue.add((params as { approval: Approval }).approval);
    if (method !== 'approval.resolved') continue;
    const { approvalId, decision } = params as { approvalId: string; decision: string };
    const was = queue.remove(approvalId);
    if (was && !prompt.answered.has(approvalId))
      prompt.say(`${showLine(approvalId)} (${showLine(was.tool)}) was answered elsewhere: ${showLine(decision)}.`);
  }
}

interface OpenQuestion {
  readonly approval: Approval;
  /** Aborted when the question is answered elsewhere or has expired. */
  readonly closed: AbortSignal;
}

/** Pending questions in order of arrival, without duplicates. */
class QuestionQueue {
  readonly #questions = new Map<string, OpenQuestion & { over: AbortController }>();
  #woken: (() => void) | undefined;

  get size(): number {
    return this.#questions.size;
  }

  add(approval: Approval): void {
    if (this.#questions.has(approval.approvalId)) return;
    const over = new AbortController();
    this.#questions.set(approval.approvalId, { approval, closed: over.signal, over });
    this.wake();
  }

  remove(approvalId: string): Approval | undefined {
    const waiting = this.#questions.get(approvalId);
    this.#questions.delete(approvalId);
    waiting?.over.abort();
    return waiting?.approval;
  }

  /** The oldest question; waits for one. Undefined when `left` is aborted, after which `wake` must be called. */
  async next(left: AbortSignal): Promise<OpenQuestion | undefined> {
    while (!left.aborted) {
      const [first] = this.#questions.values();
      if (first) return first;
      await new Promise<void>((resolve) => {
        this.#woken = resolve;
      });
    }
    return undefined;
  }

  wake(): void {
    this.#woken?.();
  }
}
