/** Parameters that are paths and globs, which callers may also write as absolute paths. */
import * as z from 'zod';
import { inBraces } from '../base/text/glob.ts';

type ToRelative = (path: string) => string;
let relativePath: ToRelative = (path) => path;

/** Parses an input; `toRelative` turns each path in it into the one that the policy judges and the tool gets. */
export function withPaths<T>(toRelative: ToRelative, parse: () => T): T {
  const before = relativePath;
  relativePath = toRelative;
  try {
    return parse();
  } finally {
    relativePath = before;
  }
}

const PATH_CHARS_MAX = 4096;

/** A path parameter: not empty, no NUL, at most as long as the kernel accepts. ToolContext decides whether it may be touched. */
export const workspacePath = (description = 'In the workspace.') =>
  z
    .string()
    .min(1)
    .max(PATH_CHARS_MAX)
    .refine((path) => !path.includes('\0'), 'must not hold a NUL byte')
    .overwrite((path) => relativePath(path))
    .describe(description);

/** A glob parameter: `* ? [a-z] {a,b} **`, or several with commas. A glob without `/` matches against names. */
export const glob = (description?: string) => {
  const schema = z.string().min(1).max(1024).overwrite(relativeGlob).overwrite(inBraces);
  return description === undefined ? schema : schema.describe(description);
};

/** A glob that was absolute matches at its own place only, and not each name. */
function relativeGlob(list: string): string {
  const globs = list.split(',').map((glob) => {
    const relative = relativePath(glob);
    return relative === glob ? glob : `./${relative}`;
  });
  return globs.join(',');
}
