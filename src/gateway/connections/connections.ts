/** The gateway's connections by transport: those that have not said hello yet, and the places of those that have. */
import type { Limits } from '../../base/limits.ts';
import type { Powers } from '../../base/powers.ts';
import type { Peer } from '../../wire/protocol/peer.ts';
import type { Channel } from '../../wire/transport/transport.ts';
import { WaitingRoom } from '../../wire/transport/waiting-room.ts';
import type { Identity } from '../authenticate.ts';
import type { Connection } from '../client-link.ts';
import { ConnectionShares } from './shares.ts';

export interface PeerConnection extends Connection {
  readonly channel: Channel;
  readonly peer: Peer;
  /** Whether the first request has arrived and not been handled yet. */
  readonly isUnheard: boolean;
  /** Whether its first request was handled. */
  isHeard: boolean;
  /** Present after hello. */
  slot?: Disposable;
}

interface ListenerLimits {
  /** Connections with a verified token wait separately, so that a flood of others can't take their places. */
  readonly rooms: { readonly known: WaitingRoom; readonly unknown: WaitingRoom };
  readonly shares: ConnectionShares;
}

export class Connections {
  readonly #connections = new Set<PeerConnection>();
  readonly #doors: Readonly<Record<Channel['kind'], ListenerLimits>>;

  constructor(limits: Limits, powers: Powers) {
    const doorOf = (max: number): ListenerLimits => ({
      rooms: { known: new WaitingRoom(limits, powers), unknown: new WaitingRoom(limits, powers) },
      shares: new ConnectionShares(max, limits),
    });
    this.#doors = { unix: doorOf(limits.connectionsMax), websocket: doorOf(limits.webSocketConnectionsMax) };
  }

  get all(): Iterable<PeerConnection> {
    return this.#connections;
  }

  get size(): number {
    return this.#connections.size;
  }

  /** Adds a connection that has not said hello; false if too many arrived at once and it must be closed. */
  enter(connection: PeerConnection): boolean {
    const isTaken = this.#roomOf(connection).enter(connection);
    if (isTaken) this.#connections.add(connection);
    return isTaken;
  }

  /** Counts the connection as one of this identity and removes it from the waiting room. Throws OVERLOADED if the identity has too many. */
  admit(connection: PeerConnection, identity: Identity): void {
    const { kind, credentials } = connection.channel;
    // All sessions of a fleet come from the one process that links this node to it.
    const pid = identity.fence ? undefined : credentials?.pid;
    connection.slot ??= this.#doors[kind].shares.take({ ...identity, pid });
    this.#roomOf(connection).leave(connection);
  }

  leave(connection: PeerConnection): void {
    this.#roomOf(connection).leave(connection);
    connection.slot?.[Symbol.dispose]();
    this.#connections.delete(connection);
  }

  #roomOf({ channel: { kind, authenticated } }: PeerConnection): WaitingRoom {
    return this.#doors[kind].rooms[authenticated ? 'known' : 'unknown'];
  }
}
