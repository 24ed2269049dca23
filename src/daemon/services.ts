/**
 * The services of others that a daemon uses: those of connectors and providers, the one of `web_search`, databases,
 * models, the bus of a fleet, the registry of toolchains.
 */

import type { Powers } from '../base/powers.ts';
import { cliProgram, databaseProgram, fleetProgram, providerProgram, version } from '../base/runtime.ts';
import { FleetProcess } from '../fleet/process.ts';
import { FleetWorkspaces } from '../fleet/workspaces/workspaces.ts';
import type { Policies } from '../gateway/policies.ts';
import type { Egress } from '../hosts/egress.ts';
import type { HostMasks } from '../hosts/host-masks.ts';
import { decide } from '../policy/decide.ts';
import type { Sandbox } from '../sandbox/sandbox.ts';
import { Agents } from '../services/agents/agents.ts';
import { RunningTasks } from '../services/agents/running-tasks.ts';
import { withAgents } from '../services/agents/toolset.ts';
import { type ConnectorChange, Connectors } from '../services/connectors/connectors.ts';
import type { ServiceReach } from '../services/connectors/health-checks.ts';
import { Search } from '../services/connectors/search/search.ts';
import { withSearch } from '../services/connectors/search/toolset.ts';
import { DatabaseServers } from '../services/databases/database-servers.ts';
import { Databases, withDatabases } from '../services/databases/databases.ts';
import { Providers } from '../services/providers/providers.ts';
import { hostOf, Secrets } from '../services/secrets/secrets.ts';
import { ToolchainRequests } from '../services/toolchains/requests.ts';
import { Catalogue } from '../tools/catalogue.ts';
import { builtinToolset } from '../tools/registry.ts';
import type { Config } from './config.ts';
import type { Records } from './records.ts';
import type { UserDirs } from './user-dirs.ts';
import type { Workspaces } from './workspaces.ts';

export const secretsOf = ({ dirs: { stateDir }, secrets: settings, limits }: Config): Secrets =>
  new Secrets({ stateDir, settings, limits });

/** The service that `web_search` asks; undefined without one. Throws PinError. */
export function createSearch(config: Config, powers: Powers): Search | undefined {
  const { search, limits } = config;
  return search && new Search(search, { secrets: secretsOf(config), limits, powers });
}

/** What sub-agents need of a daemon. */
export interface TaskServices {
  readonly agents: Agents;
  readonly runningTasks: RunningTasks;
}

export const createTaskServices = (config: Config): TaskServices => ({
  agents: new Agents({ profiles: config.agents, secrets: secretsOf(config) }),
  runningTasks: new RunningTasks(config.limits),
});

/** The built-in tools, bound to what the configuration says of their services. */
export const createCatalogue = (config: Config, search: Search | undefined, { agents }: TaskServices): Catalogue =>
  new Catalogue(withAgents(withDatabases(withSearch(builtinToolset(), search), createDatabases(config)), agents));

/** The database connections of config.yaml and of `ringfence database add`. */
const createDatabases = ({ dirs: { stateDir }, databases: configured, limits }: Config): Databases =>
  new Databases({ stateDir, configured, limits });

/** The servers of database connections. */
export function createDatabaseServers(config: Config, sandbox: Sandbox, powers: Powers): DatabaseServers {
  const { limits } = config;
  return new DatabaseServers({ sandbox, program: databaseProgram, secrets: secretsOf(config), limits }, powers);
}

/** Links the daemon to the fleet whose bus is at `url`, if it has one, until `parts` end. Throws FleetError. */
export async function linkToFleet(
  url: string | undefined,
  {
    parts,
    dirs: { stateDir, socket, mcpSocket },
    powers,
  }: { parts: AsyncDisposableStack; dirs: UserDirs; powers: Powers },
): Promise<void> {
  if (url === undefined) return;
  parts.use(await FleetProcess.start({ program: fleetProgram, stateDir, socket, mcpSocket, url, powers }));
}

export interface FleetParts {
  readonly parts: AsyncDisposableStack;
  readonly sandbox: Sandbox;
  readonly egress: Egress;
  readonly workspaces: Workspaces;
  readonly records: Records;
  readonly powers: Powers;
}

