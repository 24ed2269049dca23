/** Bounds of plugins: the content of a folder and of its manifest. Operators add plugins that others wrote. */
import { KiB, MiB } from './units.ts';

export const pluginLimits = {
  /** Plugins of one daemon; each is held in memory completely. */
  pluginsMax: 32,
  /** Files of one plugin, so that a wrong folder is refused. */
  pluginFilesMax: 64,
  /** Bytes of all files of a plugin together; they are sent with each call, 0.2 ms for each MiB. */
  pluginBytesMax: MiB,
  /** Largest manifest; parsing takes about 1 ms for each KiB at worst and blocks the daemon. */
  pluginManifestBytesMax: 64 * KiB,
  /** Tools of one plugin; every model is told about each. */
  pluginToolsMax: 32,
  /** Schemas and enum values in one JSON Schema, so that checking an input in the gateway stays short. */
  pluginSchemaValuesMax: 500,
};
