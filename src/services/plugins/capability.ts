/** Tools that a person added as plugins; their code runs as that of callers' programs does. */

import { RpcError } from '../../base/errors.ts';
import { capabilityOf } from '../capability.ts';
import { PinnedTools } from '../pinned/pinned-tools.ts';
import { isComposed, saveComposed } from './composed.ts';
import { PluginHealth } from './health.ts';
import type { Plugin } from './package.ts';
import { pinnedPlugins, readPin } from './pinned-plugins.ts';
import { toolNameOf, toToolset } from './toolset.ts';

export const plugins = capabilityOf((daemon) => {
  const { parts, stateDir, limits } = daemon;
  const pins = pinnedPlugins(stateDir, limits);
  const facts = ({ manifest: { version } }: Plugin) => ({ version });
  const all = parts.use(
    new PinnedTools({ pins, toToolset, facts, read: (name) => readPin(pins, name, limits) }, daemon),
  );
  const health = new PluginHealth(daemon);
  const record = (principal: string, detail: Record<string, unknown>) =>
    daemon.auditLog.append({ kind: 'policy', sessionId: '', principal, detail });
  return {
    methods: {
      'plugins.save': async ({ principal }, { name, composed }) => {
        const nowMs = daemon.powers.now();
        const { manifest, sha256 } = await saveComposed(name, composed, {
          pins,
          limits,
          nowMs,
          toolset: daemon.catalogue.toolset,
        });
        record(principal, { plugin: name, saved: manifest.version, sha256 });
        return { tool: toolNameOf(manifest, { name: 'run' }), version: manifest.version, sha256 };
      },
      'plugins.remove': ({ principal }, { name }) => {
        if (!isComposed(name, pins))
          throw new RpcError(
            'INVALID_PARAMS',
            `${name} was not composed; remove it with: ringfence plugin remove ${name}`,
          );
        const removed = pins.remove(name);
        if (removed) record(principal, { plugin: name, removed });
        return { removed };
      },
    },
    status: () => ({
      plugins: all.status(({ manifest: { version, isolation }, sha256 }, it) => {
        const what = { version, sha256, isolation };
        const problems = health.of(it.name);
        return { ...it, state: 'on', ...what, health: problems && (problems.join('; ') || 'ok') };
      }),
    }),
    checkHealth: () => health.check(all.items),
  };
});
