/** Obeys the operator's orders on a node, by the daemon's own methods. */

import type * as z from 'zod';
import type { Limits } from '../base/limits.ts';
import type { Powers } from '../base/powers.ts';
import type { Approval, WholeApproval, WholeQuestion } from '../store/approvals/approval.ts';
import type { MemberKeys } from './nats.ts';
import type { NodeState } from './node-state.ts';
import {
  changesState,
  type IssuedOrder,
  type Order,
  readOrder,
  type signedAnswer,
  signedAnswerText,
} from './orders.ts';
import type { DaemonClient } from './wire.ts';

/** A question as the operator gets it; `whole` is there if parts of the question were cut and all of it fits. */
export interface FleetQuestion {
  readonly approval: Approval;
  readonly whole?: WholeQuestion;
  readonly proposedRule?: string | undefined;
}

/** Calls as the daemon of a node knows them; `leftOutBytes`: their results were larger than an answer may be. */
export interface FoundCalls {
  readonly calls: readonly FoundCall[];
  readonly leftOutBytes?: number;
}

export interface FoundCall {
  readonly callId: string;
  readonly tool?: string;
  readonly state?: { readonly status: string };
  readonly result?: { readonly success: boolean; readonly data?: unknown; readonly error?: unknown };
}

export type OrderAnswer =
  | { readonly refused: string }
  /** `next`: where further questions begin, if not all fit. */
  | { readonly questions: readonly FleetQuestion[]; readonly next?: number }
  | { readonly found: FoundCalls }
  | { readonly done: string };

export interface NodeOrdersOptions {
  readonly credential: { readonly name: string };
  readonly operatorKey: string;
  readonly keys: Pick<MemberKeys, 'sign'>;
  readonly state: NodeState;
  readonly daemon: DaemonClient;
  readonly limits: Limits;
  readonly powers: Powers;
}

export class NodeOrders {
  readonly #options: NodeOrdersOptions;

  constructor(options: NodeOrdersOptions) {
    this.#options = options;
  }

  /** Checks an order and obeys it; gives the signed answer to an order that was checked, else says why not. Never rejects. */
  async obey(given: unknown): Promise<z.infer<typeof signedAnswer> | { readonly refused: string }> {
    const { credential, operatorKey, state, limits, powers } = this.#options;
    const read = readOrder(given, {
      node: credential.name,
      operatorKey,
      nowMs: powers.now(),
      lastIssuedAtMs: state.lastIssuedAtMs,
      limits,
    });
    if ('refused' in read) {
      powers.log.warn({ reason: read.refused }, 'an order was refused');
      return read;
    }
    const answer = JSON.stringify(
      await this.#obeyChecked(read.issued).catch((error: Error): OrderAnswer => ({ refused: error.message })),
    );
    return { answer, signature: this.#options.keys.sign(signedAnswerText(read.issued.id, answer)) };
  }

  async #obeyChecked({ order, issuedAtMs }: IssuedOrder): Promise<OrderAnswer> {
    const { state, powers } = this.#options;
    if (order.kind !== 'questions' && order.kind !== 'call')
      powers.log.info({ order: order.kind }, 'an order of the operator');
    if (changesState(order)) state.note(issuedAtMs, order.kind === 'drain' ? order.drain : undefined);
    switch (order.kind) {
      case 'questions':
        return await this.#questions(order.from);
      case 'answer':
        return await this.#answer(order);
      case 'call':
        return { found: await this.#find(order) };
      case 'pause': {
        const { cancelled } = await this.#ask<{ cancelled: number }>('gateway.pause', { cancel: order.cancel });
        return { done: order.cancel ? `paused, ${cancelled} calls ended` : 'paused' };
      }
      case 'resume': {
        const { wasPaused } = await this.#ask<{ wasPaused: boolean }>('gateway.resume', {});
        return { done: wasPaused ? 'resumed' : 'it was not paused' };
      }
      case 'drain':
        return { done: order.drain ? 'takes no further sessions' : 'takes sessions again' };
      default:
        return order satisfies never;
    }
  }

  /** What became of a call. Results that don't fit into one message are left out. */
  async #find({ callId: id, result = false }: Order & { kind: 'call' }): Promise<FoundCalls> {
    const { fleetQuestionBytesMax } = this.#options.limits;
    const found = await this.#ask<FoundCalls>('calls.find', { id, results: result });
    const resultBytes = bytesOf(found);
    if (resultBytes <= fleetQuestionBytesMax) return found;
    return { calls: found.calls.map(({ result: _, ...it }) => it), leftOutBytes: resultBytes };
  }

  /** The questions from a position on, as many as fit into one message, but at least one. */
  async #questions(from: number): Promise<OrderAnswer> {
    const { approvals } = await this.#ask<{ approvals: Approval[] }>('approvals.list', {});
    const { fleetQuestionBytesMax } = this.#options.limits;
    const questions: FleetQuestion[] = [];
    let bytes = 0;
    for (const [at, { approvalId }] of approvals.entries()) {
      if (at < from) continue;
      const question = await this.#question(approvalId);
      if (!question) continue; // Answered meanwhile.
      bytes += bytesOf(question);
      if (bytes > fleetQuestionBytesMax && questions.length > 0) return { questions, next: at };
      questions.push(question);
    }
    return { questions };
  }

  async #question(approvalId: string): Promise<FleetQuestion | undefined> {
    let found: WholeApproval;
    try {
      found = await this.#ask<WholeApproval>('approvals.get', { approvalId });
    } catch {
      return undefined; // INVALID_PARAMS: nobody is asked any more.
    }
    const { approval, whole, proposedRule } = found;
    const shown = { approval, proposedRule };
    if (!approval.truncated) return shown;
    const complete = { ...shown, whole };
    return bytesOf(complete) > this.#options.limits.fleetQuestionBytesMax ? shown : complete;
  }

  async #answer({ kind: _, ...answer }: Order & { kind: 'answer' }): Promise<OrderAnswer> {
    await this.#ask('approvals.resolve', { ...answer, onBehalfOf: 'fleet' });
    return { done: answer.decision === 'approve' ? 'approved' : 'denied' };
  }

  #ask = async <T>(method: string, params: object): Promise<T> =>
    (await this.#options.daemon.request(method, params)) as T;
}

const bytesOf = (value: unknown): number => Buffer.byteLength(JSON.stringify(value));
