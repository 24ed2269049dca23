/** The packages of a lockfile, whichever manager wrote it, and how two lockfiles differ. Pure. */

export interface LockedPackage {
  /** Identifies it within the lockfile: a folder of `node_modules`, or the lockfile's own key. */
  readonly place: string;
  readonly name: string;
  readonly version: string;
  readonly integrity: string;
  readonly hasScript: boolean;
  /** Whether its content is part of another package's. */
  readonly isBundled: boolean;
  /** Why it is not installed, such as an origin that is not the registry. */
  readonly problem?: string;
  readonly license?: string;
}

export interface LockChanges {
  readonly added: readonly LockedPackage[];
  readonly removed: readonly LockedPackage[];
  readonly changed: readonly { readonly from: LockedPackage; readonly to: LockedPackage }[];
}

const TEXT_CHARS = 2048;

/** A text of a lockfile without characters that could begin a line of their own, or hide others, where a person reads it. */
export const textOf = (value: unknown): string =>
  typeof value === 'string' ? value.slice(0, TEXT_CHARS).replaceAll(/[\p{C}\p{Zl}\p{Zp}]/gu, '?') : '';

export const shownUrl = (url: string): string => JSON.stringify(url.slice(0, 200));

/** What installing the second instead of the first changes. */
export function changesBetween(before: readonly LockedPackage[], after: readonly LockedPackage[]): LockChanges {
  const was = new Map(before.map((it) => [it.place, it]));
  const is = new Map(after.map((it) => [it.place, it]));
  const isSame = (a: LockedPackage, b: LockedPackage) =>
    a.name === b.name && a.version === b.version && a.problem === b.problem && a.integrity === b.integrity;
  return {
    added: after.filter((it) => !was.has(it.place)),
    removed: before.filter((it) => !is.has(it.place)),
    changed: after.flatMap((to) => {
      const from = was.get(to.place);
      return from && !isSame(from, to) ? [{ from, to }] : [];
    }),
  };
}

/** Packages of two lists, as one version of one name each: versions of a name that took the place of others are changes. */
export function byName(packages: readonly LockedPackage[]): LockedPackage[] {
  const count = new Map<string, number>();
  for (const { name } of packages) count.set(name, (count.get(name) ?? 0) + 1);
  return packages.map((it) => (count.get(it.name) === 1 ? { ...it, place: it.name } : it));
}
