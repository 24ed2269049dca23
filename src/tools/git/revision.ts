import * as z from 'zod';

/**
 * A commit by name, hash or `HEAD~2`. No colon, so that no file is named by it, and no dash at its start, so that it is no
 * option; of what it names only a commit is taken.
 */
export const revision = (description: string, what = 'one commit: a branch, tag, hash, or such as HEAD~2') =>
  z
    .string()
    .min(1)
    .max(255)
    .regex(/^[^-\s:^?*[\\\p{Cc}][^\s:?*[\\\p{Cc}]*$/u, `must be ${what}`)
    .refine((it) => !it.includes('..'), `must be ${what}; not a range`)
    .describe(description);

export const commitOf = (name: string): string => `${name}^{commit}`;
