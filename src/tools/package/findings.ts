/** Judges a planned lockfile: what is refused, and what a person has to accept by name. */
import { ToolError } from '../../base/errors.ts';
import type { RegistryKind } from '../context/requests.ts';
import type { LockChanges, LockedPackage } from './locked.ts';
import type { PackageTerms } from './settings.ts';
import { similarTo } from './similar-names.ts';

export interface Finding {
  /** How `accept` names it; absent if it can't be accepted. */
  readonly id?: string;
  readonly package: string;
  readonly problem: string;
}

const nameOf = ({ name, version }: LockedPackage): string => `${name}@${version}`;

/** Refusals for the whole content of a lockfile, changed or not: all of it would be installed. */
export function refusedOf(after: readonly LockedPackage[], { changed }: LockChanges): Finding[] {
  const found = after.flatMap((it): Finding[] =>
    it.problem === undefined ? [] : [{ package: nameOf(it), problem: it.problem }],
  );
  const replaced = changed.flatMap(({ from, to }): Finding[] =>
    from.name === to.name && from.version === to.version && from.integrity !== '' && from.integrity !== to.integrity
      ? [{ package: nameOf(to), problem: 'has another content than the same version had before' }]
      : [],
  );
  return [...found, ...replaced];
}

export interface NewPackages {
  /** Added and changed packages. */
  readonly packages: readonly LockedPackage[];
  /** Times of publication by `name@version`, ISO 8601, as the registry tells them. */
  readonly times: Readonly<Record<string, string>>;
  readonly ecosystem: RegistryKind;
}

/**
 * What may be accepted by name: versions in their cool-down, and names like those of popular packages. Each package is judged by the name
 * that the registry has it under, whether the project, an alias or another package brings it.
 */
export function questionableOf({ packages, times, ecosystem }: NewPackages, terms: PackageTerms): Finding[] {
  const found = packages.flatMap((it): Finding[] => {
    const popular = similarTo(it.name, ecosystem);
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

/** Whether the operator's settings take a package out of the cool-down. */
export const isExcepted = (name: string, { coolDownExcept }: Pick<PackageTerms, 'coolDownExcept'>): boolean =>
  coolDownExcept.some((it) => (it.endsWith('/*') ? name.startsWith(it.slice(0, -1)) : name === it));

function isYoung(it: LockedPackage, times: NewPackages['times'], terms: PackageTerms) {
  if (terms.coolDownDays === 0 || it.isBundled || isExcepted(it.name, terms)) return false;
  const published = Object.hasOwn(times, nameOf(it)) ? Date.parse(times[nameOf(it)] ?? '') : Number.NaN;
  // An unknown age is no age.
  return !(published <= Date.parse(terms.notAfter));
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

/** Throws POLICY_DENIED for findings. */
export function assertNone(findings: readonly Finding[], how: string): void {
  if (findings.length === 0) return;
  const first = findings.slice(0, 5).map((it) => `${it.package} ${it.problem}`);
  const more = findings.length > first.length ? ` and ${findings.length - first.length} more` : '';
  throw new ToolError('POLICY_DENIED', `nothing was installed: ${first.join('; ')}${more}`, {
    suggestion: how,
    details: { findings: findings.slice(0, 100) },
  });
}
