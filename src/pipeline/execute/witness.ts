/** The files that a cached result was made from: what a host reports of them, and whether they are unchanged. */
import { lstatSync, statSync } from 'node:fs';
import { isInside } from '../../base/paths.ts';
import { isRecord } from '../../base/text/values.ts';
import type { Witness } from '../../hosts/job.ts';

/** Whether a host's witnesses have the right shape. */
export function isWitnesses(it: unknown, max: number): it is Witness[] {
  return (
    Array.isArray(it) &&
    it.length > 0 &&
    it.length <= max &&
    it.every((one) => isRecord(one) && typeof one.path === 'string' && typeof one.mark === 'string')
  );
}

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
