/** Signals for processes that may have ended meanwhile. */

/** Sends a signal to a process, or to a group by its negative number; false if it is gone. */
export function signalQuietly(pid: number, signal: NodeJS.Signals): boolean {
  try {
    return process.kill(pid, signal);
  } catch {
    return false; // ESRCH
  }
}
