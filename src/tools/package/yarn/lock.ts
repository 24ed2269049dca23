/** What yarn.lock of yarn 4 holds. */
import { isRecord } from '../../../text/values.ts';
import { type LockedPackage, shownUrl, textOf } from '../locked.ts';
import { readYaml } from '../yaml-text.ts';

/** The packages of a lockfile; none of a missing one. Throws UNSUPPORTED for what is none. */
export function lockedByYarn(text: string | null): LockedPackage[] {
  if (text === null || text.trim() === '') return [];
  const entries = Object.entries(readYaml(text, 'yarn.lock')).filter(([key]) => key !== '__metadata');
  return entries.flatMap(([key, it]): LockedPackage[] => {
    const { resolution, version, checksum, conditions } = isRecord(it) ? it : {};
    const locator = textOf(resolution) || textOf(key);
    const [, name = locator, origin = ''] = /^(@[^/@]+\/[^@]+|[^@]+)@(.*)$/.exec(locator) ?? [];
    if (origin === 'workspace:.') return [];
    const integrity = textOf(checksum);
    // yarn writes no hash for what is meant for other machines, and does not fetch it.
    const isHashed = integrity !== '' || conditions !== undefined;
    const problem = problemIn({ name, origin, version: textOf(version) }, isHashed);
    return [
      {
        place: locator,
        name,
        version: textOf(version),
        integrity,
        hasScript: false,
        isBundled: false,
        ...(problem !== undefined && { problem }),
      },
    ];
  });
}

/** A repair that yarn itself brings for packages of the registry; no file of the project is part of it. */
const BUILT_IN_PATCH = /^patch:([^#]+)@npm%3A([^#]+)#optional!builtin<compat\/\w+>(?:::[\w=&.]*)?$/;

/** Why the origin of a package is refused: anything but `npm:VERSION`, which is the registry's own archive of it. */
function problemIn(
  { name, origin, version }: { name: string; origin: string; version: string },
  isHashed: boolean,
): string | undefined {
  const [, patched, base] = BUILT_IN_PATCH.exec(origin) ?? [];
  const isPatched = patched === name && base === version;
  if (/^(file|link|portal|exec|patch|workspace):/.test(origin) && !isPatched)
    return `comes from a folder or an archive of this machine, ${shownUrl(origin)}`;
  if (/^git[+:@]|\.git(#|$)/.test(origin)) return `comes from a git repository, ${shownUrl(origin)}`;
  if (origin !== `npm:${version}` && !isPatched) return `comes from ${shownUrl(origin)}, which is not the registry`;
  return isHashed ? undefined : 'has no hash that its content could be checked by';
}
