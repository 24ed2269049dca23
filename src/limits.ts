/**
 * Every bound in the system: its unit, its default, and the attack or cost that it bounds. A bound that nothing reads
 * fails test/tidy.test.ts. Sizes are bytes, times milliseconds.
 */
import * as z from 'zod';

const KiB = 1024;
const MiB = 1024 * KiB;
const bytes = () => z.int().min(1);
const ms = () => z.int().min(1);
const count = () => z.int().min(1);

export const limitsSchema = z.strictObject({
  // The wire

  /** Largest frame accepted or sent. A decoder holds at most one per connection. */
  frameBytesMax: bytes().default(16 * MiB),
  /** How long a frame may take from its first byte to its last, so that half a frame can't hold a connection. */
  frameIdleMs: ms().default(30_000),
  /** Deepest nesting of a message; each level costs stack in every consumer. */
  messageDepthMax: count().default(64),
  /** Values in one message; 100 000 decode in about 10 ms, the longest that one message may hold up the loop. */
  messageElementsMax: count().default(100_000),
  /** Bytes waiting to be written to one peer before its requests stop being read and its notifications are dropped. */
  writeBufferBytesMax: bytes().default(4 * MiB),
  /** Requests of one peer that may wait for an answer; further ones get OVERLOADED. */
  peerRequestsMax: count().default(1024),
  /** Bytes of one peer's unanswered requests, so that many large ones can't fill the daemon. */
  peerRequestBytesMax: bytes().default(64 * MiB),
  /** Connections at once, over all transports; each costs about 30 KiB when idle. */
  connectionsMax: count().default(256),
  /** A connection that has not said hello by then is dropped, so that silent ones can't use up connectionsMax. */
  helloTimeoutMs: ms().default(10_000),

  // Sessions and calls

  /** Calls that one session may have waiting for a host; the next one gets QUEUE_FULL. */
  sessionQueueMax: count().default(1024),
  /** Calls waiting over all sessions. */
  queueMax: count().default(16_384),
  /** Ended calls remembered per session, for calls.get and for repeated call ids. */
  sessionCallsKept: count().default(1024),
  /** Bytes of inputs and results remembered per session; the oldest are forgotten first. */
  sessionResultBytesKept: bytes().default(8 * MiB),
  /** Events kept for a subscriber that asks for what came before it (`afterSeq`). */
  eventsKept: count().default(1024),
  /** Subscriptions of one connection. */
  subscriptionsMax: count().default(16),
  /** Largest encoded result of a call; must fit a frame with its envelope. */
  resultBytesMax: bytes().default(14 * MiB),

  // Tier hosts

  /** Worker threads in a tier host; our tools are CPU-bound once their files are cached. */
  hostThreadsMax: count().default(2),
  /** Commands at once in an execute host; each is a process tree of its own. */
  hostCommandsMax: count().default(16),
  /** Jobs that one thread of a read_only host takes at once; a slow one delays those behind it, and its end ends them all. */
  threadJobsMax: count().default(8),
  /** Tier hosts at once, over all workspaces; each costs about 60 MiB. The idlest makes room. */
  hostsMax: count().default(32),
  /** From spawn to the first frame of a host. */
  hostStartMs: ms().default(10_000),
  /** A host without a call for this long is ended. */
  hostIdleMs: ms().default(300_000),
  /** From an abort to the end of the thread that did not heed it. */
  abortGraceMs: ms().default(200),
  /** From the end of a thread that does not come to the SIGKILL of its host. */
  terminateGraceMs: ms().default(200),
  /** From the abort of a command to the SIGKILL of its host, and of the commands beside it; a command that is killed is gone in 50 ms. */
  commandAbortMs: ms().default(2_000),
  /** JS heap of one worker thread, in MiB; a larger one ends the thread, not the host. */
  threadHeapMb: count().default(256),

  // Running

  /** How long a call may run, by tier, unless its tool says less. A caller may narrow it. */
  callTimeoutMs: z
    .strictObject({ read_only: ms(), write: ms(), execute: ms(), external_api: ms() })
    .default({ read_only: 30_000, write: 30_000, execute: 120_000, external_api: 60_000 }),
  /** Output of a command that reaches its caller, per stream: half of it from the start, half from the end. */
  commandOutputBytes: bytes().default(32 * KiB),
  /** Output of a command, both streams together, after which it is killed; reading costs the daemon's core time. */
  commandOutputBytesMax: bytes().default(256 * MiB),
  /** How long the pipes of a command are read after its exit; a grandchild may hold them for ever. */
  commandDrainMs: ms().default(100),
  /** Scratch space (/tmp) of a command, in memory. */
  commandTmpBytes: bytes().default(256 * MiB),
  /** Open files of a host or a command. */
  openFilesMax: count().default(1024),
  /** Largest file that a tool reads or writes. */
  fileBytesMax: bytes().default(10 * MiB),
  /** Entries of a directory listing that reach the caller; at 11 keys and values each they stay within one message. */
  listEntriesMax: count().default(5_000),
  /** Directory entries looked at by one listing, so that a tree of millions ends in time. */
  listScanMax: count().default(1_000_000),
  /** Symbolic links followed in one path, as in the kernel. */
  symlinksMax: count().default(40),
  /** How long the start-up probe of the sandbox may take. */
  probeMs: ms().default(5_000),

  // The store and the end

  /** Audit entries held in memory before they are written; a full one is written at once. */
  auditBatchMax: count().default(512),
  /** How long running calls may go on after `shutdown` or a signal. */
  shutdownGraceMs: z.int().min(0).default(5_000),
});

export type Limits = z.output<typeof limitsSchema>;

export const defaultLimits: Limits = Object.freeze(limitsSchema.parse({}));
