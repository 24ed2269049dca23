/**
 * What the operator orders a node to do, signed for that node, for a time. A node obeys nothing else: whoever has the bus
 * can keep an order back, and can neither make nor change one, nor use one again.
 */
import * as z from 'zod';
import type { Limits } from '../base/limits.ts';
import { parseJson } from '../base/text/json.ts';
import { memberName } from './roster.ts';
import { type SignedText, signedText, signText, verifiedText } from './signing.ts';

const order = z.discriminatedUnion('kind', [
  /** Asks for the questions that wait; the node answers with the next ones from `from` on. */
  z.strictObject({ kind: z.literal('questions'), from: z.int().min(0) }),
  z.strictObject({
    kind: z.literal('answer'),
    approvalId: z.string().max(64),
    /** Hash of what the operator saw. */
    digest: z.string().regex(/^[0-9a-f]{64}$/),
    decision: z.enum(['approve', 'deny']),
    feedback: z.string().max(4096).optional(),
  }),
  /** Asks what became of a call; with `result`, for its result, which the bus can then read. */
  z.strictObject({ kind: z.literal('call'), callId: z.string().min(1).max(128), result: z.boolean().optional() }),
  /** Keeps calls from beginning; with `cancel`, ends those that run. */
  z.strictObject({ kind: z.literal('pause'), cancel: z.boolean() }),
  z.strictObject({ kind: z.literal('resume') }),
  /** Takes no further sessions of the fleet, or takes them again. */
  z.strictObject({ kind: z.literal('drain'), drain: z.boolean() }),
]);

export type Order = z.infer<typeof order>;

const orderBody = z.strictObject({
  /** Names the order in its answer. */
  id: z.string().regex(/^[0-9a-f]{64}$/),
  node: memberName,
  /** Milliseconds since the epoch, by the operator's clock. */
  issuedAtMs: z.int().min(0),
  expiresAtMs: z.int().min(0),
  order,
});

export type IssuedOrder = z.infer<typeof orderBody>;

export const signOrder = (issued: IssuedOrder, privateKey: string): SignedText =>
  signText('order', JSON.stringify(issued), privateKey);

export interface OrderCheck {
  readonly node: string;
  readonly operatorKey: string;
  readonly nowMs: number;
  /** When the last order that changed the node's state was issued. */
  readonly lastIssuedAtMs: number;
  readonly limits: Limits;
}

/** How far the operator's clock may be ahead of the node's. */
const AHEAD_MS = 60_000;

/** Whether an order changes the state of the node, so that an older one must not undo it. An answer can be used once anyway. */
export const changesState = ({ kind }: Order): boolean => kind === 'pause' || kind === 'resume' || kind === 'drain';

/** The order of a message, or why the node does not obey it. */
export function readOrder(given: unknown, check: OrderCheck): { issued: IssuedOrder } | { refused: string } {
  const signed = signedText.safeParse(given);
  const text = signed.success ? verifiedText('order', signed.data, check.operatorKey) : undefined;
  if (text === undefined) return { refused: 'the order is not signed by the operator of this fleet' };
  const parsed = orderBody.safeParse(parseJson(text));
  if (!parsed.success) return { refused: 'this version of Ringfence does not know the order' };
  const { node, issuedAtMs, expiresAtMs, order } = parsed.data;
  const { nowMs, lastIssuedAtMs, limits } = check;
  if (node !== check.node) return { refused: `the order is for ${node}, not for ${check.node}` };
  if (expiresAtMs <= nowMs) return { refused: `the order expired ${nowMs - expiresAtMs} ms ago by this node's clock` };
  if (expiresAtMs - issuedAtMs > limits.fleetOrderMs)
    return { refused: `an order holds for at most ${limits.fleetOrderMs} ms, not ${expiresAtMs - issuedAtMs}` };
  if (issuedAtMs > nowMs + AHEAD_MS) return { refused: `the order was issued ${issuedAtMs - nowMs} ms from now` };
  if (changesState(order) && issuedAtMs <= lastIssuedAtMs)
    return { refused: 'the order is older than one that this node has obeyed' };
  return { issued: parsed.data };
}

/** An answer to an order, as the node signs it. */
export const signedAnswerText = (id: string, answer: string): string => `ringfence fleet answer 1\n${id}\n${answer}`;

export const signedAnswer = z.strictObject({ answer: z.string(), signature: z.string().max(128) });
