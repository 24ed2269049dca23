/**
 * The door of a new host: a person is asked about a host that no list of the policy names, when something connects to it. One question
 * for all connections of a session that wait for the same host and port; a connection waits for a while, the question for longer.
 */

import { ToolError } from '../../base/errors.ts';
import type { Limits } from '../../base/limits.ts';
import { settlesWithin } from '../../base/powers.ts';
import { companionsOf, registrableDomain, suspicionsOf } from '../../base/text/host-names.ts';
import { type Destination, mayAsk, parseNetworkEntry } from '../../policy/network.ts';
import type { DoorAnswer, DoorQuestion, HostQuestion } from '../../sandbox/egress/messages.ts';
import type { EgressReport } from '../../sandbox/egress/proxy-messages.ts';
import type { ApprovalDraft, GrantFacts, PersonAnswer } from '../../store/approvals/approval.ts';
import { asksOf, networkOf } from '../execute/bounds.ts';
import type { ClearedCall } from '../stage.ts';
import { askAtDoor, type DoorParts, draftAtDoor, factsAtDoor } from './door-facts.ts';
import { startPersonTime } from './person-time.ts';
import { programAt } from './program-at.ts';

export interface HostDoorParts extends DoorParts {
  readonly limits: Limits;
  /** How many clients could answer a question about a call of this session now. */
  approvers(sessionId: string): number;
  /** Whether the session's client gives a call up after a minute. */
  isImpatient(sessionId: string): boolean;
  /** Whether the person lists a host for the commands of a workspace. */
  isOpenIn(workspace: string, to: Destination): boolean;
}

/** The tiers whose policies have lists of hosts. */
export type NetworkTier = 'execute' | 'external_api';

/** What one call may have opened. */
export interface CallDoor {
  /** Which of the policy's layers have a person asked. */
  readonly asks: readonly boolean[];
  /** Bytes that the call may send to opened hosts before it has to ask. */
  readonly uploadBytesMax: number;
  answer(question: DoorQuestion): Promise<DoorAnswer>;
  /** Notes what the call sent. */
  sent(report: EgressReport): void;
}

interface WaitingQuestion {
  readonly answer: Promise<PersonAnswer>;
  /** Time until which connections wait for it. */
  readonly holdUntilMs: number;
  /** Calls whose connections wait for it. */
  readonly holders: Set<WaitingCall>;
}

/** A call, and whether what it runs is over. */
interface WaitingCall {
  readonly call: ClearedCall;
  isOver: boolean;
}

/** Questions of one session, and their answers. */
interface SessionDoors {
  /** Answers that are waited for, by target. */
  readonly waiting: Map<string, WaitingQuestion>;
  /** A late yes that counts for the next connection, by target, until that time. */
  readonly late: Map<string, number>;
  /** Domains about which a person said no, until that time. */
  readonly refused: Map<string, number>;
  /** Hosts that a person opened. */
  readonly opened: Set<string>;
  noes: number;
  unanswered: number;
  uploaded: number;
  readonly ended: AbortController;
}

const HOUR_MS = 3_600_000;
const NOES_MAX = 2;
const UNANSWERED_MAX = 3;
const TARGETS_KEPT_MAX = 256;
const SHOWN_CHARS = 2_000;

export class HostDoors {
  readonly #parts: HostDoorParts;
  readonly #sessions = new Map<string, SessionDoors>();
  /** Times of questions, by principal and configured workspace: a session in each of its folders gets no more of them. */
  readonly #asked = new Map<string, number[]>();

  constructor(parts: HostDoorParts) {
    this.#parts = parts;
  }

