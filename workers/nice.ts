/** How much of the processor a host takes beside the daemon and the person's own programs. */
import { getPriority, setPriority } from 'node:os';

/** Agents' programs and servers get what others leave. Threads and processes started afterwards inherit it. */
const NICE = 5;

/** Lowers this process's priority to that of agents' programs. A daemon started under `nice` may be lower already, and raising takes a privilege. */
export function yieldToOthers(): void {
  if (getPriority() < NICE) setPriority(NICE);
}
