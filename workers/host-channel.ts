import type { Abort, OutputTaken } from '../src/hosts/job.ts';

/** Name of the channel on which a host tells its threads of their jobs. Threads of one process only. */
export const HOST_CHANNEL = 'ringfence-host';

/** What it tells them: a job to abort, output of one that the gateway has dealt with, a session that is over. */
export type ToThreads = { readonly abort: Abort } | { readonly taken: OutputTaken } | { readonly endSession: string };

/** A thread that takes jobs now. */
export interface Loaded {
  readonly loaded: true;
}

/** How many things a thread keeps between jobs. */
export interface Kept {
  readonly kept: number;
}

/** A thread's answer to an abort, whosever it was: it is not stuck. */
export interface Heard {
  readonly heard: number;
  /** The job that the abort was for: another abort's answer says nothing of this one. */
  readonly job: number;
}
