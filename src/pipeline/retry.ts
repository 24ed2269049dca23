import type { Stage } from './stage.ts';

/** Issue 6: recoverable failures of idempotent calls are tried again. Passes on until then. */
export const retry: Stage = (next) => next;
