/** The daemon's hosts: starts what runs the code of tools, and reports in `status` what runs calls. */

import type { HostReport } from '../base/call.ts';
import type { Powers } from '../base/powers.ts';
import { egressProgram, hostProgram } from '../base/runtime.ts';
import { Forwards } from '../gateway/operator/forwards.ts';
import { Egress } from '../hosts/egress.ts';
import type { HostMasks } from '../hosts/host-masks.ts';
import { childrenOf } from '../hosts/host-process.ts';
import { Hosts, type HostsOptions } from '../hosts/hosts.ts';
import { IdleHeap } from '../hosts/idle-heap.ts';
import type { Quarantine } from '../hosts/quarantine/quarantine.ts';
import { BackgroundCommands } from '../pipeline/execute/background/background-commands.ts';
import { commandCertificates } from '../sandbox/etc/certificates.ts';
import type { Running } from '../services/capability.ts';
import type { Previews } from '../store/previews.ts';
import { environmentIn } from './config/projects.ts';
import type { Config } from './config.ts';
import type { Records } from './records.ts';

export const hostsToTell = (hosts: Hosts, running: readonly Running[]) => ({
  hostStatus: () => hostStatus(hosts, running),
  coarseMasks: hosts.coarseMasks,
  unfollowed: hosts.unfollowed,
  outsidePrograms: hosts.outsidePrograms,
  canStartHosts: () => hosts.canStart,
});

async function hostStatus(hosts: Hosts, running: readonly Running[]): Promise<HostReport[]> {
  const all = [...(await hosts.status()), ...running.flatMap((it) => it.hosts?.() ?? [])];
  // What an execute host runs are commands of agents: those are calls, and there may be thousands of processes.
  return all.map((it) => ({ ...it, children: it.tier === 'execute' ? [] : childrenOf(it.pid) }));
}

/** Creates the hosts for the code of tools; ended with `parts`. */
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
  let ofStore: Readonly<Record<string, string>> | undefined;
  const environmentOf = (workspace: string) => {
    ofStore ??= commandCertificates(config.certificates);
    return { ...ofStore, ...environmentIn(projects, workspace, environment) };
  };
  const options = { ...given, limits, environmentOf };
  const { sandbox } = options;
  const egress = parts.use(new Egress({ sandbox, program: egressProgram, limits, outgoing }, powers));
  const hosts = parts.use(
    new Hosts({ ...options, program: hostProgram, egress, spoolOf: (it) => undoJournal.spoolOf(it) }, powers),
  );
  parts.defer(() => undoJournal.settled());
  const background = new BackgroundCommands({ ...options, hosts, powers });
  const forwards = new Forwards({ ...options, background, previews, powers });
  const { masks, quarantine } = given;
  const heap = parts.use(new IdleHeap(powers));
  return { egress, hosts, heap, masks, quarantine, previews, background, forwards };
}
