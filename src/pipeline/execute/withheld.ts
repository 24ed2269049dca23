/** Reports what the sandbox kept from a failed command: that may be why the command failed. */
import { type Withheld, withheldPaths } from '../../call.ts';
import type { RunResult } from '../../hosts/runs.ts';
import { covers, type NetworkLayer, type NetworkRule, showNetworkRule } from '../../policy/network.ts';
import { reported } from './reported.ts';

/** The most hosts that are listed; a model pays for each. */
const HOSTS_LISTED_MAX = 20;

/** Undefined if no command failed. The host's list of paths is checked against the schema only. */
export function withheldOf(
  { result, unixSockets = 'none' }: RunResult,
  network: readonly NetworkLayer[] | undefined,
): Withheld | undefined {
  const paths = reported(withheldPaths, result.usage.withheld);
  if (!paths) return undefined;
  return { ...paths, network: network ? openHosts(network) : 'none', unixSockets };
}

/** The hosts that every layer of the policy allows. */
function openHosts(layers: readonly NetworkLayer[]): string[] {
  const isAllowed = (rule: NetworkRule) => layers.every((layer) => layer.some((it) => covers(it, rule)));
  const hosts = new Set(layers.flat().filter(isAllowed).map(showNetworkRule));
  return [...hosts].slice(0, HOSTS_LISTED_MAX);
}
