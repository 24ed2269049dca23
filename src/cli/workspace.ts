/** `ringfence workspace`: folders that agents may work in, in addition to those of the config. */
import { resolve } from 'node:path';
import { realOf } from '../base/quiet/reads.ts';
import { readAdded, writeAdded } from '../daemon/config/added.ts';
import { checkWorkspace, readConfigFile } from '../daemon/config.ts';
import { findUserDirs, makeStateDir } from '../daemon/user-dirs.ts';
import type { CliCaller } from './connect.ts';
import { EXIT, harmless, type JsonFlag, OperatorError, print, printJson, say } from './output.ts';

export function workspaceAdd(folder: string, { json }: JsonFlag, { flags, env, cwd }: CliCaller): number {
  const dirs = findUserDirs(flags, env);
  makeStateDir(dirs.stateDir);
  const real = checkWorkspace(resolve(cwd, folder), { dirs });
  const added = readAdded(dirs);
  if (added.includes(real)) say(`${harmless(real)} was already added`);
  else writeAdded(dirs, [...added, real]);
  if (json) printJson({ path: real });
  else print(harmless(real));
  return EXIT.OK;
}

/** Removes a workspace; open sessions there continue. Returns the exit code. */
export function workspaceRemove(folder: string, { json }: JsonFlag, { flags, env, cwd }: CliCaller): number {
  const dirs = findUserDirs(flags, env);
  const path = resolve(cwd, folder);
  const added = readAdded(dirs);
  const names = [path, realOf(path) ?? path];
  const left = added.filter((it) => !names.includes(it));
  if (left.length === added.length)
    throw new OperatorError(
      `${harmless(path)} was not added as a workspace; added are: ${added.map(harmless).join(', ') || 'none'}`,
    );
  writeAdded(dirs, left);
  if (json) printJson({ removed: added.filter((it) => names.includes(it)) });
  say('open sessions in this folder continue; end them with: ringfence stop');
  return EXIT.OK;
}

export function workspaceList({ json }: JsonFlag, { flags, env }: CliCaller): number {
  const dirs = findUserDirs(flags, env);
  const { workspaces } = readConfigFile(dirs.configFile);
  const all = [
    ...(workspaces ?? []).map((path) => ({ path, from: dirs.configFile })),
    ...readAdded(dirs).map((path) => ({ path, from: 'ringfence workspace add' })),
  ];
  if (json) printJson(all);
  else for (const { path, from } of all) print(harmless(`${path}   (${from})`));
  if (all.length === 0) say('no workspaces; a daemon started without --workspace uses the folder in which it starts');
  return EXIT.OK;
}
