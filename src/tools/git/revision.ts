import * as z from 'zod';

/**
 * A commit by name, hash or `HEAD~2`. Allows no colon, so that it names no file, and no leading dash, so that it is
 * no option; only a commit is accepted.
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
