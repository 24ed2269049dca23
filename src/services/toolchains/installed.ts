/**
 * Toolchains that `ringfence toolchain add` has put into the state directory: one folder each, with the npm package and
 * a folder `bin` of links to its programs. Commands see the folder of them all read-only, and on PATH another one with links
 * to all programs: so a sandbox that was built before finds what is added or removed later.
 */

import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  renameSync,
  rmSync,
  symlinkSync,
} from 'node:fs';
import { basename, join, posix } from 'node:path';
import * as z from 'zod';
import { OperatorError } from '../../base/errors.ts';
import { isInside } from '../../base/paths.ts';
import { parseJson } from '../../base/text/json.ts';

/** A toolchain can't be installed or removed; the message is for a person. */
export class ToolchainError extends OperatorError {}

export interface InstalledToolchain {
  readonly name: string;
  readonly version: string;
  /** Absolute path. */
  readonly folder: string;
  /** Names of its programs. */
  readonly programs: readonly string[];
}

const toolchainsFolder = (stateDir: string): string => join(stateDir, 'toolchains');
/** Links to the programs of all toolchains. */
export const programsFolder = (stateDir: string): string => join(stateDir, 'toolchain-programs');
/** What commands see. */
export const shownFolders = (stateDir: string): string[] => [toolchainsFolder(stateDir), programsFolder(stateDir)];
/** Unfinished installations. */
const INCOMING = 'incoming';
const FOLDER = /^([a-z][a-z0-9]*)@(\d+\.\d+\.\d+)$/;

/** The installed toolchains by name, versions in the order of their names. */
export function installedToolchains(stateDir: string): InstalledToolchain[] {
  const parent = toolchainsFolder(stateDir);
  if (!existsSync(parent)) return [];
  return readdirSync(parent)
    .sort()
    .flatMap((it) => {
      const [, name, version] = FOLDER.exec(it) ?? [];
      if (name === undefined || version === undefined) return [];
      const folder = join(parent, it);
      return [{ name, version, folder, programs: readdirSync(join(folder, 'bin')).sort() }];
    });
}

/** Makes the folders that commands see, with a link to each program that is installed; a daemon does so at its start. */
export function linkToolchains(stateDir: string): void {
  for (const it of shownFolders(stateDir)) mkdirSync(it, { recursive: true, mode: 0o755 });
  const links = programsFolder(stateDir);
  const targets = new Map<string, string>();
  // The first toolchain by name gives a program that several have.
  for (const { folder, programs } of installedToolchains(stateDir).toReversed())
    for (const name of programs)
      targets.set(name, posix.join('../toolchains', basename(folder), 'bin', readlinkSync(join(folder, 'bin', name))));
  for (const name of readdirSync(links)) if (!targets.has(name)) rmSync(join(links, name), { force: true });
  for (const [name, target] of targets) {
    const fresh = join(links, `.${name}.new`);
    rmSync(fresh, { force: true });
    symlinkSync(target, fresh);
    renameSync(fresh, join(links, name));
  }
}

const manifest = z.looseObject({
  bin: z.union([z.string(), z.record(z.string().regex(/^[\w.-]{1,64}$/), z.string().max(4096))]),
});

/**
 * Installs a package: `unpack` fills an empty folder with its files. A version that was there is replaced, others with
 * the name are removed. Throws ToolchainError.
 */
export async function installToolchain(
  stateDir: string,
  { name, version, program }: { readonly name: string; readonly version: string; readonly program: string },
  unpack: (folder: string) => Promise<void>,
): Promise<InstalledToolchain> {
  const parent = toolchainsFolder(stateDir);
  const incoming = join(parent, INCOMING);
  rmSync(incoming, { recursive: true, force: true });
  mkdirSync(join(incoming, 'package'), { recursive: true, mode: 0o755 });
  try {
    await unpack(join(incoming, 'package'));
    linkPrograms(incoming, program);
    removeFolders(stateDir, name);
    renameSync(incoming, join(parent, `${name}@${version}`));
    linkToolchains(stateDir);
  } finally {
    rmSync(incoming, { recursive: true, force: true });
  }
  return installedToolchains(stateDir).find((it) => it.name === name) as InstalledToolchain;
}

/** Links the programs that package.json names; a package whose `bin` is one path has the program `program`. */
function linkPrograms(folder: string, program: string): void {
  const text = readFileSync(join(folder, 'package/package.json'), 'utf8');
  const parsed = manifest.safeParse(parseJson(text));
  if (!parsed.success) throw new ToolchainError('the package has no programs (`bin` in its package.json)');
  const { bin } = parsed.data;
  mkdirSync(join(folder, 'bin'));
  for (const [name, path] of Object.entries(typeof bin === 'string' ? { [program]: bin } : bin)) {
    const file = join(folder, 'package', path);
    // A link in the archive could lead out of the package.
    const isOwn = existsSync(file) && isInside(realpathSync(join(folder, 'package')), realpathSync(file));
    if (!isOwn) throw new ToolchainError(`the package names a program that it does not have: ${name}`);
    chmodSync(file, 0o755);
    symlinkSync(posix.join('../package', posix.normalize(path)), join(folder, 'bin', name));
  }
}

/** Removes all versions of a toolchain; false if there was none. */
export function removeToolchain(stateDir: string, name: string): boolean {
  const isRemoved = removeFolders(stateDir, name);
  if (isRemoved) linkToolchains(stateDir);
  return isRemoved;
}

function removeFolders(stateDir: string, name: string): boolean {
  const all = installedToolchains(stateDir).filter((it) => it.name === name);
  for (const { folder } of all) rmSync(folder, { recursive: true, force: true });
  return all.length > 0;
}
