/** Bounds of the fleet: of what comes over the bus, which is trusted with nothing. */
import { bytes, count, KiB, MiB, ms } from './units.ts';

export const fleetLimits = {
  /** Bytes of one message on the bus, below what its server takes by default; a longer one is dropped unread. */
  fleetMessageBytesMax: bytes().default(768 * KiB),
  /** Machines and people in a fleet's roster; each has permissions in the config of the bus. */
  fleetMembersMax: count().default(1024),
  /** Invitations that nobody has taken; each is a user of the bus who may ask to join. */
  fleetInvitationsMax: count().default(64),
  /** Bytes of the questions in one answer of a node; the others follow when these are answered. */
  fleetQuestionBytesMax: bytes().default(256 * KiB),
  /** Sessions of the fleet on one node; each is a session of its daemon. */
  fleetSessionsMax: count().default(256),
  /** Bytes of one session on their way over the bus, so that a slow reader holds up its own session only. */
  fleetWindowBytes: bytes().default(MiB),
  /** Bytes that all sessions of one connection have sent and the server has not taken, so that signs of life are in time. */
  fleetUnflushedBytes: bytes().default(512 * KiB),
  /** Longest time for which a signed order holds, so that a bus which keeps it back can't use it later. */
  fleetOrderMs: ms().default(600_000),
  /** Bytes of entries of the audit log in one message to the collector. */
  fleetAuditBatchBytes: bytes().default(256 * KiB),
  /** Newest entries of each node's log that the collector keeps, so that one node can't fill the hub's disk. */
  fleetCollectedEntriesMax: count().default(1_000_000),
};
