/** A session together with its connected client, if there is one. */

import { RpcError } from '../base/errors.ts';
import type { Limits } from '../base/limits.ts';
import { afterMicrotasks, type Powers, type Timer } from '../base/powers.ts';
import type { Params, Topic } from '../wire/protocol/messages.ts';
import { GatheredUpdates } from './connections/gathered-updates.ts';
import type { Event, Events } from './events.ts';
import type { NoticeReceiver, Outbox } from './outbox.ts';
import type { Session } from './session.ts';

/** The connection of a session. */
export interface Connection {
  readonly peer: NoticeReceiver;
  /** Closes immediately. */
  destroy(): void;
  /** Present from hello until another connection takes the session over. */
  link?: ClientLink;
}

export interface ClientLink {
  readonly session: Session;
  readonly outbox: Outbox;
  readonly subscriptions: (Disposable & { readonly topics: ReadonlySet<Topic> })[];
  /** User id of the opening process, if the kernel tells; only this user may resume the session. */
  readonly uid: number | undefined;
  /** Name of the narrowing policy that its hello asked for. */
  readonly askedPolicy: string | undefined;
  /** How long the session waits for its client to come back, in milliseconds; 0 means not at all. */
  readonly resumeMs: number;
  connection?: Connection | undefined;
  /** Ends the session while no client is connected. */
  resumeTimer?: Timer | undefined;
}

export interface SubscribeParts {
  readonly events: Events;
  readonly limits: Limits;
  readonly powers: Powers;
}

/** Answers `events.subscribe`. Throws FORBIDDEN for topics reserved for operators, OVERLOADED. */
export function subscribe(
  { session, outbox, subscriptions }: ClientLink,
  { topics, afterSeq, everyMs }: Params<'events.subscribe'>,
  { events, limits, powers }: SubscribeParts,
): object {
  const { role, id } = session.options;
  const restricted: Topic[] = ['audit', 'approvals'];
  if (role !== 'operator' && topics.some((it) => restricted.includes(it)))
    throw new RpcError('FORBIDDEN', 'these topics are for operators');
  if (subscriptions.length >= limits.subscriptionsMax)
    throw new RpcError('OVERLOADED', `a session has at most ${limits.subscriptionsMax} subscriptions`);
  const send = ({ method, params, seq }: Event) => outbox.notify(method, { ...params, seq });
  const gathered =
    everyMs === undefined
      ? undefined
      : new GatheredUpdates({ everyMs, callsMax: limits.callUpdatesHeldMax, powers, tell: send });
  const tell = (event: Event) => {
    const { topic, sessionId } = event;
    if (!topics.includes(topic) || !(role === 'operator' || topic === 'policy' || sessionId === id)) return;
    if (gathered) gathered.hear(event);
    else send(event);
  };
  // Events that arrive before the missed ones were sent wait behind them, so sequence numbers only grow.
  let waiting: Event[] | undefined = afterSeq === undefined ? [] : events.eventsAfter(afterSeq);
  const hear = (event: Event) => void (waiting ? waiting.push(event) : tell(event));
  const listening = events.listen(hear);
  subscriptions.push({
    topics: new Set(topics),
    [Symbol.dispose]() {
      listening[Symbol.dispose]();
      gathered?.[Symbol.dispose]();
    },
  });
  // After the answer is sent, which takes microtasks alone, so the subscription's number precedes its events; and before another request
  // is read, so its updates precede its result.
  afterMicrotasks(() => {
    const missed = waiting ?? [];
    waiting = undefined;
    for (const event of missed) tell(event);
  });
  return { subscription: subscriptions.length, seq: events.seq };
}
