/** Parameters that few calls need: accepted and documented, but not in the lists that models are given, whose every word they pay for. */
import type * as z from 'zod';

export const rare = <T extends z.ZodType>(schema: T): T => schema.meta({ ...schema.meta(), [RARE]: true }) as T;

/** The keyword that marks them in a JSON Schema. */
export const RARE = 'rare';
