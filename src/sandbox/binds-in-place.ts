/**
 * Whether bubblewrap bound the folders and files that it was told to. A bind has a source and a target, both are names, and
 * bubblewrap follows links in both: a command that runs beside can swap a folder of its own for a link in that moment, and the
 * new sandbox would show, under that name, what is hidden elsewhere. The kernel tells afterwards what each mount really shows.
 */
import { dirname, join, relative } from 'node:path';
import type { Cover } from './bubblewrap.ts';
import type { Mounted } from './proc.ts';

/** The paths that these covers bind on themselves: each has to show what lies at that path, and nothing else. */
export const boundPaths = (covers: readonly Cover[]): string[] =>
  covers.flatMap((it) => {
    if (it.kind === 'rw-try' || it.kind === 'ro-try') return [it.path];
    return it.kind === 'listed' ? it.entries : [];
  });

/** Pure. A bind whose source was missing, or that landed at another place, is not in place either. */
export function areInPlace(paths: readonly string[], mounts: readonly Mounted[]): boolean {
  const byPoint = Map.groupBy(mounts, (it) => it.point);
  return paths.every((path) => {
    const here = byPoint.get(path) ?? [];
    const above = nearestAbove(path, byPoint);
    const [first] = here;
    if (!first || !above) return false;
    // A file system that the person mounted in the workspace is below the bind of its mount point, and shows the same.
    if (here.length > 1) return here.every((it) => isSame(it, first));
    return isSame(first, { device: above.device, root: join(above.root, relative(above.point, path)) });
  });
}

const isSame = (mount: Pick<Mounted, 'device' | 'root'>, other: Pick<Mounted, 'device' | 'root'>): boolean =>
  mount.device === other.device && mount.root === other.root;

/** The mount that a path would be in without its own. The first one at a point: an empty folder may be mounted over it. */
function nearestAbove(path: string, byPoint: ReadonlyMap<string, readonly Mounted[]>): Mounted | undefined {
  for (let at = dirname(path); ; at = dirname(at)) {
    const found = byPoint.get(at)?.[0];
    if (found || at === '/') return found;
  }
}
