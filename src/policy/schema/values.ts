/** Values that several parts of a policy file have in common, and what an editor shows of them. */
import * as z from 'zod';

/** What an editor shows of a key: a title, what the key does, and values to choose from. Each property of a policy file has all three. */
export const about = (title: string, description: string, ...examples: unknown[]) => ({ title, description, examples });

export const text = (max: number) => z.string().min(1).max(max);
const glob = text(512);
export const toolName = glob;

/** One item or a list of them. */
export const oneOrMany = <T extends z.ZodType>(item: T) => z.union([item, z.array(item).min(1).max(64)]);
export const globs = oneOrMany(glob);

export const decision = z.enum(['allow', 'ask', 'deny']);
