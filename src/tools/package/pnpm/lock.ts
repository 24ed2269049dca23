/** What pnpm-lock.yaml (version 9) holds. */
import { ToolError } from '../../../base/errors.ts';
import { isRecord } from '../../../base/text/values.ts';
import { type LockedPackage, shownUrl, textOf } from '../locked.ts';
import { problemOf } from '../npm/lock.ts';
import { readYaml } from '../yaml-text.ts';

/** The packages of a lockfile; none of a missing one. Throws UNSUPPORTED for what is none. */
export function lockedByPnpm(text: string | null, registry: string): LockedPackage[] {
  if (text === null || text.trim() === '') return [];
  const { lockfileVersion, packages = {}, importers = {}, snapshots = {} } = readYaml(text, 'pnpm-lock.yaml');
  if (!String(lockfileVersion).startsWith('9.') || ![packages, importers, snapshots].every(isRecord))
    throw new ToolError('UNSUPPORTED', 'pnpm-lock.yaml is none of pnpm 9 or newer', {
      suggestion: 'Make it again: `pnpm install --lockfile-only`.',
    });
  const found = Object.entries(packages as object).map(([key, it]) => toPackage(key, isRecord(it) ? it : {}, registry));
  return [...found, ...linksIn(importers as object), ...linksIn(snapshots as object)];
}

function toPackage(
  key: string,
  { resolution, requiresBuild }: Record<string, unknown>,
  registry: string,
): LockedPackage {
  const [, name = '', version = ''] = /^(@[^/@]+\/[^@]+|[^@]+)@(.*)$/.exec(textOf(key)) ?? ['', textOf(key)];
  const from = isRecord(resolution) ? resolution : {};
  const integrity = textOf(from.integrity);
  const problem = originOf({ name, version, integrity }, from, registry);
  return {
    place: textOf(key),
    name,
    version,
    integrity,
    hasScript: requiresBuild === true,
    isBundled: false,
    problem,
  };
}

/** Why the origin of a package is refused. An entry with a hash alone is the registry's own archive of that name and version. */
function originOf(
  it: { name: string; version: string; integrity: string },
  from: Record<string, unknown>,
  registry: string,
): string | undefined {
  if (from.type === 'git' || from.repo !== undefined)
    return `comes from a git repository, ${shownUrl(textOf(from.repo))}`;
  const isFolder = from.type === 'directory' || from.directory !== undefined;
  if (isFolder) return `comes from a folder or an archive of this machine, ${shownUrl(textOf(from.directory))}`;
  if (from.type !== undefined) return `comes from ${shownUrl(textOf(from.type))}, which is not the registry`;
  if (!/^\d+\.\d+\.\d+/.test(it.version)) return `comes from ${shownUrl(it.version)}, which is not the registry`;
  const own = `${registry}/${it.name}/-/${it.name.replace(/^.*\//, '')}-${it.version}.tgz`;
  return problemOf({ ...it, resolved: textOf(from.tarball) || own }, false, registry);
}

/** Folders of this machine that the project, or a package, names. */
function linksIn(dependents: object): LockedPackage[] {
  const kinds = ['dependencies', 'devDependencies', 'optionalDependencies'];
  const entries = Object.values(dependents).flatMap((it: unknown) =>
    kinds.flatMap((kind) => (isRecord(it) && isRecord(it[kind]) ? Object.entries(it[kind]) : [])),
  );
  return entries.flatMap(([name, it]): LockedPackage[] => {
    const version = textOf(isRecord(it) ? it.version : it);
    if (!/^(link|file):/.test(version)) return [];
    const problem = `comes from a folder or an archive of this machine, ${shownUrl(version)}`;
    const place = `${textOf(name)}@${version}`;
    return [{ place, name: textOf(name), version, integrity: '', hasScript: false, isBundled: false, problem }];
  });
}
