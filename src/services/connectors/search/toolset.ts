/** Binds the tool `web_search` to the configured service. */

import type { NamedTool, Tool, Toolset } from '../../../tools/tool.ts';
import { hostOf } from '../../secrets/secrets.ts';
import { authOf, costTermsOf } from '../service-terms.ts';
import { notConfigured, SEARCH_TOOL, type Search } from './search.ts';

/** The toolset, whose searches go to the service. Without one each search fails, and says what to configure. */
export function withSearch(toolset: Toolset, search: Search | undefined): Toolset {
  const builtin = toolset.get(SEARCH_TOOL)?.tool;
  if (!builtin) return toolset;
  const tool = search ? boundTo(search, builtin) : builtin;
  const toBound = (named: NamedTool): NamedTool => ({
    ...named,
    tool,
    parse(input) {
      const parsed = named.parse(input);
      if (!search) throw notConfigured();
      search.assertConfigured();
      return parsed;
    },
  });
  return new Map([...toolset].map(([name, it]) => [name, it.tool === builtin ? toBound(it) : it]));
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
