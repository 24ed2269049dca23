/** One peer of the daemon, and what it listens to. */
import { RpcError } from '../errors.ts';
import type { Limits } from '../limits.ts';
import type { Powers } from '../powers.ts';
import type { Params, Topic } from '../protocol/messages.ts';
import type { Peer } from '../protocol/peer.ts';
import type { Channel } from '../transport/transport.ts';
import type { Event, Events } from './events.ts';
import type { Session } from './session.ts';

export interface Connection {
  readonly channel: Channel;
  peer: Peer;
  /** Once it has said hello. */
  session?: Session;
  subscriptions: (Disposable & { readonly topics: ReadonlySet<Topic> })[];
}

export interface SubscribeParts {
  readonly events: Events;
  readonly limits: Limits;
  readonly powers: Powers;
}

/** Answers events.subscribe. Throws FORBIDDEN for topics that are not an agent's, OVERLOADED. */
export function subscribe(
  connection: Connection,
  { topics, afterSeq }: Params<'events.subscribe'>,
  { events, limits, powers }: SubscribeParts,
): object {
  const { role, id } = (connection.session as Session).options;
  const restricted: Topic[] = ['audit', 'approvals'];
  if (role !== 'operator' && topics.some((it) => restricted.includes(it)))
    throw new RpcError('FORBIDDEN', 'these topics are for operators');
  if (connection.subscriptions.length >= limits.subscriptionsMax)
    throw new RpcError('OVERLOADED', `a connection has at most ${limits.subscriptionsMax} subscriptions`);
  const tell = ({ topic, sessionId, seq, method, params }: Event) => {
    if (topics.includes(topic) && (role === 'operator' || topic === 'policy' || sessionId === id))
      connection.peer.notify(method, { ...params, seq });
  };
  connection.subscriptions.push({ topics: new Set(topics), ...events.listen(tell) });
  // After the answer, so that nothing of a subscription comes before its number.
  if (afterSeq !== undefined) for (const event of events.after(afterSeq)) powers.after(0, () => tell(event));
  return { subscription: connection.subscriptions.length, seq: events.seq };
}
