/** `ringfence toolchain add|list|remove`: works on the state directory; the commands of a running daemon find what is in it. */

import { defaultLimits as limits } from '../../base/limits.ts';
import { makeStateDir } from '../../daemon/user-dirs.ts';
import {
  installedToolchains,
  installToolchain,
  removeToolchain,
  ToolchainError,
} from '../../services/toolchains/installed.ts';
import {
  findPackage,
  NPM_REGISTRY,
  TOOLCHAIN_NAMES,
  type ToolchainName,
  unpackPackage,
} from '../../services/toolchains/npm-packages.ts';
import { sourcesOf } from '../../tools/terminal/program-packages.ts';
import { type CliCaller, userDirsOf } from '../connect.ts';
import {
  EXIT,
  harmless,
  type JsonFlag,
  OperatorError,
  print,
  printJson,
  printRows,
  say,
  UsageError,
} from '../output.ts';

const NEXT = 'commands find it from now on';

/** Fetches a toolchain from an npm registry, checks its hash and installs it; runs none of its scripts. Returns the exit code. */
export async function toolchainAdd(
  wanted: string,
  { json, registry = NPM_REGISTRY, integrity }: JsonFlag & { readonly registry?: string; readonly integrity?: string },
  { flags, env }: CliCaller,
): Promise<number> {
  const { name, version } = parse(wanted);
  const { stateDir } = userDirsOf(flags, env);
  makeStateDir(stateDir);
  const found = await findPackage(name, version, { registry: toRegistry(registry), arch: process.arch, limits });
  if (integrity !== undefined && found.integrity !== integrity)
    throw new ToolchainError(`${found.name}@${found.version} has the hash ${found.integrity} now, not ${integrity}`);
  const asked = { name, version: found.version, program: name };
  const installed = await installToolchain(stateDir, asked, (folder) => unpackPackage(found, folder, limits));
  if (json) printJson({ ...installed, package: found.name, integrity: found.integrity });
  else {
    print(`${name}@${installed.version}: ${installed.programs.join(', ')}`);
    print(`${found.name} ${found.integrity}`);
    say(NEXT);
  }
  return EXIT.OK;
}

/** Tells which package `toolchain add` would install now, and which installed versions it would remove. Returns the exit code. */
export async function toolchainResolve(
  wanted: string,
  { json, registry = NPM_REGISTRY }: JsonFlag & { readonly registry?: string },
  { flags, env }: CliCaller,
): Promise<number> {
  const { name, version } = parse(wanted);
  const found = await findPackage(name, version, { registry: toRegistry(registry), arch: process.arch, limits });
  const others = installedToolchains(userDirsOf(flags, env).stateDir).filter((it) => it.name === name);
  const replaces = others.map((it) => `${it.name}@${it.version}`);
  if (json) printJson({ ...found, name, package: found.name, replaces });
  else print(harmless(`${name}@${found.version}: ${found.name} ${found.integrity}`));
  return EXIT.OK;
}

export function toolchainList({ json }: JsonFlag, { flags, env }: CliCaller): number {
  const all = installedToolchains(userDirsOf(flags, env).stateDir);
  const none = 'no toolchains are installed; install one with: ringfence toolchain add node';
  return printRows(all, json, none, (it) => `${it.name}@${it.version}  ${harmless(it.programs.join(', '))}`);
}

export function toolchainRemove(name: string, { json }: JsonFlag, { flags, env }: CliCaller): number {
  if (!removeToolchain(userDirsOf(flags, env).stateDir, name))
    throw new OperatorError(`no toolchain named ${harmless(name)} is installed`);
  if (json) printJson({ removed: name });
  else say('commands no longer find it');
  return EXIT.OK;
}

/** Throws UsageError for what can't be installed so, with the line that installs it. */
function parse(wanted: string): { name: ToolchainName; version: string | undefined } {
  const [, name = '', version] = /^([\w.+-]+)(?:@(\d+(?:\.\d+){0,2}))?$/.exec(wanted) ?? [];
  const known = TOOLCHAIN_NAMES.find((it) => it === name);
  if (known !== undefined) return { name: known, version };
  const lines = sourcesOf(name).map((it) => it.run);
  const instead = lines.length > 0 ? `; run one of these instead: ${lines.join(' · ')}` : '';
  throw new UsageError(
    `${harmless(wanted)} is none of ${TOOLCHAIN_NAMES.join(', ')}, with a version such as node@24 or none${instead}`,
  );
}

/** Without a slash at its end. Throws UsageError. */
function toRegistry(text: string): string {
  const url = URL.parse(text);
  const isSafe = url?.protocol === 'https:' || (url?.protocol === 'http:' && url.hostname === '127.0.0.1');
  if (!isSafe) throw new UsageError(`--registry takes an https URL, not ${harmless(text)}`);
  return text.replace(/\/+$/, '');
}
