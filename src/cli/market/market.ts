/**
 * `ringfence plugin|connector search|install`: packages of an npm registry. A package is fetched, judged and tried
 * before a person is asked; what is installed is exactly what was shown, by its hash.
 */

import { join } from 'node:path';
import { defaultLimits as limits } from '../../base/limits.ts';
import { readConfigFile } from '../../daemon/config.ts';
import {
  fetchRelease,
  findRelease,
  type MarketKind,
  type RegistryOptions,
  type Release,
  search,
} from '../../services/market/registry.ts';
import { readTarball } from '../../services/market/tarball.ts';
import type { PinnedFiles } from '../../services/pinned/pin-folder.ts';
import { toPackageSettings } from '../../tools/package/settings.ts';
import { similarTo } from '../../tools/package/similar-names.ts';
import { userDirsOf } from '../connect.ts';
import { EXIT, harmless, type JsonFlag, OperatorError, print, printJson, say, UsageError } from '../output.ts';
import { askPerson } from '../own-files.ts';
import { kinds } from './kinds.ts';
import type { MarketCaller, PackageKind } from './package-kind.ts';
import { tryOut } from './trial.ts';

export interface InstallFlags {
  readonly json?: boolean;
  readonly yes?: boolean;
  /** Hash that the plugin or connector must have. */
  readonly sha256?: string;
}

/** Lists packages of a kind. Returns the exit code: 1 if none was found. */
export async function marketSearch(
  kind: MarketKind,
  words: readonly string[],
  { json }: JsonFlag,
  caller: MarketCaller,
): Promise<number> {
  const found = await search(kind, words, optionsOf(caller));
  if (json) printJson(found);
  else if (found.length === 0) say(`no ${kind} matches`);
  else
    for (const { name, version, description } of found)
      print(harmless(`${`${name}@${version}`.padEnd(32)} ${description}`));
  return found.length > 0 ? EXIT.OK : EXIT.FAILED;
}

/** Installs a package as a plugin or a connector, once a person has seen it and agreed. Returns the exit code. */
export async function marketInstall(
  kind: MarketKind,
  wanted: string,
  flags: InstallFlags,
  caller: MarketCaller,
): Promise<number> {
  if (flags.yes && flags.sha256 === undefined)
    throw new UsageError('--yes needs --sha256: without a person, only what somebody looked at is installed');
  const expected = flags.sha256?.replace(/^sha256:/, '');
  const release = await findRelease(kind, wanted, optionsOf(caller));
  const { target, taken, add } = kinds[kind] as PackageKind;
  const files = taken(readTarball(await fetchRelease(release, limits), limits), limits);
  using trial = await tryOut(kind, files, target);
  if (!flags.json) show(release, files, trial.sha256);
  if (expected !== undefined && expected !== trial.sha256)
    throw new OperatorError(
      `${release.name}@${release.version} has sha256:${trial.sha256}, not sha256:${harmless(expected)}; nothing was installed`,
    );
  if (!flags.yes && !(await agrees(kind, release, trial.sha256))) return EXIT.FAILED;
  const { json, sha256 } = { json: flags.json ?? false, sha256: trial.sha256 };
  return add(join(trial.folder, target), { json, sha256 }, caller);
}

/** Shows what would be installed, as far as the check of the plugin or connector does not show it itself. */
function show(
  { name, version, description, publishedAt, integrity, installScripts }: Release,
  files: PinnedFiles,
  sha256: string,
): void {
  print(harmless(`${name}@${version}: ${description}`));
  print(harmless(`published at ${publishedAt}, ${integrity}`));
  const similar = similarTo(name, 'npm');
  if (similar !== undefined) print(`its name is like that of ${similar}, which is another package`);
  if (installScripts.length > 0) print(`its scripts were not run, and never are: ${installScripts.join(', ')}`);
  for (const [path, text] of Object.entries(files)) print(harmless(`  ${path}  ${Buffer.byteLength(text)} bytes`));
  print(`checked in a sandbox: sha256:${sha256}\n`);
}

/** Asks the person. Without a terminal, says how to install what was shown. */
async function agrees(kind: MarketKind, { name, version }: Release, sha256: string): Promise<boolean> {
  if (!process.stdin.isTTY) {
    say(
      `nothing was installed; to install what was shown: ringfence ${kind} install ${name}@${version} --yes --sha256 ${sha256}`,
    );
    return false;
  }
  const answer = await askPerson(`Install ${harmless(name)}@${harmless(version)}? [y/n] `);
  if (/^y(es)?$/i.test(answer)) return true;
  say('nothing was installed');
  return false;
}

/** The registry and the age of versions, as the operator's config has them. Throws UsageError. */
function optionsOf({ flags, env, nowMs }: MarketCaller): RegistryOptions {
  const { packages } = readConfigFile(userDirsOf(flags, env).configFile);
  const { registry, coolDownDays, coolDownExcept } = toPackageSettings(packages);
  const { protocol, hostname } = new URL(registry);
  if (protocol !== 'https:' && hostname !== '127.0.0.1')
    throw new UsageError(`packages.registry of config.yaml must be an https URL, not ${harmless(registry)}`);
  return { registry, limits, nowMs, coolDownDays, coolDownExcept };
}
