import * as z from 'zod';

/** A glob parameter: `* ? [a-z] {a,b} **`. A glob without `/` matches against names. */
export const glob = (description?: string) => {
  const schema = z.string().min(1).max(1024);
  return description === undefined ? schema : schema.describe(description);
};
