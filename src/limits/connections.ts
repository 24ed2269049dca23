/** Bounds of connections: how many, whose, and how long they may say nothing. */
import * as z from 'zod';
import { count, ms } from './units.ts';

export const connectionLimits = {
  /** Connections to the Unix socket that have said hello; each costs about 30 KiB when idle. Operators have places beyond it. */
  connectionsMax: count().default(256),
  /** The same of the WebSocket, so that neither takes the places of the other. */
  webSocketConnectionsMax: count().default(128),
  /** Connections of one transport that have not said hello, or shown a token, yet; the oldest makes room, so that silent ones shut nobody out. */
  connectionsBeforeHelloMax: count().default(32),
  /** How long a connection has to say hello before it may have to make room: less than a busy client needs would shut that out. */
  connectionGraceMs: ms().default(250),
  /** Connections that have not said hello, those that are younger than that included; further ones are ended at once. */
  connectionsBurstMax: count().default(2048),
  /** Share of the connections of a transport that one principal may have, so that the others still find a place. */
  principalConnectionShare: z.number().gt(0).max(1).default(0.75),
  /** Connections that operators may have when agents have taken all others: whoever is flooded must be able to look, and to stop it. */
  operatorConnectionsMax: count().default(16),
  /** A connection that has not said hello by then is dropped. */
  helloTimeoutMs: ms().default(10_000),
};
