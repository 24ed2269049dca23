/** Checks whether the files that a cached result was made from are unchanged. */
import { lstatSync, statSync } from 'node:fs';
import type { Witness } from '../../hosts/job.ts';
import { isInside } from '../../paths.ts';

/**
 * Whether every file and directory is unchanged: new content changes the change time, which only root can set, and
 * another file has another inode. Takes about 5 µs for each.
 */
export function allHold(witnesses: readonly Witness[], workspace: string): boolean {
  return witnesses.every(({ path, mark, isLink }) => {
    const at = `${workspace}/${path}`;
    if (!isInside(workspace, at)) return false;
    try {
      const now = isLink ? lstatSync(at, { bigint: true }) : statSync(at, { bigint: true });
      return `${now.dev}:${now.ino}:${now.size}:${now.mtimeNs}:${now.ctimeNs}` === mark;
    } catch {
      return false; // ENOENT and similar: the path is gone.
    }
  });
}
