/** What an npm registry is asked about packages, and what is read of its answers. A registry's answers are not trusted. */
import { parse } from 'jsonc-parser';
import semver from 'semver';
import * as z from 'zod';
import type { Limits } from '../../base/limits.ts';
import { parseJson } from '../../base/text/json.ts';
import { isRecord } from '../../base/text/values.ts';
import type { AnsweredRequest, ServerRequest } from '../context/requests.ts';
import type { RegistryPackage } from './locked-packages.ts';

export const PUBLIC_REGISTRY = 'https://registry.npmjs.org';
export const SEVERITIES = ['low', 'moderate', 'high', 'critical'] as const;

export const outdated = z.strictObject({ package: z.string(), current: z.string(), latest: z.string() });
export type Outdated = z.output<typeof outdated>;

export const vulnerability = z.strictObject({
  package: z.string(),
  installed: z.array(z.string()).describe('The installed versions that have it.'),
  severity: z.enum(SEVERITIES),
  description: z.string(),
  fixVersion: z.string().optional().describe('The first version after the vulnerable ones, if known.'),
  url: z.string().optional(),
});
export type Vulnerability = z.output<typeof vulnerability>;

/** What the registry said, and the packages that it said nothing about. */
export interface Checked<T> {
  readonly found: T[];
  readonly unchecked: ReadonlySet<string>;
  /** Why the first request had no good answer. */
  readonly reason?: string | undefined;
  /** Whether any request had a good answer. */
  readonly isAnswered: boolean;
}

const BULK = '-/npm/v1/security/advisories/bulk';
const NAME = /^(?:@[a-z0-9~-][\w.~-]*\/)?[a-z0-9~_-][\w.~-]*$/i;
const NAME_CHARS = 214;
const TEXT_CHARS = 500;

/** The packages that this registry may be told of: not those of other registries, whose names may be secrets. */
export function askedOf(packages: readonly RegistryPackage[], registry: string): RegistryPackage[] {
  const own = [PUBLIC_REGISTRY, registry].map((it) => new URL(it).host);
  return packages.filter(
    ({ name, version, from }) =>
      name.length <= NAME_CHARS &&
      NAME.test(name) &&
      semver.valid(version) !== null &&
      (from === undefined || own.includes(URL.parse(from)?.host ?? '')),
  );
}

/** One request for each direct package. */
export function outdatedRequests(packages: readonly RegistryPackage[], registry: string, limits: Limits) {
  const names = new Set(packages.filter((it) => it.direct).map((it) => it.name));
  return [...names].slice(0, limits.outdatedPackagesMax).map(
    (name): ServerRequest => ({
      url: urlOf(registry, encodeURIComponent(name).replace('%40', '@')),
      method: 'GET',
      headers: { accept: 'application/vnd.npm.install-v1+json' },
      keepBytes: limits.packageMetadataBytes,
    }),
  );
}

/** Requests about all packages, many in each. */
export function auditRequests(packages: readonly RegistryPackage[], registry: string, limits: Limits) {
  const versions = [...versionsByName(packages)].slice(0, limits.auditPackagesMax);
  const requests: ServerRequest[] = [];
  for (let at = 0; at < versions.length; at += limits.auditBatchMax)
    requests.push({
      url: urlOf(registry, BULK),
      method: 'POST',
      headers: { accept: 'application/json', 'content-type': 'application/json' },
      body: JSON.stringify(Object.fromEntries(versions.slice(at, at + limits.auditBatchMax))),
      keepBytes: limits.httpBodyBytesMax,
    });
  return requests;
}

const urlOf = (registry: string, path: string): string => `${registry.replace(/\/+$/, '')}/${path}`;

function versionsByName(packages: readonly RegistryPackage[]): Map<string, string[]> {
  const versions = new Map<string, string[]>();
  for (const { name, version } of packages) {
    const known = versions.get(name) ?? [];
    if (!known.includes(version)) versions.set(name, [...known, version]);
  }
  return versions;
}

