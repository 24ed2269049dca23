import type { Abort, OutputTaken } from '../../src/hosts/job.ts';

/** Name of the channel on which a host sends messages to its threads, within one process. */
export const HOST_CHANNEL = 'ringfence-host';

/** Messages to threads: a job to abort, output that the gateway has acknowledged, a session that is over. */
export type ToThreads = { readonly abort: Abort } | { readonly taken: OutputTaken } | { readonly endSession: string };

/** A thread is ready for jobs. */
export interface Loaded {
  readonly loaded: true;
}

/** How many things a thread keeps between jobs. */
export interface Kept {
  readonly kept: number;
}

/** A thread's acknowledgement of an abort, of any job: the thread is not stuck. */
export interface Heard {
  readonly heard: number;
  /** The aborted job: an acknowledgement of another abort says nothing about this one. */
  readonly job: number;
}
