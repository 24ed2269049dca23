import type { Stage } from './stage.ts';

/** Issue 6: results of cacheable tools, validated by what they read. Passes on until then. */
export const cache: Stage = (next) => next;
