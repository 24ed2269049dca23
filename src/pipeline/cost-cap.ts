import type { Stage } from './stage.ts';

/** Issue 3: cost reserved before and settled after, COST_LIMIT beyond. Passes on until then. */
export const costCap: Stage = (next) => next;
