/** What is asked of hosts, and what comes of it. */
import type { EgressReport } from '../egress/messages.ts';
import type { NetworkLayer } from '../policy/network.ts';
import type { UnixSockets } from '../policy/schema.ts';
import type { Coarse } from '../sandbox/coarse-masks.ts';
import type { RunOptions as HostRunOptions, JobRequest } from './host.ts';
import type { JobResult } from './job.ts';
import type { Keeper } from './keepers.ts';

/** What a job ran on, for its result. */
export interface Ran {
  readonly result: JobResult;
  readonly pid: number;
  /** What its command was kept from more coarsely than its policy says. */
  readonly coarse?: readonly Coarse[] | undefined;
  /** Of a command, whether it could have Unix sockets of its own. */
  readonly unixSockets?: UnixSockets;
  /** What its command did with the network; `lost` where the proxy died under it, absent where it had none. */
  readonly egress?: EgressReport | 'lost';
}

export interface RunRequest extends Omit<JobRequest, 'masks' | 'keeper' | 'egressToken'> {
  /** Whose the call is, where the host keeps something between calls. */
  readonly keeper?: Keeper;
  /** Whether its command may have Unix sockets of its own. */
  readonly unixSockets?: UnixSockets;
  /** What its command may connect to, all layers together; absent for nothing. */
  readonly network?: readonly NetworkLayer[];
  /** Targets that a person approved for this very call: rules that only ask about them do not hold for it. */
  readonly lifted?: readonly string[];
}

/** With its network's lease instead of what it is for. */
export type Leased = Omit<RunRequest, 'network'> & Pick<JobRequest, 'egressToken'>;

export interface RunOptions extends HostRunOptions {
  /**
   * The last word before the job: called when host and masks are ready; what it throws is thrown, and no job is sent. What
   * it looked at last, with nothing awaited since, is what the job meets.
   */
  readonly beforeStart?: () => Promise<void>;
  /** Called when the job is on its way; who hears of it can't come before it. */
  readonly onStarted?: () => void;
}
