/** Bounds of delegated sessions: tokens that sessions pass on. */

export const delegationLimits = {
  /** Time for which a token that a session passed on works at most; whoever has it can do what it covers. */
  attenuationMs: 86_400_000,
  /** Tokens of one session in force; each is a record in memory, and sessions may be opened with it. */
  attenuationsPerSessionMax: 64,
  /** Tokens of all sessions in force. */
  attenuationsMax: 1_024,
  /** How often authority is passed on from the first session; each step is looked through for every call. */
  delegationDepthMax: 8,
};