/** The direct packages that have a newer version. */
export function outdatedIn(
  answered: readonly AnsweredRequest[],
  packages: readonly RegistryPackage[],
): Checked<Outdated> {
  const direct = packages.filter((it) => it.direct);
  const latest = new Map<string, string>();
  let reason: string | undefined;
  for (const { request, answer } of answered) {
    if (request.method !== 'GET') continue;
    const value = documentOf(answer);
    const tags = isRecord(value) && isRecord(value['dist-tags']) ? value['dist-tags'] : {};
    if (typeof tags.latest === 'string' && semver.valid(tags.latest)) latest.set(request.url, tags.latest);
    else reason ??= reasonOf(answer);
  }
  const byName = new Map([...latest].map(([url, version]) => [decodeURIComponent(url.replace(/^.*\//, '')), version]));
  const found = direct.flatMap(({ name, version: current }): Outdated[] => {
    const newest = byName.get(name);
    return newest !== undefined && semver.gt(newest, current) ? [{ package: name, current, latest: newest }] : [];
  });
  found.sort((a, b) => (a.package < b.package ? -1 : 1));
  const unchecked = new Set(direct.map((it) => it.name).filter((it) => !byName.has(it)));
  return { found, unchecked, reason, isAnswered: latest.size > 0 };
}

/** The known vulnerabilities of the packages, the worst first. */
export function vulnerabilitiesIn(
  answered: readonly AnsweredRequest[],
  packages: readonly RegistryPackage[],
): Checked<Vulnerability> {
  const versions = versionsByName(packages);
  const unchecked = new Set(versions.keys());
  let isAnswered = false;
  const found: Vulnerability[] = [];
  let reason: string | undefined;
  for (const { request, answer } of answered) {
    if (request.method !== 'POST') continue;
    const value = 'truncated' in answer && answer.truncated ? undefined : documentOf(answer);
    if (!isRecord(value)) {
      reason ??= reasonOf(answer);
      continue;
    }
    isAnswered = true;
    for (const name of Object.keys(parseJson(request.body ?? '{}') as object)) {
      unchecked.delete(name);
      const advisories = Object.hasOwn(value, name) ? value[name] : [];
      for (const it of Array.isArray(advisories) ? advisories.filter(isRecord) : [])
        found.push(...toVulnerability(name, versions.get(name) ?? [], it));
    }
  }
  found.sort(
    (a, b) => SEVERITIES.indexOf(b.severity) - SEVERITIES.indexOf(a.severity) || (a.package < b.package ? -1 : 1),
  );
  return { found, unchecked, reason, isAnswered };
}

function toVulnerability(
  name: string,
  versions: readonly string[],
  advisory: Record<string, unknown>,
): Vulnerability[] {
  const { vulnerable_versions: range, severity, title, url } = advisory;
  const vulnerable = typeof range === 'string' && range.length <= TEXT_CHARS ? toRange(range) : undefined;
  // A range that can't be read counts as all versions: a warning too many is better than one too few.
  const installed = vulnerable ? versions.filter((it) => vulnerable.test(it)) : [...versions];
  const [first] = installed;
  if (first === undefined) return [];
  const fixVersion = vulnerable && fixOf(vulnerable, first);
  return [
    {
      package: name,
      installed,
      severity: SEVERITIES.find((it) => it === severity) ?? 'low',
      description: typeof title === 'string' ? title.slice(0, TEXT_CHARS) : 'a vulnerability without a description',
      fixVersion,
      ...(typeof url === 'string' && /^https:\/\/\S+$/.test(url) && { url: url.slice(0, TEXT_CHARS) }),
    },
  ];
}

function toRange(text: string): semver.Range | undefined {
  try {
    return new semver.Range(text, { includePrerelease: true, loose: true });
  } catch {
    return undefined; // TypeError: no range.
  }
}

/** The version at which the vulnerable ones around `version` end. */
function fixOf({ set }: semver.Range, version: string): string | undefined {
  const around = set.find((all) => all.every((it) => it.test(version)));
  return around?.find((it) => it.operator === '<')?.semver.version;
}

/** The document of a good answer; undefined if there is none. Of one that was cut, what its beginning holds. */
function documentOf(answer: AnsweredRequest['answer']): unknown {
  if ('missing' in answer || answer.status !== 200) return undefined;
  const text = Buffer.from(answer.body).toString('utf8');
  try {
    return answer.truncated ? parse(text) : parseJson(text);
  } catch {
    return undefined; // SyntaxError, or RangeError for one that nests too deep.
  }
}

function reasonOf(answer: AnsweredRequest['answer']): string {
  if ('missing' in answer) return answer.missing;
  if (answer.status !== 200) return `the registry answered with status ${answer.status}`;
  return answer.truncated ? 'the registry answered with too much' : 'the registry answered with something else';
}
