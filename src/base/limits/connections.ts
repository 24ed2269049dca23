/** Bounds of connections: their number, their share for each principal, and how long they may be silent. */
export const connectionLimits = {
  /** Connections to the Unix socket that have said hello; each costs about 30 KiB when idle. Operators have extra places. */
  connectionsMax: 256,
  /** WebSocket connections that have said hello, counted separately so that neither transport takes the places of the other. */
  webSocketConnectionsMax: 128,
  /**
   * Connections of one transport that have not said hello, or presented a token, yet; the oldest is dropped for a new one, so that silent
   * ones lock nobody out.
   */
  connectionsBeforeHelloMax: 32,
  /** Time for a connection to say hello before it may be dropped for others; a shorter time would lock out busy clients. */
  connectionGraceMs: 250,
  /** Connections that have not said hello, including those in their grace period; further ones are closed at once. */
  connectionsBurstMax: 2048,
  /**
   * Share of a transport's connections that one principal may have, so that others still find a place; one of its processes may have two
   * thirds of that.
   */
  principalConnectionShare: 0.75,
  /** Connections reserved for operators when agents have taken all others: an operator must be able to see and stop a flood. */
  operatorConnectionsMax: 16,
  /** Time after which a connection that has not said hello is dropped. */
  helloTimeoutMs: 10_000,
  /** Time for which a token that a session passed on works at most; whoever has it can do what it covers. */
  attenuationMs: 86_400_000,
  /** Tokens of one session in force; each is a record in memory, and sessions may be opened with it. */
  attenuationsPerSessionMax: 64,
  /** Tokens of all sessions in force. */
  attenuationsMax: 1_024,
  /** How often authority is passed on from the first session; each step is looked through for every call. */
  delegationDepthMax: 8,
};
