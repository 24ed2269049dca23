/** Judges a planned lockfile: what is refused, and what a person has to accept by name. Pure. */
import type { LockChanges, LockedPackage } from './npm-lock.ts';
import type { PackageTerms } from './settings.ts';
import { similarTo } from './similar-names.ts';

export interface Finding {
  /** How `accept` names it; absent if it can't be accepted. */
  readonly id?: string;
  readonly package: string;
  readonly problem: string;
}

const nameOf = ({ name, version }: LockedPackage): string => `${name}@${version}`;
const shown = (url: string): string => JSON.stringify(url.slice(0, 200));

/** Refusals for the whole content of a lockfile, changed or not: all of it would be installed. */
export function refusedOf(
  after: readonly LockedPackage[],
  { changed }: LockChanges,
  { registry }: Pick<PackageTerms, 'registry'>,
): Finding[] {
  const found = after.flatMap((it): Finding[] => {
    const of = (problem: string) => [{ package: nameOf(it), problem }];
    if (it.isBundled) return [];
    if (it.isLink || it.resolved.startsWith('file:'))
      return of(`comes from a folder or an archive of this machine, ${shown(it.resolved)}`);
    if (/^git[+:]|^(github|gitlab|bitbucket|gist):/.test(it.resolved))
      return of(`comes from a git repository, ${shown(it.resolved)}`);
    if (!it.resolved.startsWith(`${registry}/`))
      return of(
        it.resolved === ''
          ? 'does not say where it comes from'
          : `comes from ${shown(it.resolved)}, which is not the registry`,
      );
    if (!isOwnArchive(it, registry))
      return of(`comes from ${shown(it.resolved)}, which is the archive of another package`);
    return /^sha(512|384|256)-/.test(it.integrity) ? [] : of('has no hash that its content could be checked by');
  });
  const replaced = changed.flatMap(({ from, to }): Finding[] =>
    from.name === to.name && from.version === to.version && from.integrity !== '' && from.integrity !== to.integrity
      ? [{ package: nameOf(to), problem: 'has another content than the same version had before' }]
      : [],
  );
  return [...found, ...replaced];
}

/** Whether the URL is the one under which registries keep that version: a lockfile may name another package's archive, with its hash. */
function isOwnArchive({ name, version, resolved }: LockedPackage, registry: string): boolean {
  const path = resolved.slice(registry.length + 1).replace(/%2f/i, '/');
  return path === `${name}/-/${name.replace(/^.*\//, '')}-${version}.tgz`;
}

export interface NewPackages {
  /** Added and changed packages. */
  readonly packages: readonly LockedPackage[];
  /** Times of publication by `name@version`, ISO 8601, as the registry tells them. */
  readonly times: Readonly<Record<string, string>>;
  /** The packages that the project itself names. */
  readonly direct: ReadonlySet<string>;
}

/** What may be accepted by name: versions in their cool-down, and names like those of popular packages that the project itself names. */
export function questionableOf({ packages, times, direct }: NewPackages, terms: PackageTerms): Finding[] {
  const found = packages.flatMap((it): Finding[] => {
    const popular = direct.has(it.name) ? similarTo(it.name) : undefined;
    return [
      ...(isYoung(it, times, terms) ? [youngOf(it, times, terms)] : []),
      ...(popular === undefined
        ? []
        : [
            { id: `similar:${it.name}`, package: nameOf(it), problem: `is not ${popular}, though its name is like it` },
          ]),
    ];
  });
  return [...new Map(found.map((it) => [it.id, it])).values()];
}

function isYoung(it: LockedPackage, times: NewPackages['times'], { notAfter, coolDownDays, ...terms }: PackageTerms) {
  if (coolDownDays === 0 || it.isBundled) return false;
  const isExcepted = terms.coolDownExcept.some((except) =>
    except.endsWith('/*') ? it.name.startsWith(except.slice(0, -1)) : it.name === except,
  );
  if (isExcepted) return false;
  const published = Object.hasOwn(times, nameOf(it)) ? Date.parse(times[nameOf(it)] ?? '') : Number.NaN;
  // An unknown age is no age.
  return !(published <= Date.parse(notAfter));
}

function youngOf(it: LockedPackage, times: NewPackages['times'], { coolDownDays }: PackageTerms): Finding {
  const time = Object.hasOwn(times, nameOf(it)) ? times[nameOf(it)] : undefined;
  const when = time === undefined ? 'has no known time of publication' : `was published at ${time.slice(0, 32)}`;
  return {
    id: `fresh:${nameOf(it)}`,
    package: nameOf(it),
    problem: `${when}; versions younger than ${coolDownDays} days are taken only by name`,
  };
}
