/** What the operator's verbs know of the nodes: their heartbeats, and orders to them with their answers. */

import { defaultLimits as limits } from '../../base/limits.ts';
import { pause } from '../../base/powers.ts';
import { jsonOr } from '../../base/text/json.ts';
import { isRecord } from '../../base/text/values.ts';
import { FleetError } from '../../fleet/fleet-error.ts';
import { readFleet } from '../../fleet/folder.ts';
import { type FleetLink, Unanswered } from '../../fleet/link.ts';
import { isSignedBy } from '../../fleet/nats.ts';
import type { OrderAnswer } from '../../fleet/node-orders.ts';
import { type Order, signedAnswer, signedAnswerText, signOrder } from '../../fleet/orders.ts';
import { type Heartbeat, Presence, presenceAt, SUSPECTED_MS } from '../../fleet/presence.ts';
import type { Member, Roster } from '../../fleet/roster.ts';
import { publisherOf, subjects } from '../../fleet/subjects.ts';
import { fromWire, toWire } from '../../fleet/wire.ts';
import { connectOperator, keptAlive, powers } from './operator.ts';

/** A node of the roster, and its last heartbeat if one was heard. */
export interface KnownNode {
  readonly name: string;
  readonly labels: readonly string[];
  readonly beat: Heartbeat | undefined;
  /** Whether it follows the policy that the roster names. */
  readonly hasPolicy: boolean;
}

/** Time for an order, both its way and its answer. */
const ORDER_MS = 10_000;
/** How long an order holds: more than its way takes, by clocks that differ. */
const VALID_MS = 120_000;

export class Nodes implements AsyncDisposable {
  readonly link: FleetLink;
  readonly #folder: string;
  #roster: Roster;
  readonly #privateKey: string;

  private constructor(folder: string, link: FleetLink, { roster, privateKey }: ReturnType<typeof readFleet>) {
    this.link = link;
    this.#folder = folder;
    this.#roster = roster;
    this.#privateKey = privateKey;
  }

  /** Connects to the bus of a fleet. Throws FleetError. */
  static async connect(folder: string): Promise<Nodes> {
    const fleet = readFleet(folder, limits);
    return new Nodes(folder, await connectOperator(folder), fleet);
  }

  get fleet(): string {
    return this.#roster.fleet;
  }

  get names(): string[] {
    return this.#members.map((it) => it.name);
  }

  get #members(): Member[] {
    return this.#roster.members.filter((it) => it.role === 'node');
  }

  /** All nodes, after listening for as long as a node that is there may be silent. */
  async look(): Promise<KnownNode[]> {
    const presence = new Presence(limits.fleetMembersMax);
    const hear = ({ subject, data }: { subject: string; data: Uint8Array }) =>
      presence.hear(publisherOf(subject), fromWire(data), powers.monotonicMs());
    using _ = this.link.subscribe(subjects.heartbeat('*'), hear);
    await pause(SUSPECTED_MS, keptAlive);
    return this.known(presence, powers.monotonicMs());
  }

  /** All nodes, with the heartbeats of those that are there. */
  known(presence: Presence, nowMs: number): KnownNode[] {
    return this.#members.map(({ name, labels }) => {
      const heard = presence.all.find((it) => it.node === name && presenceAt(it.heardAtMs, nowMs) === 'here');
      const beat = heard?.beat;
      return { name, labels, beat, hasPolicy: [undefined, beat?.policy].includes(this.#roster.policy) };
    });
  }

  /** Reads the roster again. Throws FleetError. */
  refresh(): void {
    this.#roster = readFleet(this.#folder, limits).roster;
  }

  /** Sends an order and gives the node's answer, which the node has signed. Throws FleetError if none comes. */
  async order(node: string, order: Order): Promise<OrderAnswer> {
    const key = this.#members.find((it) => it.name === node)?.key;
    if (key === undefined) throw new FleetError(`the fleet has no node ${node}`);
    const id = powers.secret();
    const issuedAtMs = powers.now();
    const signed = signOrder({ id, node, issuedAtMs, expiresAtMs: issuedAtMs + VALID_MS, order }, this.#privateKey);
    const answer = fromWire(await this.#sent(node, toWire(signed)));
    const parsed = signedAnswer.safeParse(answer);
    if (!parsed.success) throw new FleetError(`${node} refused: ${refusalOf(answer)}`);
    if (!(await isSignedBy(key, signedAnswerText(id, parsed.data.answer), parsed.data.signature)))
      throw new FleetError(`somebody else than ${node} answered`);
    const told = toldBy(node, parsed.data.answer);
    if ('refused' in told) throw new FleetError(`${node} refused: ${told.refused}`);
    return told;
  }

  async #sent(node: string, data: Uint8Array): Promise<Uint8Array> {
    try {
      return await this.link.request(subjects.order(node), data, ORDER_MS);
    } catch (error) {
      if (!(error instanceof Unanswered)) throw error;
      const why = error.why === 'nobody' ? 'is not there, and got nothing' : 'did not answer; it may have obeyed';
      throw new FleetError(`${node} ${why}`);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.link[Symbol.asyncDispose]();
  }
}

/** What an unsigned answer says, which anybody on the bus may have written. */
function refusalOf(answer: unknown): string {
  const { refused } = (answer ?? {}) as { refused?: unknown };
  return typeof refused === 'string' ? refused.slice(0, 512) : 'it gave no reason';
}

/** The answer in a text that the node has signed. Throws FleetError if it is none. */
function toldBy(node: string, text: string): OrderAnswer {
  const told = jsonOr(text, undefined);
  if (isRecord(told)) return told as OrderAnswer;
  throw new FleetError(`${node} sent something that is no answer`);
}
