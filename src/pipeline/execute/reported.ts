import type * as z from 'zod';

/**
 * A part of a host's report, checked against its schema; undefined if it is absent or has another shape. Most reports
 * have none of these parts, and a failed parse takes longer than the rest of a short call's stages.
 */
export function reported<T>(schema: z.ZodType<T>, part: unknown): T | undefined {
  return part === undefined ? undefined : schema.safeParse(part).data;
}
