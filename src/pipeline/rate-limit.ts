import type { Stage } from './stage.ts';

/** Issue 3: calls per tool, session and principal in a span of time, RATE_LIMITED beyond. Passes on until then. */
export const rateLimit: Stage = (next) => next;
