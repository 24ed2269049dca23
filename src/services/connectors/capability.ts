/** Operations of web services that connector files describe, as tools, and the service of `web_search`. The egress process makes the requests. */

import { decide } from '../../policy/decide.ts';
import { type DaemonParts, defineCapability, gaugeByState } from '../capability.ts';
import { hostOf } from '../secrets/secrets.ts';
import { Connectors } from './connectors.ts';
import type { ServiceReach } from './health-checks.ts';
import { setUpOf } from './presets.ts';
import { connectorRunner } from './run-call.ts';
import { Search } from './search/search.ts';
import { searchSchema, toSearchSettings } from './search/settings.ts';
import { withSearch } from './search/toolset.ts';

export const connectors = defineCapability({
  keys: {
    search: searchSchema.optional().describe('The service of `web_search`: [web](how-to/web.md). Default: none.'),
  },
  settings: ({ search }, sources) => search && toSearchSettings(search, sources),
  start(settings, daemon) {
    const { parts, catalogue } = daemon;
    const search = settings && new Search(settings, daemon);
    catalogue.bind((it) => withSearch(it, search));
    const all = parts.use(
      new Connectors({
        ...daemon,
        search,
        reach: reachOf(daemon),
      }),
    );
    return {
      runners: { connectors: connectorRunner({ ...daemon, connectors: all }) },
      status: () => ({ connectors: all.status, search: all.searchStatus }),
      metrics() {
        const services = [...all.status, ...[all.searchStatus ?? []].flat()];
        return [gaugeByState('ringfence_services', 'Services of connectors and of web_search, by state.', services)];
      },
      checkHealth: () => all.checkHealth(),
      setUpOf,
    };
  },
});

/** Bytes of an answer to a health check that are read; only its status counts. */
const HEALTH_BYTES = 64 * 1024;

/** Lets a health check go where calls of the service go, unless the policy denies all of them. */
function reachOf({ home, limits, egress, basePolicy }: DaemonParts): ServiceReach {
  return async ({ connector: { base, network }, tools }, work) => {
    const effects = [{ kind: 'connect', target: hostOf(new URL(base)) }] as const;
    const facts = { aliases: [], tier: 'external_api', category: 'service', destructive: false } as const;
    const asker = { principal: '', session: '', home };
    const isDenied = (tool: string) => decide(basePolicy(), { tool, effects, ...facts, ...asker }).decision === 'deny';
    if (tools.every(isDenied)) return;
    await egress.lend([network], new AbortController().signal, async ({ fetch }) => {
      await work({ fetch: (asked) => fetch({ ...asked, bytesMax: HEALTH_BYTES, withinMs: limits.healthCheckMs }) });
      return {};
    });
  };
}
