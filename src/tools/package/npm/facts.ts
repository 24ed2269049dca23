/** What an npm registry knows of planned packages, for managers whose lockfile does not say it. */
import { isRecord } from '../../../base/text/values.ts';
import { type Advisory, advisoriesAbout } from '../advisories.ts';
import { type LockedPackage, textOf } from '../locked.ts';
import { timesOf } from './npm.ts';

export interface Known {
  /** The planned packages, with their scripts and licences as the registry tells them. */
  readonly after: LockedPackage[];
  readonly times: Record<string, string>;
  readonly advisories: readonly Advisory[] | 'not checked';
}

const keyOf = ({ name, version }: LockedPackage): string => `${name}@${version}`;

/** Adds to a planned lockfile what the registry said of its packages. Pure. */
export function knownOf(after: readonly LockedPackage[], report: Readonly<Record<string, unknown>>): Known {
  const facts = isRecord(report.facts) ? report.facts : {};
  const told = (it: LockedPackage): Record<string, unknown> => {
    const known = Object.hasOwn(facts, keyOf(it)) ? facts[keyOf(it)] : undefined;
    return isRecord(known) ? known : {};
  };
  return {
    after: after.map((it) => {
      const { hasScript, license } = told(it);
      const more = typeof license === 'string' ? { license: textOf(license).slice(0, 128) } : {};
      return { ...it, hasScript: it.hasScript || hasScript === true, ...more };
    }),
    times: timesOf(Object.fromEntries(after.map((it) => [keyOf(it), told(it).time]))),
    advisories: advisoriesAbout(report.advisories, after),
  };
}
