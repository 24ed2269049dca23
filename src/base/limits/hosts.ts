/** Bounds of tier hosts and of the work in them. */
import { KiB } from './units.ts';

export const hostLimits = {
  /** Worker threads of a tier host; our tools are CPU-bound once their files are cached. */
  hostThreadsMax: 2,
  /** Running commands of an execute host; each is a process tree of its own. */
  hostCommandsMax: 16,
  /** Running commands of one session, so that a session whose commands never end leaves places for others. */
  sessionCommandsMax: 12,
  /**
   * Running jobs of a read_only host for each of its threads. Short jobs share one thread: a slow one delays those sent right after it, and
   * ending it ends those that had begun.
   */
  threadJobsMax: 8,
  /**
   * Threads that a tier host starts over its life, in place of those that ended too; then the host is replaced. Each takes a socket, which
   * the gateway holds from the start of the host.
   */
  hostThreadStartsMax: 6,
  /** Running tier hosts over all workspaces; each costs about 60 MiB. The one idle for longest is ended for a new one. */
  hostsMax: 32,
  /**
   * Memory of a tier host without its commands, in MiB, where control groups enforce it; the most that our own tools take, with a reserve.
   */
  hostMemoryMb: 1024,
  /** Time from the spawn of a host to its first frame: a third of a second, and 15 s on an emulated or busy machine. */
  hostStartMs: 30_000,
  /** Time from the start of a session to that of hosts which no call has asked for. */
  hostsAheadMs: 1_000,
  /** Idle time after which a host is ended. */
  hostIdleMs: 300_000,
  /** Time for the tools of one host to report their health. */
  healthCheckMs: 10_000,
  /** Time for which health reports are reused. */
  healthKeptMs: 10_000,
  /** Time for which `tools.list` reports an unhealthy tool without a newer report. */
  healthToldMs: 300_000,
  /** Workspaces whose health reports are kept. */
  healthWorkspacesMax: 64,
  /** Time from the abort of a job to the end of a thread that ignores it. */
  abortGraceMs: 200,
  /** Time from the end of a thread that does not stop to the SIGKILL of its host. */
  terminateGraceMs: 200,
  /** Time from the abort of a command to the SIGKILL of its host and of the host's other commands; a killed command is gone in 50 ms. */
  commandAbortMs: 2_000,
  /** JavaScript heap of one worker thread, in MiB; a larger one ends the thread, not the host. */
  threadHeapMb: 256,
  /** Jobs that a reader thread runs before it sends their results, so that the gateway processes them while it runs the next. */
  threadJobsPerTurn: 8,
  /**
   * Time for which the gateway polls for the result of a reader's job, and a reader thread for its next job, before they sleep; polling
   * costs CPU time even if nothing comes.
   */
  threadPollMs: 0.5,
  /** Characters that one host, or the proxy, may write to the log through stderr: a program can make it write forever. */
  hostStderrCharsMax: 64 * KiB,
};
