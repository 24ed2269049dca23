/** Plugins that an operator added. */
import type { Limits } from '../../base/limits.ts';
import { type Plugin, PluginError, toPlugin } from './package.ts';
import { PinFolder } from './pin-folder.ts';

/** The pinned plugins of a state directory. */
export const pinnedPlugins = (stateDir: string, { pluginsMax, pluginBytesMax }: Limits): PinFolder =>
  new PinFolder(stateDir, {
    kind: 'plugin',
    max: { count: pluginsMax, limit: 'pluginsMax' },
    bytesMax: pluginBytesMax,
    toError: (problems) => new PluginError(problems),
  });

/** Reads a pinned plugin and checks its hash. Throws PluginError. */
export function readPin(pins: PinFolder, name: string, limits: Limits): Plugin {
  const plugin = toPlugin(pins.read(name), limits, name);
  if (plugin.manifest.name !== name)
    throw new PluginError([`${pins.path}/${name}.json: holds the plugin ${plugin.manifest.name}`]);
  return plugin;
}
