/** Values that several parts of a policy file have in common, and what an editor shows of them. */
import * as z from 'zod';

type Shown = [title: string, description: string, ...examples: unknown[]];

/** A key with what an editor shows of it: a title, what the key does, values to choose from. Each property of a policy file has all. */
export const shown = <T extends z.ZodType>(schema: T, ...[title, description, ...examples]: Shown) =>
  schema.meta({ title, description, examples });
/** The same for a key that may be absent. */
export const optional = <T extends z.ZodType>(schema: T, ...about: Shown) => shown(schema.optional(), ...about);

export const int = (min: number, max: number) => z.int().min(min).max(max);
export const text = (max: number) => z.string().min(1).max(max);
const glob = text(512);
export const toolName = glob;

/** One item or a list of them. */
export const oneOrMany = <T extends z.ZodType>(item: T) => z.union([item, z.array(item).min(1).max(64)]);
export const globs = oneOrMany(glob);

export const decision = z.enum(['allow', 'ask', 'deny']);
