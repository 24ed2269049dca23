/** Plugins that an operator added. */
import type { Limits } from '../../base/limits.ts';
import { PinError } from '../pinned/pin-error.ts';
import { PinFolder } from '../pinned/pin-folder.ts';
import { type Plugin, toPlugin } from './package.ts';

export const pinnedPlugins = (stateDir: string, { pluginsMax, pluginBytesMax }: Limits): PinFolder =>
  new PinFolder(stateDir, {
    kind: 'plugin',
    max: { count: pluginsMax, limit: 'pluginsMax' },
    bytesMax: pluginBytesMax,
  });

/** Reads a pinned plugin and checks its hash. Throws PinError. */
export function readPin(pins: PinFolder, name: string, limits: Limits): Plugin {
  const plugin = toPlugin(pins.read(name), limits, name);
  if (plugin.manifest.name !== name)
    throw new PinError([`${pins.path}/${name}.json: holds the plugin ${plugin.manifest.name}`]);
  return plugin;
}
