/** A session and what it tells to whoever is connected to it, if anybody is. */
import { RpcError } from '../errors.ts';
import type { Limits } from '../limits.ts';
import type { Timer } from '../powers.ts';
import type { Params, Topic } from '../protocol/messages.ts';
import type { Event, Events } from './events.ts';
import type { Outbox } from './outbox.ts';
import type { Session } from './session.ts';

/** Who is told what happens in a session: a peer of the daemon, or a face that lives in this process. */
export interface Audience {
  readonly closed: boolean;
  /** Whether it reads so slowly that nothing more should be made for it. */
  readonly congested: boolean;
  /** Whether it can ask a person about the calls of its session. */
  readonly asks?: boolean;
  notify(method: string, params: Record<string, unknown>): void;
  /** Ends after what it was told has reached it. */
  close(): void;
}

/** What a session is connected to. */
export interface Connection {
  readonly peer: Audience;
  /** Ends it at once. */
  destroy(): void;
  /** Once it has said hello, until another connection takes its session over. */
  link?: Link;
}

export interface Link {
  readonly session: Session;
  readonly outbox: Outbox;
  readonly subscriptions: (Disposable & { readonly topics: ReadonlySet<Topic> })[];
  /** Of the process that opened it, where the kernel says; only that one may come back. */
  readonly uid: number | undefined;
  /** Name of the policy that its hello asked to be narrowed by. */
  readonly asked: string | undefined;
  /** How long it waits for its client to come back; 0: not at all. */
  readonly resumeMs: number;
  connection?: Connection | undefined;
  /** Ends it, while nobody is connected. */
  waiting?: Timer | undefined;
}

export interface SubscribeParts {
  readonly events: Events;
  readonly limits: Limits;
}

/** Answers events.subscribe. Throws FORBIDDEN for topics that are not an agent's, OVERLOADED. */
export function subscribe(
  { session, outbox, subscriptions }: Link,
  { topics, afterSeq }: Params<'events.subscribe'>,
  { events, limits }: SubscribeParts,
): object {
  const { role, id } = session.options;
  const restricted: Topic[] = ['audit', 'approvals'];
  if (role !== 'operator' && topics.some((it) => restricted.includes(it)))
    throw new RpcError('FORBIDDEN', 'these topics are for operators');
  if (subscriptions.length >= limits.subscriptionsMax)
    throw new RpcError('OVERLOADED', `a session has at most ${limits.subscriptionsMax} subscriptions`);
  const tell = ({ topic, sessionId, seq, method, params }: Event) => {
    if (topics.includes(topic) && (role === 'operator' || topic === 'policy' || sessionId === id))
      outbox.notify(method, { ...params, seq });
  };
  // What comes before all of that was told waits behind it, so that numbers only grow.
  let waiting: Event[] | undefined = afterSeq === undefined ? [] : events.after(afterSeq);
  const hear = (event: Event) => void (waiting ? waiting.push(event) : tell(event));
  subscriptions.push({ topics: new Set(topics), ...events.listen(hear) });
  // After the answer, so that nothing of a subscription comes before its number; and before a next request is read, whose
  // result its own updates would else come behind.
  setImmediate(() => {
    const missed = waiting ?? [];
    waiting = undefined;
    for (const event of missed) tell(event);
  });
  return { subscription: subscriptions.length, seq: events.seq };
}
