/** What package-lock.json (versions 2 and 3) holds, and how two of them differ. */
import { ToolError } from '../../errors.ts';
import { parseJson } from '../../text/json.ts';
import { isRecord } from '../../text/values.ts';

/** A package at one place of `node_modules`. */
export interface LockedPackage {
  readonly place: string;
  readonly name: string;
  readonly version: string;
  /** URL, or another text that says where its content comes from; empty if the lockfile does not say. */
  readonly resolved: string;
  readonly integrity: string;
  readonly hasScript: boolean;
  readonly isLink: boolean;
  /** Whether its content is part of another package's. */
  readonly isBundled: boolean;
  readonly license?: string;
}

export interface LockChanges {
  readonly added: readonly LockedPackage[];
  readonly removed: readonly LockedPackage[];
  readonly changed: readonly { readonly from: LockedPackage; readonly to: LockedPackage }[];
}

const TEXT_CHARS = 2048;
/** Without characters that could begin a line of their own, or hide others, where a person reads it. */
const textOf = (value: unknown): string =>
  typeof value === 'string' ? value.slice(0, TEXT_CHARS).replaceAll(/[\p{C}\p{Zl}\p{Zp}]/gu, '?') : '';

/** The packages of a lockfile; none of a missing one. Throws UNSUPPORTED for what is none. */
export function lockedPackages(text: string | null): LockedPackage[] {
  if (text === null) return [];
  let value: unknown;
  try {
    value = parseJson(text);
  } catch {
    value = undefined; // A SyntaxError, or a RangeError for one that nests too deep.
  }
  if (!isRecord(value) || !isRecord(value.packages))
    throw new ToolError('UNSUPPORTED', 'package-lock.json is none of npm 7 or newer', {
      suggestion: 'Make it again: `npm install --package-lock-only`.',
    });
  return Object.entries(value.packages).flatMap(([place, it]): LockedPackage[] => {
    if (!place.includes('node_modules/') || !isRecord(it)) return [];
    const { license } = it;
    return [
      {
        place,
        name: textOf(it.name) || textOf(place.replace(/^.*node_modules\//, '')),
        version: textOf(it.version),
        resolved: textOf(it.resolved),
        integrity: textOf(it.integrity),
        hasScript: it.hasInstallScript === true,
        isLink: it.link === true,
        // A package that says so at the top, or that says where it comes from, is fetched all the same.
        isBundled: it.inBundle === true && it.resolved === undefined && place.lastIndexOf('/node_modules/') > 0,
        ...(typeof license === 'string' && { license: textOf(license).slice(0, 128) }),
      },
    ];
  });
}

/** What installing the second instead of the first changes. */
export function changesBetween(before: readonly LockedPackage[], after: readonly LockedPackage[]): LockChanges {
  const was = new Map(before.map((it) => [it.place, it]));
  const is = new Map(after.map((it) => [it.place, it]));
  const isSame = (a: LockedPackage, b: LockedPackage) =>
    a.name === b.name && a.version === b.version && a.resolved === b.resolved && a.integrity === b.integrity;
  return {
    added: after.filter((it) => !was.has(it.place)),
    removed: before.filter((it) => !is.has(it.place)),
    changed: after.flatMap((to) => {
      const from = was.get(to.place);
      return from && !isSame(from, to) ? [{ from, to }] : [];
    }),
  };
}
