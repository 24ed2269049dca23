/** `ringfence config`: where the configuration is, whether it is valid, and what is in force. */
import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { defaultLimits } from '../base/limits.ts';
import { PUBLIC_LIMITS } from '../daemon/config/limits.ts';
import { type Config, readConfigFile, settingsOf, toConfig } from '../daemon/config.ts';
import { findUserDirs } from '../daemon/user-dirs.ts';
import { readAdded } from '../daemon/workspaces.ts';
import { readPolicy } from '../policy/load.ts';
import { effectsOfBuiltin } from '../tools/registry.ts';
import type { CliCaller } from './connect.ts';
import { CliError, EXIT, harmless, print, printJson, say } from './output.ts';

/** Prints the path of the config file. Returns the exit code. */
export function configPath({ json }: { readonly json?: boolean }, { flags, env }: CliCaller): number {
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
export function configCheck(
  file: string | undefined,
  { json }: { readonly json?: boolean },
  { flags, env, cwd }: CliCaller,
): number {
  const found = findUserDirs(flags, env);
  const dirs = file === undefined ? found : { ...found, configFile: resolve(cwd, file) };
  if (file !== undefined && !existsSync(dirs.configFile))
    throw new CliError(EXIT.USAGE, `the file ${harmless(dirs.configFile)} does not exist`);
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
  { dirs, env, cwd }: Pick<CliCaller, 'env' | 'cwd'> & { dirs: Config['dirs'] },
): Config {
  return toConfig({ ...file, workspaces: file.workspaces ?? [] }, { flags: {}, env, cwd, dirs });
}

interface Setting {
  readonly key: string;
  readonly value: unknown;
  /** `flag`, `environment`, `file`, `default`, or the verb that set it. */
  readonly from: string;
}

/** Shows the settings of a daemon that would be started here, and the source of each value. Returns the exit code. */
export function configShow({ json }: { readonly json?: boolean }, { flags, env, cwd }: CliCaller): number {
  const dirs = findUserDirs(flags, env);
  const file = readConfigFile(dirs.configFile);
  const config = load(file, { dirs, env, cwd });
  const settings = settingsOf(file, { flags: {}, env });
  const inFile = (key: string) => (file[key] === undefined ? 'default' : 'file');
  const said = (flag: unknown, variable: string) =>
    flag !== undefined ? 'flag' : env[variable] !== undefined ? 'environment' : 'default';
  const shown: Setting[] = [
    { key: 'file', value: dirs.configFile, from: env.RINGFENCE_CONFIG === undefined ? 'default' : 'environment' },
    { key: 'state', value: dirs.stateDir, from: said(flags.state, 'RINGFENCE_STATE') },
    { key: 'socket', value: dirs.socket, from: said(flags.socket, 'RINGFENCE_SOCKET') },
    { key: 'workspaces', value: file.workspaces ? config.workspaces : [cwd], from: inFile('workspaces') },
    { key: 'workspaces added', value: readAdded(dirs), from: 'ringfence workspace add' },
    { key: 'policy', value: config.policy, from: settings.policy.from },
    { key: 'listen', value: settings.listen.value ?? null, from: settings.listen.from },
    { key: 'listenHttp', value: settings.listenHttp.value ?? null, from: settings.listenHttp.from },
    { key: 'toolchains', value: config.toolchains, from: inFile('toolchains') },
    { key: 'cgroup', value: config.cgroup ?? 'the best one that works', from: inFile('cgroup') },
    { key: 'cache.strategy', value: config.cacheStrategy, from: inFile('cache') },
    { key: 'principals', value: config.principals, from: inFile('principals') },
    ...config.capabilities.flatMap(({ shown }) =>
      Object.entries(shown).map(([key, value]) => ({ key, value, from: inFile(key) })),
    ),
    ...Object.entries(config.limits)
      .map(([key, value]) => ({ key, value, from: isDefault(key, value) ? 'default' : 'file' }))
      .filter((it) => (json && PUBLIC_LIMITS.includes(it.key)) || it.from === 'file')
      .map(({ key, ...it }) => ({ key: `limits.${key}`, ...it })),
  ];
  if (json) printJson(shown);
  else for (const { key, value, from } of shown) print(harmless(`${key.padEnd(18)} ${toText(value)}   (${from})`));
  if (!json) say(`to see all ${PUBLIC_LIMITS.length} limits, add --json or read docs/configuration.md`);
  return EXIT.OK;
}

const isDefault = (limit: string, value: unknown): boolean =>
  isDeepStrictEqual((defaultLimits as Record<string, unknown>)[limit], value);

const toText = (value: unknown): string => (typeof value === 'string' ? value : JSON.stringify(value));
