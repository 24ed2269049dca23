/**
 * The questions of all nodes, as the verbs of approvals know those of one daemon. The digest that is signed is computed
 * here, of what is shown here: a bus that shows another question than the node asks gets an answer that fits none.
 */
import { FleetError } from '../../fleet/fleet-error.ts';
import type { FleetQuestion } from '../../fleet/node-orders.ts';
import { publisherOf, subjects } from '../../fleet/subjects.ts';
import type { Approval } from '../../store/approvals/approval.ts';
import { digestOfReceived } from '../../store/approvals/digest.ts';
import type { ApprovalsClient } from '../approvals.ts';
import { CliError, EXIT, harmless, say } from '../output.ts';
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

  constructor(nodes: Nodes) {
    this.#nodes = nodes;
  }

  async request(method: string, params: unknown): Promise<unknown> {
    if (method === 'approvals.list') return { approvals: await this.#all() };
    if (method === 'approvals.resolve') return await this.#answer(params as AnswerParams);
    throw new CliError(EXIT.USAGE, `a fleet has no ${method}; ask the node's own daemon`);
  }

  async #all(): Promise<Approval[]> {
    const of = await Promise.all(this.#nodes.names.map((it) => this.#ofNode(it).catch(told)));
    this.#shown.clear();
    for (const it of of.flat()) this.#shown.set(it.approvalId, it);
    return [...this.#shown.values()];
  }

  /** The questions of a node. Throws FleetError if it does not answer. */
  async #ofNode(node: string): Promise<Approval[]> {
    const found: Approval[] = [];
    let from: number | undefined = 0;
    for (let page = 0; page < PAGES_MAX && from !== undefined; page++) {
      const answer = await this.#nodes.order(node, { kind: 'questions', from });
      if (!('questions' in answer)) break;
      found.push(...answer.questions.map((it) => toShown(node, it)));
      from = answer.next;
    }
    return found;
  }

  async #answer({ approvalId, decision, feedback, remember }: AnswerParams): Promise<unknown> {
    const [node = '', id = ''] = approvalId.split('/');
    const approval = this.#shown.get(approvalId);
    if (!approval) throw new CliError(EXIT.FAILED, harmless(`no question ${approvalId} waits`));
    if (remember) throw new CliError(EXIT.USAGE, 'an answer of the fleet counts once; remember it at the node');
    if (approval.truncated && decision === 'approve')
      throw new CliError(EXIT.FAILED, harmless(`${approvalId} is too long to be shown whole; answer it at ${node}`));
    const said = feedback === undefined ? {} : { feedback };
    return await this.#nodes.order(node, {
      kind: 'answer',
      approvalId: id,
      digest: approval.digest,
      decision,
      ...said,
    });
  }

  async *notifications(): AsyncGenerator<Notification> {
    const changed = new Set<string>();
    let wake = () => {};
    using _ = this.#nodes.link.subscribe(subjects.questions('*'), ({ subject }) => {
      changed.add(publisherOf(subject));
      wake();
    });
    for (;;) {
      const { promise, resolve } = Promise.withResolvers<void>();
      wake = resolve;
      const timer = powers.after(ASK_AGAIN_MS, resolve);
      if (changed.size === 0) await promise;
      timer.cancel();
      const names = this.#nodes.names.filter((it) => changed.size === 0 || changed.has(it));
      changed.clear();
      for (const node of names) yield* await this.#news(node);
    }
  }

  /** What has changed in the questions of a node; nothing if it does not answer. */
  async #news(node: string): Promise<Notification[]> {
    const now = await this.#ofNode(node).catch(() => undefined);
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
  readonly decision: 'approve' | 'deny';
  readonly feedback?: string;
  readonly remember?: object;
}

const told = (error: unknown): Approval[] => {
  if (!(error instanceof FleetError)) throw error;
  say(harmless(error.message));
  return [];
};

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
