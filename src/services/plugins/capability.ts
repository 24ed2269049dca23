/** Tools that a person added as plugins; their code runs as that of callers' programs does. */

import { capabilityOf } from '../capability.ts';
import { PinnedTools } from '../pinned/pinned-tools.ts';
import type { Plugin } from './package.ts';
import { pinnedPlugins, readPin } from './pinned-plugins.ts';
import { toToolset } from './toolset.ts';

export const plugins = capabilityOf((daemon) => {
  const { parts, stateDir, limits } = daemon;
  const pins = pinnedPlugins(stateDir, limits);
  const facts = ({ manifest: { version } }: Plugin) => ({ version });
  const all = parts.use(
    new PinnedTools({ pins, toToolset, facts, read: (name) => readPin(pins, name, limits) }, daemon),
  );
  return {
    status: () => ({
      plugins: all.status(({ manifest: { version, isolation }, sha256 }, it) => {
        const what = { version, sha256, isolation };
        return { ...it, state: 'on', ...what };
      }),
    }),
  };
});
