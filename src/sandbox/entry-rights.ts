/**
 * Checks whether processes in a sandbox may enter a directory. The daemon as root may enter all of them; bubblewrap, which mounts
 * as the workspace's owner and without capabilities, may not.
 */
import { type Stats, statSync } from 'node:fs';
import { dirname } from 'node:path';

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

/** The folders that the owner of a workspace may enter: bubblewrap builds no sandbox with a mount that it can't make. */
export function reachable(folders: readonly string[], workspace: string): readonly string[] {
  const owner = ownerOf(workspace);
  if (!owner) return folders;
  const isOpen = (path: string): boolean => {
    const stat = statSync(path, { throwIfNoEntry: false });
    return stat === undefined || (mayEnter(stat, owner) && (path === '/' || isOpen(dirname(path))));
  };
  return folders.filter(isOpen);
}

/** Uid shown inside if the real one is 0 and root owns the workspace. */
export const SHOWN_ID = 1000;

export type UserIds = { uid?: number; gid?: number; shownId?: number };

/** User of a host's launcher: the workspace's owner, so that it has no more rights than that, unless the owner is root. */
export function identity(workspace: string): UserIds {
  if (process.getuid?.() !== 0) return {};
  const { uid, gid } = statSync(workspace);
  return uid === 0 ? { shownId: SHOWN_ID } : { uid, gid };
}

/** User and group that commands are shown as in folders of the daemon's own user. */
export function shownIds(): { uid: number; gid: number } {
  const { getuid, getgid } = process;
  const uid = getuid?.() ?? 0;
  return uid === 0 ? { uid: SHOWN_ID, gid: SHOWN_ID } : { uid, gid: getgid?.() ?? uid };
}
