/** The hosts as `status` shows them: those of tiers, isolates, plugins and providers. */
import type { Browsers } from '../browser/browsers.ts';
import type { HostReport } from '../call.ts';
import { childrenOf } from '../hosts/host-process.ts';
import type { Hosts } from '../hosts/hosts.ts';
import type { Isolates } from '../hosts/isolates.ts';
import type { Providers } from '../providers/providers.ts';

interface AllHosts {
  readonly browsers: Browsers;
  readonly hosts: Hosts;
  readonly isolates: Isolates;
  readonly compartments: Isolates;
}

export const hostsToTell = (all: AllHosts, providers: Providers) => ({
  hostStatus: () => hostStatus(all, providers),
  coarseMasks: all.hosts.coarseMasks,
  canStartHosts: () => all.hosts.canStart,
});

async function hostStatus(
  { browsers, hosts, isolates, compartments }: AllHosts,
  providers: Providers,
): Promise<HostReport[]> {
  const all = [
    ...(await hosts.status()),
    ...[isolates, compartments, browsers].flatMap((it) => it.status()),
    ...providers.hostStatus(),
  ];
  // What an execute host runs are commands of agents: those are calls, and there may be thousands of processes.
  return all.map((it) => ({ ...it, children: it.tier === 'execute' ? [] : childrenOf(it.pid) }));
}
