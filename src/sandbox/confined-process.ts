import type { ChildProcess } from 'node:child_process';
import type { CommandGroupParent } from './cgroup/cgroup.ts';

/** A started process, and what is known of its sandbox. */
export interface ConfinedProcess {
  readonly child: ChildProcess;
  /** The parent of the control groups of its commands; absent if there are none. */
  readonly groups?: CommandGroupParent | undefined;
  /**
   * Throws SANDBOX_UNAVAILABLE if the sandbox, which holds the process `pid`, does not show the right parts of its workspace: names in
   * it may have been swapped for links while it was built.
   */
  assertInPlace(pid: number): void;
}
