/** Binds the tool `web_search` to the configured service. */

import { costTermsOf } from '../../../tools/connected.ts';
import type { NamedTool, Tool } from '../../../tools/tool.ts';
import { hostOf } from '../../secrets/secrets.ts';
import { authOf } from '../service-terms.ts';
import { notConfigured, SEARCH_TOOL, type Search } from './search.ts';

/** `web_search`, whose calls go to the service. Without one each call fails, and the error names what to configure. */
export function withSearch(named: NamedTool, search: Search | undefined): NamedTool {
  if (named.tool.name !== SEARCH_TOOL) return named;
  return {
    ...named,
    tool: search ? boundTo(search, named.tool) : named.tool,
    parse(input) {
      const parsed = named.parse(input);
      if (!search) throw notConfigured();
      search.assertConfigured();
      return parsed;
    },
  };
}

function boundTo(search: Search, tool: Tool): Tool {
  const { connected, connector, costUsd } = search;
  const target = hostOf(new URL(connector.base));
  return {
    ...tool,
    runs: { by: 'connectors', operation: connected },
    ...authOf(connector.auth, () => search.assertConfigured()),
    cost: costTermsOf([costUsd]),
    effects: () => [{ kind: 'connect', target }],
    ...(costUsd > 0 && { estimateCostUsd: () => costUsd }),
  };
}
