/**
 * Whether what runs in a sandbox may enter a directory. The daemon as root may enter all of them; bubblewrap, which mounts
 * as the workspace's owner and without capabilities, may not.
 */
import type { Stats } from 'node:fs';
import { identity } from './launch.ts';

/** User and group that a sandbox's mounts are made as. */
export interface Owner {
  readonly uid: number;
  readonly gid: number;
}

/** Undefined where the daemon is that user itself, so that the kernel's own answer counts. */
export function ownerOf(workspace: string): Owner | undefined {
  if (process.getuid?.() !== 0) return undefined;
  const { uid = 0, gid = 0 } = identity(workspace);
  return { uid, gid };
}

/** By the mode alone: an access list that says more is met by bubblewrap. */
export function mayEnter({ mode, uid, gid }: Pick<Stats, 'mode' | 'uid' | 'gid'>, owner: Owner): boolean {
  if (uid === owner.uid) return (mode & 0o100) !== 0;
  if (gid === owner.gid) return (mode & 0o010) !== 0;
  return (mode & 0o001) !== 0;
}
