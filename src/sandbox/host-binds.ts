/**
 * Whether the sandbox of a host or a provider shows of its workspace what it was told to show. The gateway asks when the process says
 * that it runs, and tells it nothing before: no call, and no server that it is to start, has met that sandbox then.
 */
import { closeSync, constants, openSync, readlinkSync } from 'node:fs';
import { isDeepStrictEqual } from 'node:util';
import { isInside } from '../paths.ts';
import { areCovered, isBoundFrom, NotInPlace } from './binds-in-place.ts';
import type { Cover, Mount } from './bubblewrap.ts';
import { identity } from './launch.ts';
import { mountsOf } from './proc.ts';

export interface HostBinds {
  readonly workspace: string;
  /** All that is mounted on paths of the workspace but the workspace itself. */
  readonly covers: readonly Cover[];
  /** Whom the process was started as: the owner of what had the workspace's name then. */
  readonly owner: ReturnType<typeof identity>;
}

/** What has to be in place of the mounts of a profile; undefined where it shows no workspace. */
export function bindsOf(
  workspace: string,
  { mounts }: { readonly mounts: readonly Mount[] },
  owner: HostBinds['owner'],
): HostBinds | undefined {
  const inside = mounts.flatMap((it) => ('path' in it && isInside(workspace, it.path) ? [it] : []));
  const isWhole = (it: Cover) => it.path === workspace && (it.kind === 'ro' || it.kind === 'rw');
  return inside.some(isWhole) ? { workspace, covers: inside.filter((it) => !isWhole(it)), owner } : undefined;
}

/** `pid`: a process in the sandbox. Throws SANDBOX_UNAVAILABLE. */
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

/** Node does not name it. */
const O_PATH = 0o10000000;

/** Whose the workspace is; undefined where its name leads to something else in this moment. */
function ownerNow(workspace: string): HostBinds['owner'] | undefined {
  let fd: number;
  try {
    fd = openSync(workspace, O_PATH | constants.O_DIRECTORY);
  } catch {
    return undefined; // ENOENT, ENOTDIR.
  }
  try {
    const opened = `/proc/self/fd/${fd}`;
    return readlinkSync(opened) === workspace ? identity(opened) : undefined;
  } finally {
    closeSync(fd);
  }
}
