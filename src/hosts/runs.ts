/** Requests to hosts, and their results. */
import type { EgressReport } from '../egress/messages.ts';
import type { NetworkLayer } from '../policy/network.ts';
import type { UnixSockets } from '../policy/schema.ts';
import type { Coarse } from '../sandbox/coarse-masks.ts';
import type { RunOptions as HostRunOptions, JobRequest } from './host.ts';
import type { JobResult } from './job.ts';
import type { RetainedSession } from './retained-sessions.ts';

/** The result of a job with facts about its run. */
export interface Ran {
  readonly result: JobResult;
  readonly pid: number;
  /** Directories that were hidden from the command more coarsely than its policy says. */
  readonly coarse?: readonly Coarse[] | undefined;
  /** Whether the command could have Unix sockets of its own. */
  readonly unixSockets?: UnixSockets;
  /** The command's connections; `lost` if the proxy died meanwhile, absent if the command had no network. */
  readonly egress?: EgressReport | 'lost';
}

export interface RunRequest extends Omit<JobRequest, 'masks' | 'keeper' | 'egressToken'> {
  /** The session for which the host keeps something between calls. */
  readonly keeper?: RetainedSession;
  /** Whether the command may have Unix sockets of its own. */
  readonly unixSockets?: UnixSockets;
  /** What the command may connect to, as policy layers; absent for nothing. */
  readonly network?: readonly NetworkLayer[];
  /** Targets that a person approved for this call: `ask` rules about them do not apply to it. */
  readonly lifted?: readonly string[];
}

/** A request whose network is replaced by the proxy's token. */
export type Leased = Omit<RunRequest, 'network'> & Pick<JobRequest, 'egressToken'>;

export interface RunOptions extends HostRunOptions {
  /**
   * Called when host and masks are ready; if it throws, no job is sent. The job starts in the same turn, so that it
   * meets the state that the callback checked last.
   */
  readonly beforeStart?: () => Promise<void>;
  /** Called after the job was sent, so that no reaction to it can overtake the job. */
  readonly onStarted?: () => void;
}
