/** Whether a tool could work on this machine. */
export interface Health {
  readonly ok: boolean;
  /** If not, why, in one sentence. */
  readonly message?: string;
}

/** A session that ended, or whose policy changed: what a tool may clean up of it. */
export interface SessionEnd {
  /** Ends the session's terminals and commands in the background. */
  endKept(): Promise<void>;
}
