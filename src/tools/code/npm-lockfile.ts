/** Reads package-lock.json of npm, versions 2 and 3. Pure. */
import { isRecord } from '../../base/text/values.ts';
import { type Entry, type Parsed, recordOf, textOf } from './locked-packages.ts';

/** A place of a package, as keys of `packages` in the lockfile name them: `node_modules/a/node_modules/b`. */
type Place = string;
type Packages = ReadonlyMap<Place, Readonly<Record<string, unknown>>>;

/** What has another type than it should is left out. */
export function ofNpm(value: unknown): Parsed {
  const packages: Packages = new Map(
    Object.entries(recordOf(recordOf(value).packages)).filter((it): it is [string, Record<string, unknown>] =>
      isRecord(it[1]),
    ),
  );
  const entries = [...packages].flatMap(([place, it]): [string, Entry][] => {
    if (!place.includes('node_modules/')) return [];
    const { version, license } = packageAt(packages, place);
    const from = textOf(it.resolved);
    const entry: Entry = {
      // An alias has a name of its own beside that of its place.
      name: textOf(it.name) || textOf(place.replace(/^.*node_modules\//, '')),
      installed: textOf(version),
      dev: it.dev === true || it.devOptional === true,
      optional: it.optional === true || it.devOptional === true,
      ...(typeof license === 'string' && { license }),
      hasInstallScript: it.hasInstallScript === true,
      // Not from a folder, an archive or a repository.
      isOfNpm: it.link !== true && /^(https?:\/\/|$)/.test(from),
      ...(from !== '' && { from }),
      needs: rangesOf(packages, place).flatMap(([name]) => placeOf(packages, place, name) ?? []),
    };
    return [[place, entry]];
  });
  const direct = rangesOf(packages, '').flatMap(([name, range]) => {
    const place = placeOf(packages, '', name);
    return place === undefined ? [] : [[place, range] as const];
  });
  return { entries: new Map(entries), direct: new Map(direct), hasTree: true };
}

/** The names and ranges that a package asks for; those for development only of the project itself. */
function rangesOf(packages: Packages, place: Place): [name: string, range: string][] {
  const it = packageAt(packages, place);
  const kinds = ['dependencies', 'optionalDependencies', ...(place === '' ? ['devDependencies'] : [])];
  return kinds.flatMap((kind) =>
    Object.entries(recordOf(it[kind])).map(([name, range]) => [name, textOf(range)] as [string, string]),
  );
}

/** A package of the workspace is a link to its folder, which is a place of its own. */
function packageAt(packages: Packages, place: Place): Readonly<Record<string, unknown>> {
  const it = packages.get(place) ?? {};
  return it.link === true ? (packages.get(textOf(it.resolved)) ?? it) : it;
}

/** The place at which Node finds a package from another one: in its own node_modules, or in one above. */
function placeOf(packages: Packages, from: Place, name: string): Place | undefined {
  for (let at = from; ; ) {
    const place = `${at === '' ? '' : `${at}/`}node_modules/${name}`;
    if (packages.has(place)) return place;
    if (at === '') return undefined;
    const above = at.lastIndexOf('/node_modules/');
    at = above < 0 ? '' : at.slice(0, above);
  }
}
