/** Passes each approval to a handler once and sends its answer, until stopped. */

import type { Approval, Resolution } from '../store/approvals/approval.ts';
import { RemoteError } from '../wire/protocol/peer.ts';

/** Params of `approvals.resolve` without the id. */
export type ApprovalAnswer = Omit<Resolution, 'by'>;

/**
 * Answers one question, or returns undefined to leave it to others. `over` is aborted when somebody else has answered, the call has ended,
 * or nobody answered in time, so that a dialog can be closed.
 */
export type ApprovalHandler = (
  approval: Approval,
  over: AbortSignal,
) => ApprovalAnswer | undefined | Promise<ApprovalAnswer | undefined>;

/** A running handler. Disposing stops it; unanswered questions stay open. */
export interface ApprovalWatch extends Disposable {
  /**
   * Resolves when disposed or when the connection has ended; rejects with the handler's error, or with the reason why an answer was
   * refused.
   */
  readonly ended: Promise<void>;
}

/** The part of a client that this module needs. */
interface ApprovalWatchClient {
  request(method: 'approvals.list' | 'approvals.resolve', params: unknown): Promise<unknown>;
  notifications(topics: readonly string[], settings: { signal: AbortSignal }): AsyncIterable<ApprovalNotification>;
}

interface ApprovalNotification {
  readonly method: string;
  readonly params: Record<string, unknown>;
}

/** Passes pending and future approvals to the handler. Rejects with RemoteError if this session may not answer. */
export async function watchApprovals(client: ApprovalWatchClient, handler: ApprovalHandler): Promise<ApprovalWatch> {
  const watch = new RunningApprovalWatch(client, handler);
  await watch.begin();
  return watch;
}

class RunningApprovalWatch implements ApprovalWatch {
  readonly #client: ApprovalWatchClient;
  readonly #handler: ApprovalHandler;
  readonly #ended = Promise.withResolvers<void>();
  readonly #stop = new AbortController();
  /** Open approvals that were passed to the handler, by id. */
  readonly #openApprovals = new Map<string, AbortController>();

  constructor(client: ApprovalWatchClient, handler: ApprovalHandler) {
    this.#client = client;
    this.#handler = handler;
  }

  get ended(): Promise<void> {
    return this.#ended.promise;
  }

  [Symbol.dispose](): void {
    this.#ended.resolve();
    this.#stop.abort();
    for (const it of this.#openApprovals.values()) it.abort();
    this.#openApprovals.clear();
  }

  async begin(): Promise<void> {
    // Subscribes before listing, so that no question is missed in between.
    const hearing = this.#readNotifications();
    hearing.catch(() => {}); // The error is reported below or by `ended`.
    try {
      for (const it of await this.#listed()) this.#ask(it);
    } catch (error) {
      this[Symbol.dispose]();
      throw error;
    }
    hearing.then(
      () => this[Symbol.dispose](),
      (error: unknown) => this.#fail(error),
    );
  }

  async #readNotifications(): Promise<void> {
    for await (const { method, params } of this.#client.notifications(['approvals'], { signal: this.#stop.signal })) {
      if (method === 'approval.requested') this.#ask(params.approval as Approval);
      if (method === 'approval.resolved') this.#resolved(params.approvalId as string);
      if (method === 'events.missed') await this.#catchUp();
    }
  }

  /** Finds out what was asked and answered while nothing was told. */
  async #catchUp(): Promise<void> {
    const open = await this.#listed();
    for (const it of this.#openApprovals.keys())
      if (!open.some(({ approvalId }) => approvalId === it)) this.#resolved(it);
    for (const it of open) this.#ask(it);
  }

  #resolved(approvalId: string): void {
    this.#openApprovals.get(approvalId)?.abort();
    this.#openApprovals.delete(approvalId);
  }

  #ask(approval: Approval): void {
    const { approvalId } = approval;
    if (this.#openApprovals.has(approvalId) || this.#stop.signal.aborted) return;
    const over = new AbortController();
    this.#openApprovals.set(approvalId, over);
    this.#answer(approval, over.signal).catch((error: unknown) => {
      // The answer is no longer needed, and a handler that waits for a person throws when it is aborted.
      if (!over.signal.aborted) this.#fail(error);
    });
  }

  async #answer(approval: Approval, over: AbortSignal): Promise<void> {
    const { approvalId } = approval;
    const answer = await this.#handler(approval, over);
    if (answer === undefined || over.aborted) return;
    try {
      await this.#client.request('approvals.resolve', { approvalId, ...answer });
    } catch (error) {
      if (!(error instanceof RemoteError)) throw error;
      // Somebody else may have answered first.
      if ((await this.#listed()).some((it) => it.approvalId === approvalId)) throw error;
    }
  }

  async #listed(): Promise<Approval[]> {
    return ((await this.#client.request('approvals.list', {})) as { approvals: Approval[] }).approvals;
  }

  #fail(error: unknown): void {
    this.#ended.reject(error);
    this[Symbol.dispose]();
  }
}
