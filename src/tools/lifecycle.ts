/** What a tool may say of its own life: what it needs before its first call, whether it could work now, what it lets go of. */
import type { ToolContext } from './tool.ts';

/** Whether a tool could work on this machine. */
export interface Health {
  readonly ok: boolean;
  /** Why not, in one sentence. */
  readonly message?: string;
}

/** A session that is over, or whose policy changed, as far as a tool has something of it. */
export interface SessionEnd {
  closeTerminals(): Promise<void>;
}

/** Tools that give the same function share one run of it. */
export interface Lifecycle {
  /**
   * Runs in a worker thread before the tool's first call there. Where it throws, the call fails with that, and the next call
   * tries again.
   */
  initialize?(context: ToolContext): Promise<void>;
  /** Runs where the tool's calls do, when an operator asks how the tools are. Throwing a ToolError is bad health, too. */
  healthCheck?(context: ToolContext): Promise<Health>;
  /** Lets go of what calls of a session left in their host. For tools that say `keeps`. */
  cleanup?(session: SessionEnd): Promise<void>;
}
