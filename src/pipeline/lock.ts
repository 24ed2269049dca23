import type { Stage } from './stage.ts';

/** Issue 6: calls whose effects meet wait for each other. Passes on until then. */
export const lock: Stage = (next) => next;
