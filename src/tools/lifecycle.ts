import type * as z from 'zod';
import type { health } from '../wire/protocol/shapes.ts';

/** Whether a tool could work on this machine; if not, why, in one sentence. */
export type Health = Readonly<z.output<typeof health>>;

/** A session that ended, or whose policy changed: what a tool may clean up of it. */
export interface SessionEnd {
  /** Ends the session's terminals and commands in the background. */
  endKept(): Promise<void>;
}
