/**
 * Checks that bubblewrap bound the folders and files that it was told to. A bind's source and target are both names, and
 * bubblewrap follows links in both: a command that runs at the same time can swap one of its folders for a link, and the
 * new sandbox would show hidden files under that name. Afterwards the kernel's mount table tells what each mount really shows.
 */
import { dirname, join, relative } from 'node:path';
import { ToolError } from '../base/errors.ts';
import { isInside } from '../base/paths.ts';
import { type CoveringMount, isNameless } from './mount.ts';
import type { MountEntry } from './proc.ts';

/** The paths that these covers bind onto themselves: each must show what lies at that path, and nothing else. */
export const boundPaths = (covers: readonly CoveringMount[]): string[] =>
  covers.flatMap((it) => {
    if (it.kind === 'rw-try' || it.kind === 'ro-try') return [it.path];
    return it.kind === 'listed' ? it.entries : [];
  });

/** Whether each cover is still mounted at its path and shows what it should. Pure. */
export function areCovered(covers: readonly CoveringMount[], mounts: readonly MountEntry[]): boolean {
  const points = new Set(mounts.map((it) => it.point));
  return covers.every((it) => isNameless(it) || points.has(it.path)) && areInPlace(boundPaths(covers), mounts);
}

/** Whether each path is a mount that shows that same path. False for a bind whose source was missing or that landed elsewhere. Pure. */
export function areInPlace(paths: readonly string[], mounts: readonly MountEntry[]): boolean {
  const byPoint = Map.groupBy(mounts, (it) => it.point);
  return paths.every((path) => {
    const here = byPoint.get(path) ?? [];
    const above = nearestAbove(path, byPoint);
    const [first] = here;
    if (!first || !above) return false;
    // A file system that the person mounted in the workspace is below the bind of its mount point, and shows the same.
    if (here.length > 1) return here.every((it) => isSame(it, first));
    return isSame(first, placeIn(above, path));
  });
}

/** Whether the first bind of a folder in a sandbox shows what the folder's path leads to outside, whose mounts are `outside`. Pure. */
export function isBoundFrom(folder: string, mounts: readonly MountEntry[], outside: readonly MountEntry[]): boolean {
  const bind = mounts.find((it) => it.point === folder);
  const seen = mountAt(folder, outside);
  return bind !== undefined && seen !== undefined && isSame(bind, placeIn(seen, folder));
}

/** A sandbox shows something other than it was told to. Nothing of its caller has run in it, so another may be built. */
export class NotInPlace extends ToolError {
  constructor() {
    super('SANDBOX_UNAVAILABLE', 'folders of the workspace were moved or replaced while the sandbox was built', {
      suggestion: 'Try again; where it happens again, end the command or terminal that keeps replacing them.',
    });
  }
}

/** Builds a sandbox, and a second one if the first was not in place: folders are also replaced for honest reasons. */
export async function inPlace<T>(build: () => Promise<T>, signal: AbortSignal): Promise<T> {
  try {
    return await build();
  } catch (error) {
    if (!(error instanceof NotInPlace) || signal.aborted) throw error;
    return build();
  }
}

type MountSource = Pick<MountEntry, 'device' | 'root'>;

const isSame = (mount: MountSource, other: MountSource): boolean =>
  mount.device === other.device && mount.root === other.root;

const placeIn = (mount: MountEntry, path: string): MountSource => ({
  device: mount.device,
  root: join(mount.root, relative(mount.point, path)),
});

/** The mount that a path would be in without a mount of its own. At each point the first one: an empty folder may be mounted over it. */
function nearestAbove(path: string, byPoint: ReadonlyMap<string, readonly MountEntry[]>): MountEntry | undefined {
  for (let at = dirname(path); ; at = dirname(at)) {
    const found = byPoint.get(at)?.[0];
    if (found || at === '/') return found;
  }
}

/** The mount that shows a path, found as the kernel walks to it: on each mount the outermost one that leads on. */
function mountAt(path: string, mounts: readonly MountEntry[]): MountEntry | undefined {
  const ids = new Set(mounts.map((it) => it.id));
  const isAbove = (it: MountEntry) => isInside(it.point, path);
  for (let at = mounts.find((it) => it.point === '/' && (it.parent === it.id || !ids.has(it.parent))); ; ) {
    const on = mounts.filter((it) => it.parent === at?.id && it !== at && isAbove(it));
    const next = on.reduce<MountEntry | undefined>((a, b) => (a && isInside(a.point, b.point) ? a : b), undefined);
    if (!next) return at;
    at = next;
  }
}
