/** Finds and fetches npm packages that hold a whole toolchain: no dependencies, and no script that has to run. */
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import * as z from 'zod';
import type { Limits } from '../../base/limits.ts';
import { parseJson } from '../../base/text/json.ts';
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

/** A version of a package in the registry. */
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
  dist: z.looseObject({ tarball: z.url(), integrity: z.string().regex(/^sha512-[\w+/=]{88}$/) }),
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
  const bytes = await download(`${registry}/${name}`, limits.toolchainListingBytesMax, limits);
  const { 'dist-tags': tags, versions } = readListing(name, bytes);
  const found = wanted === undefined ? tags.latest : newest(Object.keys(versions), wanted);
  const parsed = release.safeParse(found === undefined ? undefined : versions[found]);
  if (!parsed.success)
    throw new ToolchainError(`${registry} has no version ${wanted ?? 'latest'} of ${name} that can be installed`);
  const { version, dist, dependencies, bundleDependencies: bundled } = parsed.data;
  const [missing] = Object.keys(dependencies).filter((it) => bundled !== true && !(bundled || []).includes(it));
  if (missing !== undefined)
    throw new ToolchainError(`${name}@${version} needs other packages (${missing}); choose another version`);
  return { name, version, tarball: dist.tarball, integrity: dist.integrity };
}

function readListing(name: string, bytes: Buffer): z.output<typeof listing> {
  try {
    return listing.parse(parseJson(bytes.toString('utf8')));
  } catch {
    throw new ToolchainError(`the registry's answer about ${name} is no listing of a package`);
  }
}

function newest(versions: readonly string[], wanted: string): string | undefined {
  const fits = versions.filter((it) => /^\d+\.\d+\.\d+$/.test(it) && (it === wanted || it.startsWith(`${wanted}.`)));
  const parts = (it: string) => it.split('.').map(Number) as [number, number, number];
  return fits
    .sort((a, b) => {
      const [left, right] = [parts(a), parts(b)];
      return left[0] - right[0] || left[1] - right[1] || left[2] - right[2];
    })
    .at(-1);
}

/** Fetches a package, checks its hash, and unpacks its files into an empty folder. Throws ToolchainError. */
export async function unpackPackage(it: PackageVersion, folder: string, limits: Limits): Promise<void> {
  const bytes = await download(it.tarball, limits.toolchainPackageBytesMax, limits);
  const hash = `sha512-${createHash('sha512').update(bytes).digest('base64')}`;
  if (hash !== it.integrity)
    throw new ToolchainError(`${it.tarball} has the hash ${hash}, not ${it.integrity} as the registry says`);
  const archive = join(folder, '../package.tgz');
  writeFileSync(archive, bytes, { mode: 0o600 });
  const options = ['--no-same-owner', '--no-same-permissions', '--strip-components=1', '-C', folder];
  await promisify(execFile)('tar', ['-xzf', archive, ...options]);
}

/** The body of an answer. Throws ToolchainError for another status, too many bytes, and too much time. */
async function download(url: string, bytesMax: number, { toolchainFetchMs }: Limits): Promise<Buffer> {
  const pieces: Uint8Array[] = [];
  let bytes = 0;
  try {
    const answer = await fetch(url, { signal: AbortSignal.timeout(toolchainFetchMs) });
    if (!answer.ok) throw new ToolchainError(`${url} answers with status ${answer.status}`);
    for await (const piece of answer.body ?? []) {
      bytes += piece.length;
      if (bytes > bytesMax) throw new ToolchainError(`${url} has more than ${bytesMax} bytes`);
      pieces.push(piece);
    }
  } catch (error) {
    if (error instanceof ToolchainError) throw error;
    const { message, cause } = error as Error;
    throw new ToolchainError(`${url} can't be fetched: ${cause instanceof Error ? cause.message : message}`);
  }
  return Buffer.concat(pieces);
}
