/** The daemon's hosts: starts what runs the code of tools, callers, plugins and sub-agents, and tells of it in `status`. */

import type { HostReport } from '../base/call.ts';
import type { Powers } from '../base/powers.ts';
import {
  agentProgram,
  browserProgram,
  compartmentProgram,
  egressProgram,
  hostProgram,
  isolateProgram,
} from '../base/runtime.ts';
import { Forwards } from '../gateway/operator/forwards.ts';
import { Egress } from '../hosts/egress.ts';
import type { HostMasks } from '../hosts/host-masks.ts';
import { childrenOf } from '../hosts/host-process.ts';
import { Hosts, type HostsOptions } from '../hosts/hosts.ts';
import { Isolates } from '../hosts/isolates.ts';
import type { Quarantine } from '../hosts/quarantine/quarantine.ts';
import { BackgroundCommands } from '../pipeline/execute/background/background-commands.ts';
import { Browsers } from '../services/browser/browsers.ts';
import type { Providers } from '../services/providers/providers.ts';
import type { Previews } from '../store/previews.ts';
import { environmentIn } from './config/projects.ts';
import type { Config } from './config.ts';
import type { Records } from './records.ts';
import { createDatabaseServers } from './services.ts';

interface AllHosts {
  readonly browsers: Browsers;
  readonly hosts: Hosts;
  readonly isolates: Isolates;
  readonly compartments: Isolates;
  readonly agentHosts: Isolates;
}

export const hostsToTell = (all: AllHosts, providers: Providers) => ({
  hostStatus: () => hostStatus(all, providers),
  coarseMasks: all.hosts.coarseMasks,
  unfollowed: all.hosts.unfollowed,
  outsidePrograms: all.hosts.outsidePrograms,
  canStartHosts: () => all.hosts.canStart,
});

async function hostStatus(
  { browsers, hosts, isolates, compartments, agentHosts }: AllHosts,
  providers: Providers,
): Promise<HostReport[]> {
  const all = [
    ...(await hosts.status()),
    ...[isolates, compartments, agentHosts, browsers].flatMap((it) => it.status()),
    ...providers.hostStatus(),
  ];
  // What an execute host runs are commands of agents: those are calls, and there may be thousands of processes.
  return all.map((it) => ({ ...it, children: it.tier === 'execute' ? [] : childrenOf(it.pid) }));
}

/** Creates the hosts for the code of tools, callers and plugins; ended with `parts`. */
export function createHosts(
  parts: AsyncDisposableStack,
  {
    undoJournal,
    previews,
    config,
    ...given
  }: Pick<HostsOptions, 'sandbox' | 'identity'> & { masks: HostMasks; quarantine: Quarantine } & Records & {
      previews: Previews;
      config: Config;
    },
  powers: Powers,
) {
  const { limits, projects, environment, outgoing } = config;
  const environmentOf = (workspace: string) => environmentIn(projects, workspace, environment);
  const options = { ...given, limits, environmentOf };
  const { sandbox } = options;
  const databaseServers = parts.use(createDatabaseServers(config, sandbox, powers));
  const egress = parts.use(new Egress({ sandbox, program: egressProgram, limits, outgoing }, powers));
  const browsers = parts.use(new Browsers({ sandbox, egress, program: browserProgram, limits }, powers));
  const hosts = parts.use(
    new Hosts({ ...options, program: hostProgram, egress, spoolOf: (it) => undoJournal.spoolOf(it) }, powers),
  );
  parts.defer(() => undoJournal.settled());
  const isolates = parts.use(new Isolates({ sandbox, program: isolateProgram, limits }, powers));
  const compartments = parts.use(new Isolates({ sandbox, program: compartmentProgram, limits }, powers));
  const agentHosts = parts.use(new Isolates({ sandbox, program: agentProgram, limits }, powers));
  const background = new BackgroundCommands({ ...options, hosts, powers });
  const forwards = new Forwards({ ...options, background, previews, powers });
  return {
    databaseServers,
    egress,
    browsers,
    hosts,
    masks: given.masks,
    quarantine: given.quarantine,
    isolates,
    compartments,
    agentHosts,
    previews,
    background,
    forwards,
  };
}
