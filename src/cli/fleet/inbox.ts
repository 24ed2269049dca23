/**
 * The questions of all nodes, as the verbs of approvals know those of one daemon. The digest that is signed is computed
 * here, of what is shown here: a bus that shows another question than the node asks gets an answer that fits none.
 */
import * as z from 'zod';
import { RpcError } from '../../base/errors.ts';
import { FleetError } from '../../fleet/fleet-error.ts';
import type { FleetQuestion } from '../../fleet/node-orders.ts';
import { publisherOf, subjects } from '../../fleet/subjects.ts';
import type { Approval } from '../../store/approvals/approval.ts';
import { digestOfReceived } from '../../store/approvals/digest.ts';
import * as shapes from '../../wire/protocol/shapes.ts';
import type { ApprovalsClient } from '../approvals.ts';
import { harmless, OperatorError, say, UsageError } from '../output.ts';
import type { Nodes } from './nodes.ts';
import { powers } from './operator.ts';

type Notification = { readonly method: string; readonly params: unknown };

/** Time after which the questions are asked for again, though nobody said that they have changed. */
const ASK_AGAIN_MS = 5_000;
/** Questions of one node in all, many more than a daemon lets wait. */
const PAGES_MAX = 64;

export class FleetInbox implements ApprovalsClient {
  readonly #nodes: Nodes;
  /** The questions that were shown, by `NODE/ID`. */
  readonly #shown = new Map<string, Approval>();

  readonly #tell: (node: string, problem?: string) => void;

  /** `tell` hears why the questions of a node are not known, and nothing once they are. */
  constructor(nodes: Nodes, tell: (node: string, problem?: string) => void = saying()) {
    this.#nodes = nodes;
    this.#tell = tell;
  }

  async request(method: string, params: unknown): Promise<unknown> {
    if (method === 'approvals.list') return { approvals: await this.#all() };
    if (method === 'approvals.get') return this.#get((params as { approvalId: string }).approvalId);
    if (method === 'approvals.resolve') return await this.#answer(params as AnswerParams);
    throw new UsageError(`a fleet has no ${method}; ask the node's own daemon`);
  }

  async #all(): Promise<Approval[]> {
    const of = await Promise.all(this.#nodes.names.map(async (it) => (await this.#known(it)) ?? []));
    this.#shown.clear();
    for (const it of of.flat()) this.#shown.set(it.approvalId, it);
    return [...this.#shown.values()];
  }

  /** A question that was shown, with all of its parts. Throws OperatorError. */
  #get(approvalId: string): object {
    const approval = this.#shown.get(approvalId);
    if (!approval) throw new OperatorError(harmless(`no question ${approvalId} waits`));
    if (approval.truncated)
      throw new OperatorError(harmless(`${approvalId} is too long to be shown whole; answer it at its node`));
    const { input, effects, diff } = approval;
    return { approval, whole: { input, effects, diff } };
  }

  /** A question was answered here, and is not told again. */
  forget(approvalId: string): void {
    this.#shown.delete(approvalId);
  }

  /** The questions of a node; undefined if it does not answer, which is told. */
  async #known(node: string): Promise<Approval[] | undefined> {
    try {
      const questions = await this.#ofNode(node);
      this.#tell(node);
      return questions;
    } catch (error) {
      if (!(error instanceof FleetError)) throw error;
      this.#tell(node, error.message);
      return undefined;
    }
  }