/** What makes workspaces for sessions of a fleet, until `parts` end; undefined if the config allows none. */
export function createFleetWorkspaces(
  { fleet: settings, limits }: Config,
  { parts, workspaces: { lent }, records: { auditLog }, sandbox, egress, powers }: FleetParts,
): FleetWorkspaces | undefined {
  const record = (detail: Record<string, unknown>) =>
    auditLog.append({ kind: 'policy', sessionId: '', principal: 'fleet', detail });
  return settings && parts.use(new FleetWorkspaces({ sandbox, egress, powers, settings, lent, limits, record }));
}

interface ConnectorsParts {
  readonly powers: Powers;
  readonly records: Records;
  readonly catalogue: Catalogue;
  readonly search: Search | undefined;
  readonly egress: Egress;
  readonly policies: Pick<Policies, 'base'>;
}

export function createConnectors(config: Config, parts: ConnectorsParts): Connectors {
  const { dirs, limits } = config;
  const { powers, catalogue, search, records } = parts;
  const reach = reachOf(config, parts);
  const own = { stateDir: dirs.stateDir, secrets: secretsOf(config), limits, powers, catalogue, search, reach };
  return new Connectors({ ...own, onChange: connectorChanges(records) });
}

/** Bytes of an answer to a health check that are read; only its status counts. */
const HEALTH_BYTES = 64 * 1024;

/** Lets a health check go where calls of the service go, unless the policy denies all of them. */
function reachOf({ dirs, limits }: Config, { egress, policies }: ConnectorsParts): ServiceReach {
  return async ({ connector: { base, network }, tools }, work) => {
    const effects = [{ kind: 'connect', target: hostOf(new URL(base)) }] as const;
    const facts = { aliases: [], tier: 'external_api', category: 'service', destructive: false } as const;
    const asker = { principal: '', session: '', home: dirs.home };
    const isDenied = (tool: string) => decide(policies.base, { tool, effects, ...facts, ...asker }).decision === 'deny';
    if (tools.every(isDenied)) return;
    await egress.lend([network], new AbortController().signal, async ({ fetch }) => {
      await work({
        fetch: (asked) => fetch({ ...asked, bytesMax: HEALTH_BYTES, withinMs: limits.healthCheckMs }),
      });
      return {};
    });
  };
}

/** Records each change of the callable connectors, with the hash of the trusted files. */
const connectorChanges =
  ({ auditLog }: Records) =>
  ({ name: connector, ...change }: ConnectorChange): void =>
    auditLog.append({ kind: 'policy', sessionId: '', principal: 'daemon', detail: { connector, ...change } });

interface ProviderParts {
  readonly powers: Powers;
  readonly records: Records;
  readonly policies: Policies;
  readonly sandbox: Sandbox;
  readonly egress: Egress;
  readonly masks: HostMasks;
  readonly catalogue: Catalogue;
}

/** Creates what starts the external tool providers. */
export function createProviders(
  { providers: settings, environment, limits }: Config,
  { powers, records, policies, sandbox, egress, catalogue, masks }: ProviderParts,
): Providers {
  return new Providers(
    {
      settings,
      masks,
      catalogue,
      pins: records.providerPins,
      // For no principal and no session: rules about single sessions don't apply to a provider.
      viewOf: (workspace) =>
        policies.viewOf({ policy: policies.base, principal: '', sessionId: '', workspace, root: workspace }),
      record: (entry) => records.auditLog.append(entry),
    },
    { sandbox, egress, program: providerProgram, environment, version, limits, powers },
  );
}

/** Creates what installs packages in workspaces, and toolchains for commands. */
export const createPackageParts = (
  { dirs, limits, packages, outgoing }: Pick<Config, 'dirs' | 'limits' | 'packages' | 'outgoing'>,
  powers: Powers,
) => {
  const { registry } = packages;
  const own = { program: cliProgram, stateDir: dirs.stateDir, registry, limits, outgoing, powers };
  const toolchains = new ToolchainRequests(own);
  return { packages, toolchains };
};
