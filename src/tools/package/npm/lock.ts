/** What package-lock.json (versions 2 and 3) holds. */
import { ToolError } from '../../../base/errors.ts';
import { jsonOr } from '../../../base/text/json.ts';
import { isRecord } from '../../../base/text/values.ts';
import { type LockedPackage, shownUrl, textOf } from '../locked.ts';

/** The packages of a lockfile; none of a missing one. Throws UNSUPPORTED for what is none. */
export function lockedPackages(text: string | null, registry: string): LockedPackage[] {
  if (text === null) return [];
  const value = jsonOr(text, undefined);
  if (!isRecord(value) || !isRecord(value.packages))
    throw new ToolError('UNSUPPORTED', 'package-lock.json is none of npm 7 or newer', {
      suggestion: 'Make it again: `npm install --package-lock-only`.',
    });
  return Object.entries(value.packages).flatMap(([place, it]): LockedPackage[] => {
    if (!place.includes('node_modules/') || !isRecord(it)) return [];
    const { license } = it;
    const entry = {
      name: textOf(it.name) || textOf(place.replace(/^.*node_modules\//, '')),
      version: textOf(it.version),
      resolved: textOf(it.resolved),
      integrity: textOf(it.integrity),
    };
    // A package that says so at the top, or that says where it comes from, is fetched all the same.
    const isBundled = it.inBundle === true && it.resolved === undefined && place.lastIndexOf('/node_modules/') > 0;
    const problem = isBundled ? undefined : problemOf(entry, it.link === true, registry);
    const { resolved: _, ...rest } = entry;
    return [
      {
        place,
        ...rest,
        hasScript: it.hasInstallScript === true,
        isBundled,
        problem,
        ...(typeof license === 'string' && { license: textOf(license).slice(0, 128) }),
      },
    ];
  });
}

/** The origin of a package, as a lockfile says. */
export interface Origin {
  readonly name: string;
  readonly version: string;
  /** URL, or another text; empty if the lockfile does not say. */
  readonly resolved: string;
  readonly integrity: string;
}

/** Why a package is refused because of its origin; undefined if it comes from the registry. */
export function problemOf(it: Origin, isLink: boolean, registry: string): string | undefined {
  const { resolved, integrity } = it;
  if (isLink || /^(file|link|portal|exec|patch|workspace):/.test(resolved))
    return `comes from a folder or an archive of this machine, ${shownUrl(resolved)}`;
  if (/^git[+:@]|^(github|gitlab|bitbucket|gist):|\.git(#|$)/.test(resolved))
    return `comes from a git repository, ${shownUrl(resolved)}`;
  if (resolved === '') return 'does not say where it comes from';
  if (!resolved.startsWith(`${registry}/`)) return `comes from ${shownUrl(resolved)}, which is not the registry`;
  if (!isOwnArchive(it, registry)) return `comes from ${shownUrl(resolved)}, which is the archive of another package`;
  return /^sha(512|384|256)-/.test(integrity) ? undefined : 'has no hash that its content could be checked by';
}

/** Whether the URL is the one under which registries keep that version: a lockfile may name another package's archive, with its hash. */
function isOwnArchive({ name, version, resolved }: Origin, registry: string): boolean {
  const path = resolved.slice(registry.length + 1).replace(/%2f/i, '/');
  return path === `${name}/-/${name.replace(/^.*\//, '')}-${version}.tgz`;
}
