/** What a result was made of, and whether that is still the same. */
import { lstatSync, statSync } from 'node:fs';
import type { Witness } from '../hosts/job.ts';
import { isInside } from '../paths.ts';

/**
 * Whether every file and directory is what it was: another content has another change time, which nobody but root can set,
 * and another file another inode. About 5 µs each.
 */
export function allHold(witnesses: readonly Witness[], workspace: string): boolean {
  return witnesses.every(({ path, mark, isLink }) => {
    const at = `${workspace}/${path}`;
    if (!isInside(workspace, at)) return false;
    try {
      const now = isLink ? lstatSync(at, { bigint: true }) : statSync(at, { bigint: true });
      return `${now.dev}:${now.ino}:${now.size}:${now.mtimeNs}:${now.ctimeNs}` === mark;
    } catch {
      return false; // ENOENT and its like: it is not there any more.
    }
  });
}
