/** The hosts as `status` shows them: those of tiers, isolates, plugins and providers. */
import type { HostStatus } from '../call.ts';
import type { Hosts } from '../hosts/hosts.ts';
import type { Isolates } from '../hosts/isolates.ts';
import type { Providers } from '../providers/providers.ts';

interface AllHosts {
  readonly hosts: Hosts;
  readonly isolates: Isolates;
  readonly compartments: Isolates;
}

export const hostsToTell = (all: AllHosts, providers: Providers) => ({
  hostStatus: () => hostStatus(all, providers),
  coarseMasks: all.hosts.coarseMasks,
  canStartHosts: () => all.hosts.canStart,
});

async function hostStatus({ hosts, isolates, compartments }: AllHosts, providers: Providers): Promise<HostStatus[]> {
  return [
    ...(await hosts.status()),
    ...[isolates, compartments].flatMap((it) => it.status()),
    ...providers.hostStatus(),
  ];
}