  /** The questions of a node. Throws FleetError if it does not answer, or something else than questions. */
  async #ofNode(node: string): Promise<Approval[]> {
    const found: Approval[] = [];
    let from: number | undefined = 0;
    for (let page = 0; page < PAGES_MAX && from !== undefined; page++) {
      const answer = await this.#nodes.order(node, { kind: 'questions', from });
      if (!('questions' in answer)) break;
      if (!questionsAnswer.safeParse(answer).success)
        throw new FleetError(`${node} sent something that is no question`);
      found.push(...answer.questions.map((it) => toShown(node, it)));
      from = answer.next;
    }
    return found;
  }

  async #answer({ approvalId, digest, decision, feedback, remember }: AnswerParams): Promise<unknown> {
    const [node = '', id = ''] = approvalId.split('/');
    const approval = this.#shown.get(approvalId);
    if (!approval) throw new OperatorError(harmless(`no question ${approvalId} waits`));
    if (digest !== undefined && digest !== approval.digest)
      throw new RpcError('INVALID_PARAMS', 'the question has changed', { reason: 'APPROVAL_STALE' });
    if (remember) throw new UsageError('an answer of the fleet counts once; remember it at the node');
    if (approval.truncated && decision === 'approve')
      throw new OperatorError(harmless(`${approvalId} is too long to be shown whole; answer it at ${node}`));
    const said = feedback === undefined ? {} : { feedback };
    return await this.#nodes.order(node, {
      kind: 'answer',
      approvalId: id,
      digest: approval.digest,
      decision,
      ...said,
    });
  }

  /** Hears what changes in the questions. Each node is asked for itself: one that does not answer holds up no other. */
  watch(hear: (news: Notification) => void): Disposable {
    /** Nodes that are being asked, and whether they are to be asked again. */
    const asking = new Map<string, boolean>();
    const ask = async (node: string): Promise<void> => {
      if (asking.has(node)) return void asking.set(node, true);
      asking.set(node, false);
      for (const it of await this.#news(node)) hear(it);
      const isOld = asking.get(node);
      asking.delete(node);
      if (isOld) await ask(node);
    };
    const parts = new DisposableStack();
    const changed = ({ subject }: { readonly subject: string }) => {
      const node = publisherOf(subject);
      if (this.#nodes.names.includes(node)) void ask(node);
    };
    parts.use(this.#nodes.link.subscribe(subjects.questions('*'), changed));
    const timer = powers.every(ASK_AGAIN_MS, () => {
      for (const it of this.#nodes.names) void ask(it);
    });
    parts.defer(() => timer.cancel());
    return parts;
  }

  async *notifications(): AsyncGenerator<Notification> {
    const waiting: Notification[] = [];
    let wake = () => {};
    using _ = this.watch((it) => {
      waiting.push(it);
      wake();
    });
    for (;;) {
      const { promise, resolve } = Promise.withResolvers<void>();
      wake = resolve;
      if (waiting.length === 0) await promise;
      yield* waiting.splice(0);
    }
  }

  /** What has changed in the questions of a node; nothing if it does not answer. */
  async #news(node: string): Promise<Notification[]> {
    const now = await this.#known(node);
    if (!now) return [];
    const before = [...this.#shown.keys()].filter((it) => it.startsWith(`${node}/`));
    const gone = before.filter((it) => !now.some(({ approvalId }) => approvalId === it));
    const added = now.filter(({ approvalId }) => !before.includes(approvalId));
    for (const it of gone) this.#shown.delete(it);
    for (const it of now) this.#shown.set(it.approvalId, it);
    return [
      ...gone.map((approvalId) => ({ method: 'approval.resolved', params: { approvalId, decision: 'answered' } })),
      ...added.map((approval) => ({ method: 'approval.requested', params: { approval } })),
    ];
  }
}

interface AnswerParams {
  readonly approvalId: string;
  /** Digest of what was shown, if it was shown by another program than this one. */
  readonly digest?: string;
  readonly decision: 'approve' | 'deny';
  readonly feedback?: string;
  readonly remember?: object;
}

/** Says the problems of nodes, each once. */
function saying(): (node: string, problem?: string) => void {
  const said = new Map<string, string>();
  return (node, problem) => {
    if (problem === undefined) said.delete(node);
    else if (said.get(node) !== problem) {
      said.set(node, problem);
      say(harmless(problem));
    }
  };
}

/** Questions that can be shown; a node that was taken over may send anything. */
const questionsAnswer = z.strictObject({
  questions: z.array(
    z.strictObject({
      approval: shapes.approval,
      whole: shapes.wholeQuestion.optional(),
      proposedRule: z.string().optional(),
    }),
  ),
  next: z.int().optional(),
});

/** A question as it is shown: whole, with the digest of exactly that, under the name of its node. */
function toShown(node: string, question: FleetQuestion): Approval {
  const { approval, whole } = question;
  const digest = approval.truncated && !whole ? approval.digest : digestOfReceived(approval, question);
  const { truncated: _, ...parts } = approval;
  return {
    ...parts,
    ...whole,
    ...(approval.truncated && !whole && { truncated: true as const }),
    approvalId: `${node}/${approval.approvalId}`,
    digest,
    // Answers of the fleet are not remembered, so that none is offered.
    remember: {},
  };
}
