/** Normalises paths to the form that rules use. Architecture invariant: nothing here touches the disk. */
import { join, resolve } from 'node:path';
import { isInside, wayBelow } from '../base/paths.ts';

/** The surroundings in which a path was written. All paths are absolute. */
export interface PathContext {
  readonly workspace: string;
  readonly cwd: string;
  /** The directory for `~`; absent if the writer does not expand `~`, as with file tools. */
  readonly home?: string;
}

/** `path` relative to the workspace if inside it (`.` for the workspace itself), else absolute; without `.`, `..` and doubled slashes. */
export function toTarget(path: string, { workspace, cwd, home }: PathContext): string {
  const fromHome = home !== undefined && (path === '~' || path.startsWith('~/'));
  const absolute = fromHome ? join(home, path.slice(1)) : resolve(cwd, path);
  const way = wayBelow(workspace, absolute);
  return way === undefined ? resolve(absolute) : way || '.';
}

/** Folders that only the machine's owner changes and that every sandbox shows unchanged. */
const SYSTEM_FOLDERS = ['/usr', '/bin', '/sbin', '/lib', '/lib32', '/lib64', '/libx32'];

/** Whether an absolute path belongs to the system, so that rules may refer to its programs by name. Never true inside the workspace. */
export function isSystemPath(path: string, workspace: string): boolean {
  return SYSTEM_FOLDERS.some((it) => isInside(it, path)) && !isInside(workspace, path);
}

interface KnownPlaces {
  readonly workspace: string;
  /** Folders of programs outside of the system, which commands see read-only. */
  readonly toolchains?: readonly string[] | undefined;
}

/** Whether rules may refer by name to a program at an absolute path: one of the system, or of a toolchain. */
export const isKnownPath = (path: string, { workspace, toolchains = [] }: KnownPlaces): boolean =>
  isSystemPath(path, workspace) || toolchains.some((it) => isInside(it, path));
