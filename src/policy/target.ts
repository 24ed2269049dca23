/** Paths as written, brought to the one form in which rules see them. Architecture invariant: nothing here touches the disk. */
import { join, resolve } from 'node:path';
import { isInside, wayBelow } from '../paths.ts';

/** Where a path was written. All absolute. */
export interface Place {
  readonly workspace: string;
  readonly cwd: string;
  /** What `~` stands for; absent where the writer knows no `~`, as file tools. */
  readonly home?: string;
}

/** `path` relative to the workspace where it lies in it (`.` for the workspace itself), else absolute; without `.`, `..` and doubled slashes. */
export function toTarget(path: string, { workspace, cwd, home }: Place): string {
  const fromHome = home !== undefined && (path === '~' || path.startsWith('~/'));
  const absolute = fromHome ? join(home, path.slice(1)) : resolve(cwd, path);
  const way = wayBelow(workspace, absolute);
  return way === undefined ? resolve(absolute) : way || '.';
}

/** Folders that only the machine's owner changes, and that every sandbox shows as they are. */
const SYSTEM_FOLDERS = ['/usr', '/bin', '/sbin', '/lib', '/lib32', '/lib64', '/libx32'];

/** Whether an absolute path belongs to the system, whose programs rules may speak of by name; never what lies in the workspace. */
export function isSystemPath(path: string, workspace: string): boolean {
  return SYSTEM_FOLDERS.some((it) => isInside(it, path)) && !isInside(workspace, path);
}
