/** MCP servers of others behind Ringfence: each runs in a sandbox of its own, and a person accepts its tools. */

import { join } from 'node:path';
import { providerProgram, version } from '../../base/runtime.ts';
import { defineCapability, gaugeByState } from '../capability.ts';
import { ProviderPins } from './provider-pins.ts';
import { Providers } from './providers.ts';
import { providerRunner } from './run-call.ts';
import { providersSchema, toProviderSettings } from './settings.ts';

export const providers = defineCapability({
  keys: {
    providers: providersSchema
      .optional()
      .describe('MCP servers whose tools agents may use, by name: [providers](how-to/providers.md). Default: none.'),
  },
  settings: ({ providers: given = {} }, sources) => toProviderSettings(given, sources),
  // Commands, addresses and variables of providers may contain secrets.
  shown: (settings) => ({ providers: settings.map((it) => it.name) }),
  start(settings, daemon) {
    const { parts, stateDir, powers, auditLog, basePolicy, viewOf } = daemon;
    const pins = parts.use(new ProviderPins(join(stateDir, 'providers.db'), powers));
    const upstreams = parts.use(
      new Providers(
        {
          ...daemon,
          settings,
          pins,
          // For no principal and no session: rules about single sessions don't apply to a provider.
          viewOf: (workspace) =>
            viewOf({ policy: basePolicy(), principal: '', sessionId: '', workspace, root: workspace }),
          record: (entry) => auditLog.append(entry),
        },
        { ...daemon, program: providerProgram, version },
      ),
    );
    return {
      runners: { providers: providerRunner({ ...daemon, upstreams }) },
      methods: {
        'providers.list': ({ role }) => ({ providers: upstreams.list(role) }),
        'providers.accept': ({ principal }, { provider, tools }) => upstreams.accept(provider, tools, principal),
      },
      status: (role) => ({
        providers: upstreams.list(role).map(({ name, state, pending, since, reason }) => ({
          name,
          state,
          pending,
          since,
          // Why the last run ended; of a provider that works it is past.
          ...(reason !== undefined && state === 'waiting' && { reason }),
        })),
      }),
      metrics: () => [gaugeByState('ringfence_providers', 'MCP servers of others, by state.', upstreams.list('agent'))],
      hosts: () => upstreams.hostStatus(),
      endStale: () => upstreams.endStale(),
    };
  },
});
