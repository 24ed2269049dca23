/** Reports what the sandbox kept from a failed command: that may be why the command failed. */
import { realpathSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import type { Withheld } from '../../base/call.ts';
import { withheldPaths } from '../../base/result-shapes.ts';
import type { RunResult } from '../../hosts/runs.ts';
import { covers, type NetworkLayer, type NetworkRule, showNetworkRule } from '../../policy/network.ts';
import { reported } from './reported.ts';

/** The most hosts that are listed; a model pays for each. */
const HOSTS_LISTED_MAX = 20;

/**
 * Undefined if no command failed or named a hidden path. The host's list of paths is checked against the schema only.
 * `mayShow`: whether an answer of a person may show a folder.
 */
export function withheldOf(
  { result, unixSockets = 'none' }: RunResult,
  network: readonly NetworkLayer[] | undefined,
  mayShow: (folder: string) => boolean,
): Withheld | undefined {
  const found = reported(withheldPaths, result.usage.command?.withheld);
  if (!found) return undefined;
  const { absent: named = [], ...paths } = found;
  const absent = [...new Set(named.flatMap((it) => folderAt(it) ?? []))]
    .filter(mayShow)
    .map((path) => ({ path, open: `access_request ${JSON.stringify({ path })}` }));
  const hosts = openHosts(network ?? []);
  return { ...paths, ...(absent.length > 0 && { absent }), network: hosts.length > 0 ? hosts : 'none', unixSockets };
}

/** The hosts that every layer of the policy allows. */
function openHosts(layers: readonly NetworkLayer[]): string[] {
  const isAllowed = (rule: NetworkRule) => layers.every((layer) => layer.some((it) => covers(it, rule)));
  const hosts = new Set(layers.flat().filter(isAllowed).map(showNetworkRule));
  return [...hosts].slice(0, HOSTS_LISTED_MAX);
}

/** The real folder at a path of this machine, or the one that holds the file there; undefined if there is neither. */
function folderAt(path: string): string | undefined {
  try {
    const real = realpathSync(path);
    return statSync(real).isDirectory() ? real : dirname(real);
  } catch {
    return undefined; // ENOENT, EACCES, ELOOP.
  }
}
