/** Names on the bus. Each member may publish under names of its own only; bus-config.ts makes the server hold that. */

export const subjects = {
  /** Heartbeats of a node. */
  heartbeat: (node: string) => `rf.hb.${node}`,
  /** Says that the questions of a node have changed. */
  questions: (node: string) => `rf.ap.${node}`,
  /** Entries of a node's audit log, which the hub answers. */
  audit: (node: string) => `rf.audit.${node}`,
  /** Signed orders for a node, which it answers. */
  order: (node: string) => `rf.op.${node}`,
  /** Asks the hub what it knows of the nodes' audit logs. */
  hubStatus: 'rf.hub.status',
  /** Asks the hub for the roster. */
  roster: 'rf.roster',
  /** Asks the hub for the policy bundle that the roster requires. */
  policy: 'rf.policy',
  /** A gateway asks a node to open a session. */
  open: (node: string) => `rf.node.${node}.open`,
  /** Sealed messages of one session, to the node and to the gateway. */
  toNode: (node: string, session: string) => `rf.node.${node}.s.${session}`,
  toGateway: (gateway: string, node: string, session: string) => `rf.gw.${gateway}.${node}.${session}`,
  /** A request to join, answered by the operator who waits for it. */
  join: (invitation: string) => `rf.join.${invitation}`,
} as const;

/** The prefix of subjects at which a member gets answers; nobody else may subscribe to them. */
export const inboxOf = (role: string, name: string): string => `_INBOX.${role}-${name}`;

/** The last part of a subject: the name of who published it, or the session that it belongs to. */
export const publisherOf = (subject: string): string => subject.slice(subject.lastIndexOf('.') + 1);
