/** The lifecycle hooks of a tool: setup before its first call, a health check, cleanup at the end of a session. */
import type { ToolContext } from './tool.ts';

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

/** A function that several tools share runs once for all of them. */
export interface Lifecycle {
  /**
   * Runs in a worker thread before the tool's first call there. If it throws, the call fails with that error, and the
   * next call tries again.
   */
  initialize?(context: ToolContext): Promise<void>;
  /** Runs in the host of the tool's calls when an operator asks for tool health. A thrown ToolError counts as bad health. */
  healthCheck?(context: ToolContext): Promise<Health>;
  /** Releases what calls of a session left in their host; for tools with `keeps`. */
  cleanup?(session: SessionEnd): Promise<void>;
}
