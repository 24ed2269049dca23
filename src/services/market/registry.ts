/** Finds plugins and connectors in an npm registry, and fetches their packages; nothing of a package is run. */
import { compare, prerelease, valid } from 'semver';
import * as z from 'zod';
import type { Limits } from '../../base/limits.ts';
import { dist, fetchArchive, fetchBytes, readAnswer } from '../npm-registry.ts';
import { MarketError } from './market-error.ts';

export type MarketKind = 'plugin' | 'connector';

/** The npm keyword by which packages of a kind are found; others are not installed. */
export const keywordOf = (kind: MarketKind): string => `ringfence-${kind}`;

export interface RegistryOptions {
  /** Without a slash at its end. */
  readonly registry: string;
  readonly limits: Limits;
  /** Milliseconds since the epoch. */
  readonly nowMs: number;
  /** Age in days that a version must have. */
  readonly coolDownDays: number;
  /** Packages without that bound: names, or `@scope/*`. */
  readonly coolDownExcept: readonly string[];
}

export interface FoundPackage {
  readonly name: string;
  readonly version: string;
  readonly description: string;
  /** ISO 8601; absent if the registry does not say. */
  readonly publishedAt?: string | undefined;
}

/** A version that may be installed. */
export interface Release {
  readonly name: string;
  readonly version: string;
  readonly description: string;
  readonly publishedAt: string;
  readonly tarball: string;
  /** `sha512-…`, as lockfiles have it. */
  readonly integrity: string;
  /** Names of scripts that npm would run when it installs the package. */
  readonly installScripts: readonly string[];
}

const DAY_MS = 86_400_000;
const SEARCH_SIZE = 20;
const NAME = /^(@[a-z0-9][a-z0-9._~-]*\/)?[a-z0-9][a-z0-9._~-]*$/;
const NAME_CHARS_MAX = 214;
const INSTALL_SCRIPTS = ['preinstall', 'install', 'postinstall', 'prepare'];

const text = z.string().max(4096).catch('');
const searchAnswer = z.looseObject({
  objects: z.array(
    z.looseObject({
      package: z.looseObject({
        name: z.string().max(NAME_CHARS_MAX).regex(NAME),
        version: z.string().max(64),
        description: text,
        keywords: z.array(z.string()).catch([]),
        date: z.iso.datetime().optional().catch(undefined),
      }),
    }),
  ),
});
const listing = z.looseObject({
  versions: z.record(z.string(), z.unknown()),
  time: z.record(z.string(), z.unknown()).catch({}),
});
const release = z.looseObject({
  version: z.string(),
  description: text,
  keywords: z.array(z.string()).catch([]),
  scripts: z.record(z.string(), z.unknown()).catch({}),
  dist,
});

/** Packages of a kind whose texts match words; those without its keyword are left out. Throws MarketError. */
export async function search(
  kind: MarketKind,
  words: readonly string[],
  { registry, limits }: RegistryOptions,
): Promise<FoundPackage[]> {
  const query = new URLSearchParams({
    text: [`keywords:${keywordOf(kind)}`, ...words].join(' '),
    size: `${SEARCH_SIZE}`,
  });
  const bytes = await fetchBytes(`${registry}/-/v1/search?${query.toString()}`, listingBounds(limits));
  const { objects } = readAnswer(searchAnswer, bytes, 'a search');
  return objects
    .map((it) => it.package)
    .filter(({ keywords }) => keywords.includes(keywordOf(kind)))
    .slice(0, SEARCH_SIZE)
    .map(({ name, version, description, date }) => ({
      name,
      version,
      description,
      publishedAt: date,
    }));
}

/** Splits `name@version`. Throws MarketError for what is no package of a registry. */
export function parseWanted(wanted: string): { name: string; version: string | undefined } {
  const at = wanted.indexOf('@', 1);
  const [name, version] = at < 0 ? [wanted, undefined] : [wanted.slice(0, at), wanted.slice(at + 1)];
  if (!NAME.test(name) || name.length > NAME_CHARS_MAX) throw new MarketError(`${wanted} is no name of an npm package`);
  if (version !== undefined && valid(version) !== version)
    throw new MarketError(`${version} is no version such as 1.2.3; leave it out for the newest one`);
  return { name, version };
}

