/** Bounds of the fleet: of what comes over the bus, which is trusted with nothing. */
import { KiB, MiB } from './units.ts';

export const fleetLimits = {
  /** Bytes of one message on the bus, below what its server takes by default; a longer one is dropped unread. */
  fleetMessageBytesMax: 768 * KiB,
  /** Machines and people in a fleet's roster; each has permissions in the config of the bus. */
  fleetMembersMax: 1024,
  /** Invitations that nobody has taken; each is a user of the bus who may ask to join. */
  fleetInvitationsMax: 64,
  /** Bytes of the questions in one answer of a node; the others follow when these are answered. */
  fleetQuestionBytesMax: 256 * KiB,
  /** Sessions of the fleet on one node; each is a session of its daemon. */
  fleetSessionsMax: 256,
  /** Bytes of one session on their way over the bus, so that a slow reader holds up its own session only. */
  fleetWindowBytes: MiB,
  /** Bytes that all sessions of one connection have sent and the server has not taken, so that signs of life are in time. */
  fleetUnflushedBytes: 512 * KiB,
  /** Repositories that a node keeps a mirror of; the least recently used one makes room. */
  fleetMirrorsMax: 32,
  /** Bytes of one mirror, and of each file that git writes for it, so that no repository fills the disk. */
  fleetMirrorBytes: 2048 * MiB,
  /** Bytes of all mirrors of a node; the least recently used ones make room. */
  fleetMirrorsBytes: 8192 * MiB,
  /** Fetches that a mirror takes before it is made anew, since each adds a file that every clone copies. */
  fleetMirrorPacksMax: 64,
  /** Time for one fetch or push, so that a slow server holds no place for ever. */
  fleetFetchMs: 300_000,
  /** Fetches, pushes and other runs of git of one node at a time; further ones wait. */
  fleetGitRunsMax: 4,
  /** Memory of one run of git, where control groups count it. */
  fleetGitMemoryMb: 1024,
  /** Files of a commit that a session works on, and files that come back from it. */
  fleetCheckoutFilesMax: 200_000,
  /** Bytes of these files, so that a small repository can't unpack to a full disk. */
  fleetCheckoutBytes: 2048 * MiB,
  /** Bytes of a bundle that a client uploads. */
  fleetBundleBytes: 256 * MiB,
  /** Bytes of changed files that come back from a session, and of the bundle or patch that holds them. */
  fleetReturnBytes: 256 * MiB,
  /** Clones on one node, those of open sessions and those that are kept. */
  fleetClonesMax: 512,
  /** Clones of ended sessions that are kept for who has not collected their changes; the oldest makes room. */
  fleetKeptMax: 128,
  /** Time for which such a clone is kept. */
  fleetKeptMs: 3_600_000,
  /** Longest time for which a signed order holds, so that a bus which keeps it back can't use it later. */
  fleetOrderMs: 600_000,
  /** Bytes of entries of the audit log in one message to the collector. */
  fleetAuditBatchBytes: 256 * KiB,
  /** Newest entries of each node's log that the collector keeps, so that one node can't fill the hub's disk. */
  fleetCollectedEntriesMax: 1_000_000,
};
