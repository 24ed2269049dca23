/** Bounds of tier hosts, and of the work in them. */
import * as z from 'zod';
import { count, ms } from './units.ts';

export const hostLimits = {
  /** Worker threads in a tier host; our tools are CPU-bound once their files are cached. */
  hostThreadsMax: count().default(2),
  /** Commands at once in an execute host; each is a process tree of its own. */
  hostCommandsMax: count().default(16),
  /** Of these, those of one session, so that one whose commands never end leaves places for others. */
  sessionCommandsMax: count().default(12),
  /** Jobs of a read_only host at once, for each of its threads. Short ones are all in one thread: a slow one delays those sent right behind it, and its end ends them all. */
  threadJobsMax: count().default(8),
  /** Tier hosts at once, over all workspaces; each costs about 60 MiB. The idlest makes room. */
  hostsMax: count().default(32),
  /** Memory of a tier host without its commands, in MiB, where control groups hold it; what a tool of ours takes at most, with room. */
  hostMemoryMb: count().default(1024),
  /** From spawn to the first frame of a host. */
  hostStartMs: ms().default(10_000),
  /** A host without a call for this long is ended. */
  hostIdleMs: ms().default(300_000),
  /** How long the tools of one host may take to say whether they could work. */
  healthCheckMs: ms().default(10_000),
  /** How long such answers are given again without another look. */
  healthKeptMs: ms().default(10_000),
  /** How long `tools.list` tells that a tool could not work, where nothing newer is known. */
  healthToldMs: ms().default(300_000),
  /** Workspaces of which it is known at once. */
  healthWorkspacesMax: count().default(64),
  /** From an abort to the end of the thread that did not heed it. */
  abortGraceMs: ms().default(200),
  /** From the end of a thread that does not come to the SIGKILL of its host. */
  terminateGraceMs: ms().default(200),
  /** From the abort of a command to the SIGKILL of its host, and of the commands beside it; a command that is killed is gone in 50 ms. */
  commandAbortMs: ms().default(2_000),
  /** JS heap of one worker thread, in MiB; a larger one ends the thread, not the host. */
  threadHeapMb: count().default(256),
  /** Jobs that a thread of readers runs before their results leave, so that the gateway goes on with them while it runs the next. */
  laneJobsPerTurn: count().default(8),
  /** How long the gateway polls for the result of a reader's job, and a thread of readers for its next one, before they sleep: CPU time that brings nothing when nothing comes. */
  lanePollMs: z.number().nonnegative().max(10).default(0.5),
};
