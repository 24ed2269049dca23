/** Name of the channel on which a host tells its threads which jobs to abort. Threads of one process only. */
export const ABORTS = 'ringfence-aborts';

/** A thread's answer to an abort, whosever it was: it is not stuck. */
export interface Heard {
  readonly heard: number;
  /** The job that the abort was for: another abort's answer says nothing of this one. */
  readonly job: number;
}
