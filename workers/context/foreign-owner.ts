/** Finds out whether a command failed because a file belongs to another user than the workspace does. */
import { lstatSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { isInside } from '../../src/base/paths.ts';

/** The most lines of messages that are looked at, and characters of one. */
const LINES_MAX = 20;
const LINE_CHARS_MAX = 4096;

/**
 * The first path of the workspace, relative to it, that a message of a failed command names as forbidden and that belongs to another
 * user, or lies in a folder that does. A command that prints such words itself only gets a needless warning.
 */
export function foreignPathIn(
  stderr: string,
  { cwd, workspace }: { cwd: string; workspace: string },
): string | undefined {
  const owner = lstatSync(workspace).uid;
  const isForeign = (path: string) => {
    try {
      return lstatSync(path).uid !== owner;
    } catch {
      return false; // ENOENT, EACCES: missing, or in a folder that nobody else may enter. A NUL byte is in no path.
    }
  };
  return stderr
    .split('\n')
    .filter((it) => it.length < LINE_CHARS_MAX && /Permission denied|Operation not permitted|EACCES|EPERM/.test(it))
    .slice(0, LINES_MAX)
    .flatMap((line) => [...line.matchAll(/'([^']+)'|([^\s:'"]+)(?=: (?:Permission denied|Operation not permitted))/g)])
    .map(([, quoted, plain = '']) => join(cwd, quoted ?? plain))
    .find((path) => path !== workspace && isInside(workspace, path) && [path, dirname(path)].some(isForeign))
    ?.slice(workspace.length + 1);
}
