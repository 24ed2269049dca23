/** Reads paths as agents write them: absolute, as a `file:` URL, below `~`, or through a link to the workspace. */
import { fileURLToPath } from 'node:url';
import { wayBelow } from './paths.ts';
import { realOf } from './quiet/reads.ts';

/** Folders of an absolute path that are looked at for a link; no project lies deeper, and each look takes time. */
const FOLDERS_MAX = 64;

/**
 * A function that turns such a path into the one relative to `workspace`, and leaves each other path as it is, `..`
 * included. A path outside stays absolute, and its tool says that it is outside.
 */
export const toRelative =
  ({ workspace, home }: { readonly workspace: string; readonly home: string }) =>
  (given: string): string => {
    const path = given.startsWith('~/') ? home + given.slice(1) : given.startsWith('file:/') ? ofUrl(given) : given;
    if (!path.startsWith('/')) return path;
    for (let [end, looks] = [0, 0]; end < path.length && looks < FOLDERS_MAX; looks += 1) {
      const slash = path.indexOf('/', end + 1);
      end = slash < 0 ? path.length : slash;
      const folder = path.slice(0, end);
      // Only what leads to the workspace is followed: a link in it is what the call is about.
      const way = folder === workspace ? '' : wayBelow(workspace, realOf(folder) ?? '/');
      if (way !== undefined)
        return [way, path.slice(end).replace(/^\/+/, '')].filter((it) => it !== '').join('/') || '.';
    }
    return path;
  };

function ofUrl(url: string): string {
  try {
    const path = fileURLToPath(url);
    return path.includes('\0') ? url : path;
  } catch {
    return url; // A TypeError: no URL, or one of another machine.
  }
}
