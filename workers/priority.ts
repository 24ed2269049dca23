/** Lowers the priority of hosts below the daemon and the person's own programs. */
import { getPriority, setPriority } from 'node:os';

/** The nice value of agents' programs and servers. Threads and processes started later inherit it. */
const NICE = 5;

/** Lowers this process's priority. A daemon started under `nice` may be lower already, and raising needs a privilege. */
export function yieldToOthers(): void {
  if (getPriority() < NICE) setPriority(NICE);
}
