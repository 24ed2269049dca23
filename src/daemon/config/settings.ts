/** The settings in force as a person reads them: each value with where it comes from, and no secret. */
import { isDeepStrictEqual } from 'node:util';
import { defaultLimits } from '../../base/limits.ts';
import { hostsOf, storedSecrets } from '../../services/secrets/secret-files.ts';
import type { Config } from '../config.ts';
import { readAdded } from './added.ts';
import { PUBLIC_LIMITS } from './limits.ts';

export interface Setting {
  readonly key: string;
  readonly value: unknown;
  /** `flag`, `environment`, `file`, `default`, or the verb that set it. */
  readonly from: string;
}

/** Lists the settings, and all limits that config.yaml can set. Throws ConfigError for an invalid file of added workspaces. */
export function shownSettings(config: Config): Setting[] {
  const { dirs, origins, limits, capabilities } = config;
  const row = (key: string, value: unknown, origin = key): Setting => ({
    key,
    value,
    from: origins[origin] ?? 'default',
  });
  return [
    row('file', dirs.configFile),
    row('state', dirs.stateDir),
    row('socket', dirs.socket),
    row('workspaces', config.workspaces),
    { key: 'workspaces added', value: readAdded(dirs), from: 'ringfence workspace add' },
    row('policy', config.policy),
    row('listen', addressText(config.listen)),
    row('listenHttp', addressText(config.listenHttp)),
    row('toolchains', config.toolchains),
    row('cgroup', config.cgroup ?? 'the best one that works'),
    row('cache.strategy', config.cacheStrategy, 'cache'),
    row('principals', config.principals),
    ...capabilities.flatMap(({ shown }) => Object.entries(shown).map(([key, value]) => row(key, value))),
    ...Object.entries(limits)
      .map(([key, value]) => ({ key, value, from: isDefault(key, value) ? 'default' : 'file' }))
      .filter(({ key, from }) => PUBLIC_LIMITS.includes(key) || from === 'file')
      .map(({ key, ...it }) => ({ key: `limits.${key}`, ...it })),
  ];
}

const addressText = (address: Config['listen']): string | null =>
  address ? `${address.host.includes(':') ? `[${address.host}]` : address.host}:${address.port}` : null;

const isDefault = (limit: string, value: unknown): boolean =>
  isDeepStrictEqual((defaultLimits as Record<string, unknown>)[limit], value);

/** Names of secrets, the places that hold them, and the hosts that they are sent to, null for none yet; in order. */
export function shownSecrets(
  stateDir: string,
  commands: readonly string[],
): { name: string; place: 'command' | 'state'; hosts: readonly string[] | null }[] {
  const of = (name: string, place: 'command' | 'state') => ({ name, place, hosts: hostsOf(stateDir, name) ?? null });
  const stored = storedSecrets(stateDir).filter((it) => !commands.includes(it));
  const all = [...commands.map((it) => of(it, 'command')), ...stored.map((it) => of(it, 'state'))];
  return all.sort((a, b) => (a.name < b.name ? -1 : 1));
}

/** What `settings.read` answers. */
export const settingsAnswer = (config: Config, workspaces: readonly string[]): object => ({
  settings: shownSettings(config),
  workspaces: workspaces.map((path) => ({
    path,
    from: config.workspaces.includes(path) ? (config.origins.workspaces ?? 'default') : 'ringfence workspace add',
  })),
  secrets: shownSecrets(config.dirs.stateDir, Object.keys(config.secrets.commands)),
});