/**
 * The wanted version, or the newest one that is old enough and no pre-release. Throws MarketError, also for a version
 * in its cool-down and one without the keyword of the kind.
 */
export async function findRelease(kind: MarketKind, wanted: string, options: RegistryOptions): Promise<Release> {
  const { registry, limits } = options;
  const { name, version } = parseWanted(wanted);
  const url = `${registry}/${name.replace('/', '%2f')}`;
  const { versions, time } = readAnswer(listing, await fetchBytes(url, listingBounds(limits)), name);
  const known = Object.keys(versions).filter((it) => valid(it) === it);
  const stable = known.filter((it) => prerelease(it) === null).sort(compare);
  const agedOnes = stable.filter((it) => problemOfAge(name, time[it], options) === undefined);
  const chosen = version ?? agedOnes.at(-1) ?? stable.at(-1);
  if (chosen === undefined || !known.includes(chosen))
    throw new MarketError(`${registry} has no version ${version ?? 'that is no pre-release'} of ${name}`);
  const problem = problemOfAge(name, time[chosen], options);
  if (problem !== undefined) throw new MarketError(`${name}@${chosen} ${problem}`);
  return toRelease(kind, { name, version: chosen, publishedAt: time[chosen] as string }, versions[chosen], registry);
}

function toRelease(
  kind: MarketKind,
  { name, version, publishedAt }: Pick<Release, 'name' | 'version' | 'publishedAt'>,
  entry: unknown,
  registry: string,
): Release {
  const parsed = release.safeParse(entry);
  if (!parsed.success || parsed.data.version !== version)
    throw new MarketError(`the registry tells no sha512 integrity of ${name}@${version}, or no tarball`);
  const { description, keywords, scripts, dist } = parsed.data;
  if (!keywords.includes(keywordOf(kind)))
    throw new MarketError(`${name}@${version} has no keyword ${keywordOf(kind)}: it is no ${kind} of Ringfence`);
  if (new URL(dist.tarball).origin !== new URL(registry).origin)
    throw new MarketError(`the tarball of ${name}@${version} is at ${dist.tarball}, which is not ${registry}`);
  const installScripts = INSTALL_SCRIPTS.filter((it) => Object.hasOwn(scripts, it));
  const { tarball, integrity } = dist;
  return { name, version, description, publishedAt, tarball, integrity, installScripts };
}

/** Why a version is too young; undefined if it is old enough. */
function problemOfAge(
  name: string,
  publishedAt: unknown,
  { nowMs, coolDownDays, coolDownExcept }: RegistryOptions,
): string | undefined {
  const isExcepted = coolDownExcept.some(
    (it) => it === name || (it.endsWith('/*') && name.startsWith(it.slice(0, -1))),
  );
  const at = typeof publishedAt === 'string' ? Date.parse(publishedAt) : Number.NaN;
  if (Number.isNaN(at)) return 'has no date of publication in the registry, so that its age is not known';
  if (isExcepted || at <= nowMs - coolDownDays * DAY_MS) return undefined;
  return `was published at ${new Date(at).toISOString()}, less than ${coolDownDays} days ago (packages.coolDownDays of config.yaml)`;
}

/** The bytes of a release, whose hash is the one that the registry told; follows no redirection. Throws OperatorError. */
export const fetchRelease = (it: Release, limits: Limits): Promise<Buffer> =>
  fetchArchive(it, { ...listingBounds(limits), bytesMax: limits.marketPackageBytesMax });

const listingBounds = ({ marketListingBytesMax: bytesMax, marketFetchMs: timeoutMs }: Limits) =>
  ({ bytesMax, timeoutMs, redirect: 'error' }) as const;
