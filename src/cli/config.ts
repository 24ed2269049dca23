/** `ringfence config`: where the configuration is, whether it is valid, and what is in force. */
import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { PUBLIC_LIMITS } from '../daemon/config/limits.ts';
import { shownSettings } from '../daemon/config/settings.ts';
import { type Config, readConfigFile, type ServeFlags, toConfig } from '../daemon/config.ts';
import { findUserDirs } from '../daemon/user-dirs.ts';
import { readPolicy } from '../policy/load.ts';
import { effectsOfBuiltin } from '../tools/registry.ts';
import type { CliCaller } from './connect.ts';
import { EXIT, harmless, type JsonFlag, print, printJson, say, UsageError } from './output.ts';

export function configPath({ json }: JsonFlag, { flags, env }: CliCaller): number {
  const { configFile } = findUserDirs(flags, env);
  if (json) printJson({ path: configFile, exists: existsSync(configFile) });
  else print(harmless(configFile));
  if (!existsSync(configFile)) say('this file does not exist; the defaults apply');
  return EXIT.OK;
}

/**
 * Checks a config file as `serve` would, without creating anything: keys, values, folders, the policy and those of principals. Returns the
 * exit code. Throws ConfigError, PolicyError.
 */
export function configCheck(file: string | undefined, { json }: JsonFlag, { flags, env, cwd }: CliCaller): number {
  const found = findUserDirs(flags, env);
  const dirs = file === undefined ? found : { ...found, configFile: resolve(cwd, file) };
  if (file !== undefined && !existsSync(dirs.configFile))
    throw new UsageError(`the file ${harmless(dirs.configFile)} does not exist`);
  const { policy, principals, limits } = load(readConfigFile(dirs.configFile), { dirs, env, cwd });
  for (const it of [policy, ...principals.map((it) => it.policy)])
    if (it !== undefined) readPolicy(it, { limits, effectsOf: effectsOfBuiltin });
  if (json) printJson({ ok: true, path: dirs.configFile, exists: existsSync(dirs.configFile) });
  else
    print(`${harmless(dirs.configFile)}: ${existsSync(dirs.configFile) ? 'ok' : 'does not exist; the defaults apply'}`);
  return EXIT.OK;
}

/** Loads a config file. Without `workspaces` it uses none, so that the result does not depend on this folder. */
function load(
  file: ReturnType<typeof readConfigFile>,
  { dirs, env, cwd, flags = {} }: Pick<CliCaller, 'env' | 'cwd'> & { dirs: Config['dirs']; flags?: ServeFlags },
): Config {
  const config = toConfig({ ...file, workspaces: file.workspaces ?? [] }, { flags, env, cwd, dirs });
  const { workspaces: _, ...origins } = config.origins;
  return file.workspaces ? config : { ...config, origins };
}

/** Shows the settings of a daemon that would be started here, and the source of each value. Returns the exit code. */
export function configShow({ json }: JsonFlag, { flags, env, cwd }: CliCaller): number {
  const dirs = findUserDirs(flags, env);
  const file = readConfigFile(dirs.configFile);
  const config = load(file, { dirs, env, cwd, flags: { state: flags.state, socket: flags.socket } });
  const shown = shownSettings(config)
    .map((it) => (it.key === 'workspaces' && !file.workspaces ? { ...it, value: [cwd] } : it))
    .filter(({ key, from }) => json || !key.startsWith('limits.') || from === 'file');
  if (json) printJson(shown);
  else for (const { key, value, from } of shown) print(harmless(`${key.padEnd(18)} ${toText(value)}   (${from})`));
  if (!json) say(`to see all ${PUBLIC_LIMITS.length} limits, add --json or read docs/configuration.md`);
  return EXIT.OK;
}

const toText = (value: unknown): string => (typeof value === 'string' ? value : JSON.stringify(value));
