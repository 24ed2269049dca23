/** Bounds of data on disk and of the shutdown. */
import { KiB, MiB } from './units.ts';

export const storeLimits = {
  /** Audit entries held in memory before they are written; a full batch is written at once. */
  auditBatchMax: 512,
  /**
   * Characters of an entry's input, effects or detail, each, as JSON; the rest is cut, so that a call can't fill the log with one entry.
   */
  auditFieldCharsMax: 16 * KiB,
  /** Nesting of an entry's input, effects or detail; the whole entry stays within messageDepthMax. */
  auditDepthMax: 32,
  /** Characters of a name or id in an entry; callers choose the names of tools. */
  auditNameCharsMax: 512,
  /**
   * Characters of an entry's input, effects or detail, each, for refusals, and for all entries while the log is too large: entries that
   * cost their author nothing must cost the disk little.
   */
  auditRefusalCharsMax: 1024,
  /**
   * Refusals, and likewise session entries, of one session recorded individually in a minute; a flood of them would push records of real
   * changes out.
   */
  auditRefusalsPerMinute: 300,
  /**
   * Refusals, and likewise session entries, of one principal recorded individually in a minute, so that opening many sessions does not
   * evade the bound of one.
   */
  auditRefusalsPerMinutePrincipal: 1200,
  /** Entries between two signed checkpoints; a signature costs as much as ten entries. */
  auditCheckpointEntries: 1000,
  /** Longest time from an entry to the checkpoint that signs it; each adds 230 bytes to the file of checkpoints. */
  auditCheckpointMs: 1000,
  /** Age at which audit entries are dropped: 90 days. */
  auditRetentionMs: 90 * 86_400_000,
  /** Size of the audit log beyond which its oldest entries are dropped, so that calls can't fill the disk. */
  auditBytesMax: 1024 * MiB,
  /** Age up to which an entry is kept whatever the size, so that nobody can flush out a record before a person looks. */
  auditMinAgeMs: 86_400_000,
  /**
   * Share of auditBytesMax that one principal may fill within auditMinAgeMs: from half of it on its reads are recorded as counts, beyond it
   * calls that may change something are refused.
   */
  auditPrincipalShare: 0.5,
  /**
   * Bytes beyond auditBytesMax for entries too young to be dropped; then all calls that may change something are refused, so that no call
   * fills the disk.
   */
  auditOverflowBytesMax: 256 * MiB,
  /** Entries in one answer to audit.query. */
  auditQueryMax: 1000,
  /**
   * Characters of inputs, effects and details in one answer to audit.query; every two may be an element, of which messageElementsMax can be
   * decoded.
   */
  auditQueryCharsMax: 128 * KiB,
  /** Days for which costs are remembered; each has a row for each session that paid for something. */
  costDaysKept: 400,
  /** Rows in one answer to costs.read: one for each tool that a principal paid for in a day. */
  costRowsMax: 10_000,
  /** Time for which results of detached calls, and used call ids, are kept after the end of the call. */
  callsKeptMs: 3_600_000,
  /** Detached and resumable calls kept on disk, about 300 bytes each plus their results; the principal with the most loses the oldest. */
  callsKept: 16_384,
  /** Bytes of the results of those stored calls; an id whose result was dropped still counts as used. */
  callBytesKept: 256 * MiB,
  /** Bytes of one call's output kept on disk; the rest is dropped, and the call continues. */
  resultLogBytesMax: 64 * MiB,
  /** Bytes of all calls' output on disk, so that calls can't fill it; the principal with the most loses the oldest. */
  resultLogTotalBytesMax: 1024 * MiB,
  /** Time for which the output of a call is kept after its end. */
  resultLogKeptMs: 3_600_000,
  /**
   * Bytes on disk in the command homes of one workspace, so that commands can't fill the disk: a command that exceeds it is ended. Above
   * half of it, the largest parts are removed when no command runs.
   */
  homeBytesMax: 8 * 1024 * MiB,
  /** Files and folders in the command homes of one workspace; each takes an inode. */
  homeEntriesMax: 1_000_000,
  /** Workspaces with command homes on disk; the one unused for longest is removed when the daemon starts. */
  homesMax: 64,
  /** Time for which an unused home is kept: 30 days. */
  homeKeptMs: 30 * 86_400_000,
  /** Calls of ended sessions whose results operators still find; many short sessions would fill the memory with them. */
  endedCallsKept: 1024,
  /** Bytes of the inputs and results of calls of ended sessions. */
  endedResultBytesKept: 8 * MiB,
  /** Calls whose output is kept; each takes a file and about 500 bytes of memory. The principal with the most loses the oldest. */
  resultLogsMax: 10_000,
  /** Bytes of output in memory on their way to the disk, over all calls; on a disk that hangs, the logs end, not the calls. */
  resultLogWaitingBytesMax: 32 * MiB,
  /** Bytes in one answer to results.read. */
  resultPageBytesMax: MiB,
  /** Longest time that results.read waits for more output. */
  resultWaitMs: 30_000,
  /**
   * Stored tool states, one for each tool and workspace; any folder of a workspace counts, and the one written longest ago is dropped
   * first.
   */
  toolStatesMax: 1_000,
  /**
   * Searches for tools of one workspace with what was called after them and succeeded, by which later searches rank; about 200 bytes
   * each, the oldest go first. 0 switches it off.
   */
  learnedToolsMax: 200,
  /** Bytes kept to undo one call; a change that would take more is not kept, and its call can be undone only in part or not at all. */
  journalCallBytesMax: 64 * MiB,
  /**
   * Entries of a tree that are kept, or compared, to undo one change of it; reading 5 000 takes about 0.3 s, which an abort can't
   * interrupt.
   */
  journalTreeEntriesMax: 5_000,
  /** Largest new content that is kept together with the old one, so that later changes can be merged. */
  journalTextBytesMax: 256 * KiB,
  /** Bytes kept to undo calls, over all of them, and at most a tenth of the free disk; the principal with the most loses the oldest. */
  journalBytesMax: 10 * 1024 * MiB,
  /** Calls that can be undone; each takes a folder, a row and the paths that it changed. The principal with the most loses the oldest. */
  journalCallsMax: 10_000,
  /** Time for which a call can be undone: 7 days. */
  journalKeptMs: 7 * 86_400_000,
  /** Paths changed by one call up to which its undo can be asked about; every rule judges each. */
  journalPathsMax: 4_096,
  /** Largest file of which a copy is kept in case that a command changes it. */
  shadowFileBytesMax: 10 * MiB,
  /** Bytes of such copies for one workspace under one policy, in a file without a name. */
  shadowBytesMax: 256 * MiB,
  /** Files of a workspace that are known before a command; changes of the others can't be undone. */
  shadowFilesMax: 50_000,
  /**
   * Large and ignored files that are kept by an open descriptor, and names in ignored folders that are known; a folder
   * with more is not kept.
   */
  shadowHeldFilesMax: 4_096,
  /** JavaScript heap of the thread that knows them, in MiB. */
  shadowHeapMb: 256,
  /**
   * Longest wait of a command until what the workspace holds is known; it then runs all the same, and can't be undone. The wait ends as
   * soon as that is known: 20 000 files take some seconds on a busy machine, once.
   */
  shadowBeginMs: 10_000,
  /** Time after a command until its changes are kept; then its result is given, and it can't be undone. */
  shadowEndMs: 20_000,
  /** Longest time between two looks for changes while no command runs. */
  shadowIdleMs: 2_000,
  /** Paths told of a command that can't be undone, or only in part. */
  undoMissingMax: 100,
  /** Checkpoints that a principal may name in a workspace; the oldest goes for a new one. */
  checkpointsMax: 100,
  /** Calls that one return to a checkpoint undoes; each is a journal that is read whole. */
  checkpointCallsMax: 1_000,
  /** Paths that those calls changed; every rule judges each. */
  checkpointPathsMax: 8_192,
  /** Lines of each text that is merged; comparing takes time proportional to their square. */
  mergeLinesMax: 4_000,
  /**
   * Size of a background daemon's log at which it is renamed to `daemon.log.1` and begun anew; each opened session takes about 300 bytes.
   */
  daemonLogBytesMax: 8 * MiB,
  /**
   * Bytes of the state directory's disk that stay free for the daemon's own records, a quarter of a small disk; kept outputs and undo data
   * leave them free, or calls could stop those of everybody else.
   */
  stateReserveBytes: 64 * MiB,
  /** Backups of the state, one for each schema version, that are kept of those made before upgrades; each may hold the whole record. */
  schemaBackupsMax: 2,
  /** Time for which running calls may continue after `shutdown` or a signal. */
  shutdownGraceMs: 5_000,
  /** Time for which running calls may continue when a daemon hands over to a new one; in the second half of it new calls wait. */
  upgradeDrainMs: 600_000,
  /** Time for a new daemon to get ready before the old one hands over to it, and once more to open the state; a hanging one is ended. */
  upgradeStartMs: 60_000,
  /** Time for clients to leave a daemon that hands over before it closes their connections. */
  upgradeLeaveMs: 250,

  /** Largest listing of a package's versions: that of typescript has 11 MB. A registry that sends for ever is cut off. */
  toolchainListingBytesMax: 64 * MiB,
  /** Largest package of a toolchain: that of Node has 60 MB. */
  toolchainPackageBytesMax: 256 * MiB,
  /** Time for one answer of a registry. */
  toolchainFetchMs: 600_000,
  /** Toolchains that are looked up or installed for agents at once; each takes a process of about 100 MB. */
  toolchainRequestsMax: 2,
};
