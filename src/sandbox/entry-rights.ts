/**
 * Checks whether processes in a sandbox may enter a directory. The daemon as root may enter all of them; bubblewrap, which mounts
 * as the workspace's owner and without capabilities, may not.
 */
import type { Stats } from 'node:fs';
import { identity } from './launch.ts';

/** User and group that make a sandbox's mounts. */
export interface MountOwner {
  readonly uid: number;
  readonly gid: number;
}

/** Gives the owner that mounts are made as; undefined if the daemon runs as that user, so that the kernel's own check applies. */
export function ownerOf(workspace: string): MountOwner | undefined {
  if (process.getuid?.() !== 0) return undefined;
  const { uid = 0, gid = 0 } = identity(workspace);
  return { uid, gid };
}

/** Whether the mode lets the owner enter; an access control list that differs is left to bubblewrap. */
export function mayEnter({ mode, uid, gid }: Pick<Stats, 'mode' | 'uid' | 'gid'>, owner: MountOwner): boolean {
  if (uid === owner.uid) return (mode & 0o100) !== 0;
  if (gid === owner.gid) return (mode & 0o010) !== 0;
  return (mode & 0o001) !== 0;
}
