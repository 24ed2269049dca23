/** Finds and fetches npm packages that hold a whole toolchain: no dependencies, and no script that has to run. */
import { execFile } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { compare } from 'semver';
import * as z from 'zod';
import type { Limits } from '../../base/limits.ts';
import { dist, type FetchBounds, fetchArchive, fetchBytes, readAnswer } from '../npm-registry.ts';
import { ToolchainError } from './installed.ts';

export const NPM_REGISTRY = 'https://registry.npmjs.org';

/** The package of each toolchain; `{arch}` stands for Node's name of the architecture. */
const PACKAGES = {
  node: 'node-linux-{arch}',
  npm: 'npm',
  pnpm: 'pnpm',
  pyright: 'pyright',
  typescript: 'typescript',
  // The package `yarn` ends with version 1.
  yarn: '@yarnpkg/cli-dist',
} as const;
export type ToolchainName = keyof typeof PACKAGES;
/** The newest versions that work without the script of their package; pnpm 12 is a native program that its script fetches. */
const NEWEST: Readonly<Partial<Record<ToolchainName, string>>> = { pnpm: '10' };
export const TOOLCHAIN_NAMES = Object.keys(PACKAGES) as ToolchainName[];

export interface PackageVersion {
  readonly name: string;
  readonly version: string;
  readonly tarball: string;
  /** `sha512-…`, as lockfiles have it. */
  readonly integrity: string;
}

const release = z.looseObject({
  version: z.string().regex(/^\d+\.\d+\.\d+$/),
  dependencies: z.record(z.string(), z.string()).default({}),
  bundleDependencies: z.union([z.boolean(), z.array(z.string())]).default([]),
  dist,
});
const listing = z.looseObject({
  'dist-tags': z.looseObject({ latest: z.string() }),
  versions: z.record(z.string(), z.unknown()),
});

export interface RegistryOptions {
  readonly registry: string;
  readonly arch: string;
  readonly limits: Limits;
}

/**
 * The newest version that begins with `asked`, such as `24` or `24.15`; the one that the registry calls latest if that
 * is absent. Versions before a release don't count. Throws ToolchainError.
 */
export async function findPackage(
  toolchain: ToolchainName,
  asked: string | undefined,
  { registry, arch, limits }: RegistryOptions,
): Promise<PackageVersion> {
  const wanted = asked ?? NEWEST[toolchain];
  const name = PACKAGES[toolchain].replace('{arch}', arch);
  const bytes = await fetchBytes(`${registry}/${name}`, boundsOf(limits, limits.toolchainListingBytesMax));
  const { 'dist-tags': tags, versions } = readAnswer(listing, bytes, name);
  const found = wanted === undefined ? tags.latest : newest(Object.keys(versions), wanted);
  const parsed = release.safeParse(found === undefined ? undefined : versions[found]);
  if (!parsed.success)
    throw new ToolchainError(`${registry} has no version ${wanted ?? 'latest'} of ${name} that can be installed`);
  const { version, dist: archive, dependencies, bundleDependencies: bundled } = parsed.data;
  const [missing] = Object.keys(dependencies).filter((it) => bundled !== true && !(bundled || []).includes(it));
  if (missing !== undefined)
    throw new ToolchainError(`${name}@${version} needs other packages (${missing}); choose another version`);
  return { name, version, tarball: archive.tarball, integrity: archive.integrity };
}

function newest(versions: readonly string[], wanted: string): string | undefined {
  const fits = versions.filter((it) => /^\d+\.\d+\.\d+$/.test(it) && (it === wanted || it.startsWith(`${wanted}.`)));
  return fits.sort(compare).at(-1);
}

/** Fetches a package, checks its hash, and unpacks its files into an empty folder. Throws ToolchainError. */
export async function unpackPackage(it: PackageVersion, folder: string, limits: Limits): Promise<void> {
  const bytes = await fetchArchive(it, boundsOf(limits, limits.toolchainPackageBytesMax));
  const archive = join(folder, '../package.tgz');
  writeFileSync(archive, bytes, { mode: 0o600 });
  const options = ['--no-same-owner', '--no-same-permissions', '--strip-components=1', '-C', folder];
  await promisify(execFile)('tar', ['-xzf', archive, ...options]);
}

const boundsOf = ({ toolchainFetchMs: timeoutMs }: Limits, bytesMax: number): FetchBounds => ({ bytesMax, timeoutMs });
