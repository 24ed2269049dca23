/** Bounds of what is kept on disk, and of the end. */
import * as z from 'zod';
import { bytes, count, KiB, MiB, ms } from './units.ts';

export const storeLimits = {
  /** Audit entries held in memory before they are written; a full one is written at once. */
  auditBatchMax: count().default(512),
  /** Characters of an entry's input, effects or detail, each, as JSON; more is cut, so that a call can't fill the log with one write. */
  auditFieldCharsMax: count().default(16 * KiB),
  /** Nesting of the same; with what is around it, it stays within messageDepthMax. */
  auditDepthMax: z.int().min(1).max(48).default(32),
  /** Characters of a name or id in an entry; a tool's name comes from the caller. */
  auditNameCharsMax: count().default(512),
  /** The same of a refusal, and of every entry while the log is too large: what costs its maker nothing must cost the disk little. */
  auditRefusalCharsMax: count().default(1024),
  /** Refusals of one session recorded one by one in a minute, and as many sessions; a flood of them would push its maker's deeds out. */
  auditRefusalsPerMinute: count().default(300),
  /** The same for a principal, so that opening session after session does not get around the bound of one. */
  auditRefusalsPerMinutePrincipal: count().default(1200),
  /** Entries between two signed checkpoints; a signature costs as much as ten entries. */
  auditCheckpointEntries: count().default(1000),
  /** From an entry to the checkpoint that signs it, at the latest; the file of checkpoints grows by 230 bytes each time. */
  auditCheckpointMs: ms().default(1000),
  /** Age at which audit entries are dropped: 90 days. */
  auditRetentionMs: ms().default(90 * 86_400_000),
  /** Size of the audit log, beyond which its oldest entries are dropped, so that calls can't fill the disk. */
  auditBytesMax: bytes().default(1024 * MiB),
  /** Age until which an entry is kept whatever the size, so that nobody can flood the record of a deed away before a person looks. */
  auditMinAgeMs: z.int().min(0).default(86_400_000),
  /** Share of auditBytesMax that one principal may fill within auditMinAgeMs: from half of it on its reading is recorded in sums, beyond it what it would change is refused. */
  auditPrincipalShare: z.number().gt(0).max(1).default(0.5),
  /** Bytes beyond auditBytesMax for what is too young to be dropped; then what anybody would change is refused, so that no call fills the disk. */
  auditOverflowBytesMax: bytes().default(256 * MiB),
  /** Entries in one answer to audit.query. */
  auditQueryMax: count().default(1000),
  /** Characters of inputs, effects and details in one such answer; each two may be an element, of which messageElementsMax are read. */
  auditQueryCharsMax: count().default(128 * KiB),
  /** Days for which costs are remembered; each has a row for each session that paid for something. */
  costDaysKept: count().default(400),
  /** How long results of detached calls, and the ids that were used, are kept after the end of the call. */
  callsKeptMs: ms().default(3_600_000),
  /** Calls kept on disk so, at about 300 bytes beside their results; whoever has most of them loses the oldest. */
  callsKept: count().default(16_384),
  /** Bytes of their results; an id whose result went still counts as used. */
  callBytesKept: bytes().default(256 * MiB),
  /** Output of one call that is kept on disk; what follows is left out, and its call goes on. */
  resultLogBytesMax: bytes().default(64 * MiB),
  /** Output of all calls on disk, so that calls can't fill it; the oldest goes first. */
  resultLogTotalBytesMax: bytes().default(1024 * MiB),
  /** How long the output of a call is kept after its end. */
  resultLogKeptMs: ms().default(3_600_000),
  /**
   * What the homes of one workspace's commands may hold on disk, so that a command can't fill that: one that takes them over it is ended.
   * Above half of it, the largest parts go when no command runs.
   */
  homeBytesMax: bytes().default(8 * 1024 * MiB),
  /** Files and folders in them; each takes a place in a table of the disk. */
  homeEntriesMax: count().default(1_000_000),
  /** Room that commands leave on the disk of the homes, where the daemon's own records are: below it, one whose home grew is ended. */
  homeFreeBytesMin: bytes().default(512 * MiB),
  /** Workspaces whose commands have homes on disk; the one unused for longest goes when the daemon starts. */
  homesMax: count().default(64),
  /** How long the home of a workspace is kept without a command: 30 days. */
  homeKeptMs: ms().default(30 * 86_400_000),
  /** Calls of sessions that have ended whose results operators still find; sessions that come and go would fill the memory with them. */
  endedCallsKept: count().default(1024),
  /** Bytes of the inputs and results of those calls. */
  endedResultBytesKept: bytes().default(8 * MiB),
  /** Calls whose output is kept, each a file and about 500 bytes of memory. */
  resultLogsMax: count().default(10_000),
  /** Output in memory on its way to the disk, over all calls; on a disk that hangs, the logs end, not the calls. */
  resultLogWaitingBytesMax: bytes().default(32 * MiB),
  /** Bytes in one answer to results.read. */
  resultPageBytesMax: bytes().default(MiB),
  /** Longest that results.read waits for more output. */
  resultWaitMs: ms().default(30_000),
  /** Workspaces and tools of which something is kept; any folder of a workspace is one, and what was written longest ago goes first. */
  toolStatesMax: count().default(1_000),
  /** Bytes that are kept to undo one call; of a change that would take more nothing is kept, and its call can be undone in part, or not. */
  journalCallBytesMax: bytes().default(64 * MiB),
  /** Entries of a tree that are kept, or compared, to undo one change of it: 5 000 are read in about 0.3 s, which an abort can't interrupt. */
  journalTreeEntriesMax: count().default(5_000),
  /** Largest new content that is kept beside the old one, so that what was changed since can be merged. */
  journalTextBytesMax: bytes().default(256 * KiB),
  /** Bytes that are kept to undo calls, over all of them; the oldest go first. */
  journalBytesMax: bytes().default(1024 * MiB),
  /** Calls that can be undone; each is a folder, a row and the paths that it changed. */
  journalCallsMax: count().default(10_000),
  /** How long a call can be undone: 7 days. */
  journalKeptMs: ms().default(7 * 86_400_000),
  /** Paths that one call may have changed for its undo to be asked about; each is judged by every rule. */
  journalPathsMax: count().default(4_096),
  /** Lines of each text that is merged; the time that comparing takes grows with their square. */
  mergeLinesMax: count().default(4_000),
  /** The log of a daemon in the background, after which it begins anew and the text before is `daemon.log.1`: each session that is opened takes about 300 bytes of it. */
  daemonLogBytesMax: z
    .int()
    .min(4096)
    .default(8 * MiB),
  /** Bytes of the state directory's disk that stay free for the daemon's own record, a quarter of a small one: kept outputs and what can be undone leave it alone, or calls could stop those of everybody else. */
  stateReserveBytes: bytes().default(64 * MiB),
  /** How long running calls may go on after `shutdown` or a signal. */
  shutdownGraceMs: z.int().min(0).default(5_000),
  /** Files with compiled code of ours that are kept for the next start, about 100 of each version; then all are dropped. */
  codeFilesMax: count().default(2_000),
};
