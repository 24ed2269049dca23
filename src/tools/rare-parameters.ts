/** Marks parameters that few calls need: accepted and documented, but left out of the lists for models, which pay for every word. */
import type * as z from 'zod';

export const rare = <T extends z.ZodType>(schema: T): T => schema.meta({ ...schema.meta(), [RARE]: true }) as T;

/** The keyword that marks such parameters in a JSON Schema. */
export const RARE = 'rare';
