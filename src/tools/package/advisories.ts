/** Known vulnerabilities, as registries tell them. Pure. */
import semver from 'semver';
import { isRecord } from '../../base/text/values.ts';
import type { LockedPackage } from './locked.ts';

export interface Advisory {
  readonly package: string;
  readonly severity: string;
  readonly title: string;
  readonly url?: string;
}

const ADVISORIES_TOLD = 100;
const TEXT_CHARS = 300;

const toAdvisory = (name: string, { title, severity, url }: Record<string, unknown>): Advisory => ({
  package: name.slice(0, TEXT_CHARS).replaceAll(/\p{C}/gu, '?'),
  severity: /^[a-z]{1,16}$/.exec(String(severity))?.[0] ?? 'unknown',
  title: String(title).slice(0, TEXT_CHARS).replaceAll(/\p{C}/gu, ' '),
  ...(typeof url === 'string' && { url: url.slice(0, TEXT_CHARS) }),
});

/** The vulnerabilities in the report of `npm audit`; `not checked` if the registry did not answer. */
export function auditedBy(audit: unknown): Advisory[] | 'not checked' {
  if (!isRecord(audit) || !isRecord(audit.vulnerabilities) || audit.auditReportVersion !== 2) return 'not checked';
  const found = Object.entries(audit.vulnerabilities).flatMap(([name, it]) =>
    isRecord(it) && Array.isArray(it.via) ? it.via.filter(isRecord).map((via) => toAdvisory(name, via)) : [],
  );
  return found.slice(0, ADVISORIES_TOLD);
}

/** The vulnerabilities of packages in a registry's answer about their names; `not checked` if it did not answer. */
export function advisoriesAbout(answer: unknown, packages: readonly LockedPackage[]): Advisory[] | 'not checked' {
  if (!isRecord(answer)) return 'not checked';
  const found = Object.entries(answer).flatMap(([name, list]) => {
    const versions = packages.filter((it) => it.name === name).map((it) => it.version);
    return (Array.isArray(list) ? list : [])
      .filter(isRecord)
      .filter(({ vulnerable_versions: range }) => versions.some((it) => isWithin(it, range)))
      .map((it) => toAdvisory(name, it));
  });
  return found.slice(0, ADVISORIES_TOLD);
}

/** A range that can't be read counts as one of all versions. */
const isWithin = (version: string, range: unknown): boolean =>
  typeof range !== 'string' || semver.validRange(range) === null || semver.satisfies(version, range);
