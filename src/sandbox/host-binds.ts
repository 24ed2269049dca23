/**
 * Checks that the sandbox of a host or provider shows the right parts of its workspace. The gateway checks when the process reports
 * that it runs, and sends it nothing before: no call has run, and no server has started, in that sandbox until then.
 */
import { constants, openSync, readlinkSync } from 'node:fs';
import { isDeepStrictEqual } from 'node:util';
import { closing } from '../base/disk.ts';
import { isInside } from '../base/paths.ts';
import { areCovered, isBoundFrom, NotInPlace } from './binds-in-place.ts';
import { identity, type UserIds } from './entry-rights.ts';
import type { CoveringMount, Mount } from './mount.ts';
import { mountsOf } from './proc.ts';

export interface HostBinds {
  readonly workspace: string;
  /** All mounts on paths in the workspace except the workspace itself. */
  readonly covers: readonly CoveringMount[];
  /** User that the process was started as: the owner of the workspace's folder at that time. */
  readonly owner: UserIds;
}

/** Selects the mounts of a profile to check; undefined if it shows no workspace. */
export function bindsOf(
  workspace: string,
  { mounts }: { readonly mounts: readonly Mount[] },
  owner: HostBinds['owner'],
): HostBinds | undefined {
  const inside = mounts.flatMap((it) => ('path' in it && isInside(workspace, it.path) ? [it] : []));
  const isWhole = (it: CoveringMount) => it.path === workspace && (it.kind === 'ro' || it.kind === 'rw');
  return inside.some(isWhole) ? { workspace, covers: inside.filter((it) => !isWhole(it)), owner } : undefined;
}

/** Checks the mounts of `pid`, a process in the sandbox. Throws SANDBOX_UNAVAILABLE. */
export function assertInPlace({ workspace, covers, owner }: HostBinds, pid: number): void {
  const [mounts, outside] = [mountsOf(pid), mountsOf('self')];
  const isRight =
    mounts !== undefined &&
    outside !== undefined &&
    isBoundFrom(workspace, mounts, outside) &&
    areCovered(covers, mounts) &&
    isDeepStrictEqual(ownerNow(workspace), owner);
  if (!isRight) throw new NotInPlace();
}

/** Not among Node's constants. */
const O_PATH = 0o10000000;

/** Owner of the workspace; undefined if its path leads elsewhere at the moment. */
function ownerNow(workspace: string): HostBinds['owner'] | undefined {
  let fd: number;
  try {
    fd = openSync(workspace, O_PATH | constants.O_DIRECTORY);
  } catch {
    return undefined; // ENOENT, ENOTDIR: removed or replaced.
  }
  using _ = closing(fd);
  const opened = `/proc/self/fd/${fd}`;
  return readlinkSync(opened) === workspace ? identity(opened) : undefined;
}