  /** The door of a call; undefined if its policy has nobody asked. */
  of(call: ClearedCall, tier: NetworkTier): CallDoor | undefined {
    const asks = asksOf(call.policyNow(), tier);
    if (!networkOf(call.policyNow(), tier) || !asks.some((it) => it)) return undefined;
    const { doorUploadBytesMax } = this.#parts.limits;
    const of: WaitingCall = { call, isOver: false };
    return {
      asks,
      uploadBytesMax: Math.max(0, doorUploadBytesMax - this.#of(call).uploaded),
      answer: (question) => this.#answer(of, tier, question),
      sent: ({ sent }) => {
        of.isOver = true;
        const session = this.#of(call);
        for (const { target, bytes } of sent) if (session.opened.has(target)) session.uploaded += bytes;
      },
    };
  }

  /** Time for which something that runs waits for a person, in ms. */
  holdMsOf(sessionId: string): number {
    const { isImpatient, limits } = this.#parts;
    return isImpatient(sessionId) ? limits.doorHoldUnseenMs : limits.doorHoldMs;
  }

  endSession(sessionId: string): void {
    this.#sessions.get(sessionId)?.ended.abort(new ToolError('CANCELLED', 'the session is over'));
    this.#sessions.delete(sessionId);
  }

  async #answer(of: WaitingCall, tier: NetworkTier, question: DoorQuestion): Promise<DoorAnswer> {
    const { call } = of;
    if (question.kind === 'program') return { refused: 'commands talk to no program of the person' };
    const closed = this.#closedBy(call, tier, question);
    if (closed !== undefined) return { refused: closed };
    const session = this.#of(call);
    const open = (): DoorAnswer => {
      const hosts = companionsOf(question.host);
      if (session.opened.size < TARGETS_KEPT_MAX)
        for (const host of hosts) session.opened.add(targetOf({ ...question, host }));
      return { open: hosts.map((host) => ({ ...parseNetworkEntry(host), ports: [question.port] })) };
    };
    if (question.kind === 'host' && (isApproved(call, question) || this.#isListed(call, tier, question))) return open();
    const facts = this.#factsOf(call, tier, question);
    const grant = this.#parts.approvals.remembered(facts, call.id);
    if (grant) return grant.decision === 'approve' ? open() : { refused: REMEMBERED_NO };
    const now = this.#parts.powers.now();
    if ((session.late.get(keyOf(question)) ?? 0) > now) {
      session.late.delete(keyOf(question));
      return open();
    }
    if ((session.refused.get(registrableDomain(question.host)) ?? 0) > now)
      return { refused: 'a person said no to this domain' };
    const known = session.waiting.get(keyOf(question));
    const refused = known ? undefined : this.#mayNotAsk(call, session);
    if (refused !== undefined) return { refused };
    const waiting = known ?? this.#ask(of, session, { facts, tier, question });
    const decision = await this.#hold(of, waiting);
    if (decision === 'approve') return open();
    return { refused: decision === 'deny' ? 'a person said no' : LATE };
  }

  /** Waits for the answer as long as a connection may; gives undefined if there is none by then. */
  async #hold(
    of: WaitingCall,
    { answer, holdUntilMs, holders }: WaitingQuestion,
  ): Promise<PersonAnswer['decision'] | undefined> {
    const { powers } = this.#parts;
    const restMs = holdUntilMs - powers.monotonicMs();
    if (restMs <= 0) return undefined;
    using _ = startPersonTime(of.call, powers).begin();
    holders.add(of);
    let decision: PersonAnswer['decision'] | undefined;
    const settled = answer.then(
      (it) => {
        decision = it.decision;
      },
      () => {}, // Expired, or the session is over: nobody answered.
    );
    await settlesWithin(settled, restMs, powers);
    holders.delete(of);
    // Whether or not there is an answer, the program goes on.
    const isUnderWay = !of.isOver && !of.call.controller.signal.aborted;
    if (isUnderWay) of.call.announce({ status: 'in-progress', startedAt: new Date(powers.now()).toISOString() });
    return decision;
  }

  /** Why a person is not asked now; undefined if they may be. */
  #mayNotAsk(call: ClearedCall, session: SessionDoors): string | undefined {
    const { approvers, limits, powers } = this.#parts;
    if (approvers(call.sessionId) === 0) return 'nobody is there to ask';
    if (session.noes >= NOES_MAX || session.unanswered >= UNANSWERED_MAX) {
      this.#close(call);
      return 'a person left or refused several questions about hosts, so no more are asked';
    }
    if (session.waiting.size >= limits.doorQuestionsMax)
      return `${limits.doorQuestionsMax} questions about hosts wait for a person, which is the maximum`;
    const key = JSON.stringify([call.principal, call.root]);
    const lately = (this.#asked.get(key) ?? []).filter((it) => it > powers.now() - HOUR_MS);
    this.#asked.set(key, lately);
    if (lately.length >= limits.doorQuestionsPerHour)
      return `${limits.doorQuestionsPerHour} questions about hosts were asked within an hour, which is the maximum`;
    lately.push(powers.now());
    return undefined;
  }

  #ask(
    of: WaitingCall,
    session: SessionDoors,
    asked: { facts: GrantFacts; tier: NetworkTier; question: HostQuestion },
  ): WaitingQuestion {
    const { approvals, limits, powers } = this.#parts;
    const { doorQuestionMs } = limits;
    const { signal } = session.ended;
    const answer = askAtDoor(of.call, this.#draftOf(of.call, asked), { approvals, signal });
    const holdMs = this.holdMsOf(of.call.sessionId);
    const waiting: WaitingQuestion = { answer, holdUntilMs: powers.monotonicMs() + holdMs, holders: new Set() };
    const key = keyOf(asked.question);
    session.waiting.set(key, waiting);
    const untilMs = () => powers.now() + doorQuestionMs;
    const note = (it: PersonAnswer | undefined) => {
      session.waiting.delete(key);
      if (it?.decision === 'approve') session.unanswered = 0;
      else if (it) session.noes += 1;
      else session.unanswered += 1;
      // The programs have given up: it counts for the next connection.
      const isLate = [...waiting.holders].every(({ isOver }) => isOver);
      if (it?.decision === 'approve' && isLate) remember(session.late, key, untilMs());
      if (it?.decision === 'deny') remember(session.refused, registrableDomain(asked.question.host), untilMs());
    };
    waiting.answer.then(note, () => note(undefined));
    return waiting;
  }

  /** A session with a passed-on token has none of what its parent's person opened. */
  #isListed(call: ClearedCall, tier: NetworkTier, to: Destination): boolean {
    return tier === 'execute' && !call.atDoors.isDelegated && this.#parts.isOpenIn(call.workspace, to);
  }

