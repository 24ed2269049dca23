/** Bounds of plugins: what a folder may hold, what its manifest may say. An operator adds them; others wrote them. */
import { bytes, count, KiB, MiB, ms } from './units.ts';

export const pluginLimits = {
  /** Plugins of one daemon; each is kept in memory whole. */
  pluginsMax: count().default(32),
  /** Files of one plugin, so that a folder that was meant to be another one is refused. */
  pluginFilesMax: count().default(64),
  /** Bytes of all its files together; they are sent with each call, 0.2 ms a MiB. */
  pluginBytesMax: bytes().default(MiB),
  /** Largest manifest; parsing it takes about 1 ms per KiB at worst and holds up the daemon. */
  pluginManifestBytesMax: bytes().default(64 * KiB),
  /** Tools of one plugin; each is told to every model. */
  pluginToolsMax: count().default(32),
  /** Values of one JSON Schema, so that checking an input in the gateway stays short. */
  pluginSchemaValuesMax: count().default(500),
  /** From a change of the pinned plugins to their reload: `plugin add` makes several. */
  pluginReloadMs: ms().default(50),
};
