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
  readonly problem?: string | undefined;
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

/** What installing the second instead of the first changes. A version that takes the place of the only other one of its name is a change. */
export function changesBetween(before: readonly LockedPackage[], after: readonly LockedPackage[]): LockChanges {
  const was = new Map(before.map((it) => [it.place, it]));
  const is = new Map(after.map((it) => [it.place, it]));
  const isSame = (a: LockedPackage, b: LockedPackage) =>
    a.name === b.name && a.version === b.version && a.problem === b.problem && a.integrity === b.integrity;
  const added = after.filter((it) => !was.has(it.place));
  const removed = before.filter((it) => !is.has(it.place));
  const moved = pairsOf(removed, added);
  const inPlace = after.flatMap((to) => {
    const from = was.get(to.place);
    return from && !isSame(from, to) ? [{ from, to }] : [];
  });
  return {
    added: added.filter((it) => !moved.some(({ to }) => to === it)),
    removed: removed.filter((it) => !moved.some(({ from }) => from === it)),
    changed: [...inPlace, ...moved],
  };
}

/** Pairs of one removed and one added version of a name; names with more of them are left out. */
function pairsOf(removed: readonly LockedPackage[], added: readonly LockedPackage[]) {
  const [gone, come] = [removed, added].map((list) => Map.groupBy(list, (it) => it.name));
  return [...(gone ?? [])].flatMap(([name, [from, ...others]]) => {
    const [to, ...more] = come?.get(name) ?? [];
    const isPair = others.length === 0 && more.length === 0;
    return from && to && isPair && from.version !== to.version ? [{ from, to }] : [];
  });
}
