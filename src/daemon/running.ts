/** Starts the capabilities, and joins what they add. */

import type { Gateway } from '../gateway/gateway.ts';
import type { Policies } from '../gateway/policies.ts';
import { HostDoors } from '../pipeline/doors/host-doors.ts';
import type { Runners } from '../pipeline/execute/runner.ts';
import type { Destination } from '../policy/network.ts';
import type { DaemonParts } from '../services/capability.ts';
import { PersonsKeys } from '../services/registries/registries.ts';
import { Secrets } from '../services/secrets/secrets.ts';
import type { Approvals } from '../store/approvals/approvals.ts';
import { Catalogue } from '../tools/catalogue.ts';
import { builtinToolset } from '../tools/registry.ts';
import type { RunnerName } from '../tools/runs.ts';
import type { Tool } from '../tools/tool.ts';
import { outsideProblem, pathsKept } from './command-environment.ts';
import { isOpenIn } from './config/projects.ts';
import type { Config } from './config.ts';
import type { Workspaces } from './workspaces.ts';

type Given = Pick<DaemonParts, 'parts' | 'powers' | 'sandbox' | 'egress' | 'hosts' | 'masks'> &
  Pick<DaemonParts, 'auditLog' | 'ledger' | 'webCache' | 'redact'> & {
    readonly approvals: Approvals;
    readonly policies: Policies;
    readonly workspaces: Workspaces;
    gateway(): Gateway;
  };

/**
 * Starts them in their order, until `given.parts` end, and gives what the pipeline and the gateway take of them. Tools that nothing runs
 * are not in the catalogue. Throws SQLite's error for a file that can't be used.
 */
export function startCapabilities(config: Config, given: Given) {
  const { dirs, limits, projects } = config;
  const { policies, workspaces, gateway } = given;
  const catalogue = new Catalogue(builtinToolset());
  const secrets = new Secrets({ stateDir: dirs.stateDir, settings: config.secrets, limits });
  const shared = {
    ...given,
    limits,
    packages: config.packages,
    viewOf: policies.viewOf.bind(policies),
    approvers: (sessionId: string) => gateway().approversOf(sessionId),
    isImpatient: (sessionId: string) => gateway().isImpatient(sessionId),
    outsideProblem: (path: string) => outsideProblem(path, pathsKept(dirs, workspaces.all)),
    isOpenIn: (workspace: string, to: Destination) => isOpenIn(projects, workspace, to),
  };
  const doors = new HostDoors(shared);
  const own = { catalogue, secrets, doors, basePolicy: () => policies.base };
  const running = config.capabilities.map((it) => it.start({ ...config, ...dirs, ...shared, ...own }));
  const runners: Runners = Object.assign({}, ...running.map((it) => it.runners));
  catalogue.bind((it) => (isRun(it.tool, runners) ? it : undefined));
  const setUpOf = (tool: string) => running.map((it) => it.setUpOf?.(tool)).find((it) => it !== undefined);
  return {
    ...shared,
    catalogue,
    doors,
    remoteKeys: new PersonsKeys(secrets, config.registries, Object.assign({}, ...running.map((it) => it.keyAgents))),
    running,
    runners,
    setUpOf,
  };
}

/** Runners of the pipeline itself. */
const OWN: readonly RunnerName[] = ['doors', 'tools'];

/** Whether something runs the calls of a tool. */
const isRun = ({ runs }: Tool, runners: Runners): boolean =>
  !runs || !('by' in runs) || runs.by in runners || OWN.includes(runs.by);
