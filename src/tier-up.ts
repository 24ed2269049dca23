/**
 * When V8 compiles a function for speed. By itself it waits for 400 calls of it, and for 3 000 until it does so thoroughly: on a
 * server that is a second, of an agent's commands it is days. What these processes run is known, and much the same each time.
 */
import { setFlagsFromString } from 'node:v8';

/** Node 24 and 26 have them; a V8 without one says so on stderr, and goes on as it was. */
const FLAGS = [
  '--invocation-count-for-maglev=60',
  '--invocation-count-for-turbofan=500',
  '--minimum-invocations-after-ic-update=60',
] as const;

/** When a first call was answered, counted from when it could come: a start, compiled for speed, would take a third longer. */
export const ANSWERED_MS = 500;

/** For this process and its threads, from now on. */
export function tierUpSooner(): void {
  for (const flag of FLAGS) setFlagsFromString(flag);
}