  /** Why the policy that is in force now closes the door; undefined if it has a person asked. */
  #closedBy(call: ClearedCall, tier: NetworkTier, to: Destination): string | undefined {
    const layers = networkOf(call.policyNow(), tier);
    const isAsked = layers && mayAsk({ layers, asks: asksOf(call.policyNow(), tier) }, to);
    return isAsked ? undefined : `${to.host} is not in the policy's list, and nobody is asked about it`;
  }

  #of({ atDoors: { sessionId } }: ClearedCall): SessionDoors {
    const known = this.#sessions.get(sessionId);
    if (known) return known;
    const made: SessionDoors = {
      waiting: new Map(),
      late: new Map(),
      refused: new Map(),
      opened: new Set(),
      noes: 0,
      unanswered: 0,
      uploaded: 0,
      ended: new AbortController(),
    };
    this.#sessions.set(sessionId, made);
    return made;
  }

  #factsOf(call: ClearedCall, tier: NetworkTier, question: HostQuestion): GrantFacts {
    const door = { kind: question.kind, target: targetOf(question) };
    const { checked, policy } = call;
    return factsAtDoor(call.atDoors, door, {
      tool: checked.tool.name,
      rule: ruleOf(tier),
      policyVersion: policy.version,
    });
  }

  #draftOf(
    call: ClearedCall,
    { facts, tier, question }: { facts: GrantFacts; tier: NetworkTier; question: HostQuestion },
  ): ApprovalDraft {
    const { limits, powers, redact } = this.#parts;
    const charsMax = Math.min(SHOWN_CHARS, limits.approvalShownChars);
    const target = targetOf(question);
    const companions = companionsOf(question.host).filter((it) => it !== question.host);
    const program = question.clientPort === undefined ? undefined : programAt(question.clientPort);
    const isUpload = question.kind === 'upload';
    const domain = registrableDomain(question.host);
    const description = isUpload
      ? `${target} was sent ${question.sent} bytes, and more waits to be sent.`
      : `${program ?? 'A program'} connects to ${target}, of the domain ${domain.toUpperCase()}. New: not allowed yet.`;
    return {
      ...draftAtDoor(call, facts, { powers, redact, charsMax }),
      effects: [{ kind: 'connect', target }],
      impact: {
        level: facts.level,
        description,
        warnings: [
          ...suspicionsOf(question.host),
          'Commands of this session can then send it anything they can read',
          ...(companions.length > 0 && !isUpload ? [`Opens its companions as well: ${companions.join(', ')}`] : []),
        ],
      },
      door: { kind: question.kind, target, program },
      remember: { door: isUpload ? `sending as much as is needed to ${target}` : `connections to ${target}` },
      reason: isUpload ? 'It was sent much more than it sent back.' : 'No list of the policy names this host.',
      rule: ruleOf(tier),
      timeoutMs: limits.doorQuestionMs,
    };
  }

  /** Remembers, where a person can see and revoke it, that this session asks about no more hosts. */
  #close(call: ClearedCall): void {
    const session = this.#of(call);
    session.noes = 0;
    session.unanswered = 0;
    this.#parts.approvals.closeDoors(this.#factsOf(call, 'execute', { kind: 'host', host: '*', port: 0, sent: 0 }));
  }
}

function remember(all: Map<string, number>, key: string, untilMs: number): void {
  if (all.size < TARGETS_KEPT_MAX) all.set(key, untilMs);
}

const REMEMBERED_NO = 'a person said no, or refused several hosts, for this session (`ringfence approvals grants`)';
const LATE = 'nobody answered in time; the question stays, and a yes counts for the next connection';

const ruleOf = (tier: NetworkTier): string => `tiers.${tier}.network`;
const targetOf = ({ host, port }: Destination): string => `${host.includes(':') ? `[${host}]` : host}:${port}`;
const keyOf = (question: HostQuestion): string => `${question.kind} ${targetOf(question)}`;

/** Whether a person, or a remembered answer, has just said yes to this very host as the call's own effect. */
const isApproved = ({ approval, checked }: ClearedCall, to: Destination): boolean =>
  approval !== undefined && checked.effects.some((it) => it.kind === 'connect' && it.target === targetOf(to));
