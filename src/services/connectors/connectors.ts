/** Provides the pinned connectors as tools of a running daemon; reads them at start and after every change. */
import { ToolError } from '../../base/errors.ts';
import type { NetworkLayer } from '../../policy/network.ts';
import type { Catalogue } from '../../tools/catalogue.ts';
import type { Connected } from '../../tools/connected.ts';
import { PinError } from '../plugins/pin-error.ts';
import type { PinFolder } from '../plugins/pin-folder.ts';
import { type Connector, secretsOf } from './connector.ts';
import { HealthChecks, type ServiceReach } from './health-checks.ts';
import { pinnedConnectors, readPinned } from './pinned-connectors.ts';
import type { ConnectedCall, Connections } from './run-call.ts';
import type { Search } from './search/search.ts';
import { ServiceClient, type ServiceParts } from './service-client.ts';
import type { ServiceState } from './service-limits.ts';
import { toToolset } from './toolset.ts';

export interface ConnectorsOptions extends ServiceParts {
  readonly stateDir: string;
  readonly catalogue: Catalogue;
  /** The service that `web_search` asks, if there is one. */
  readonly search?: Search | undefined;
  readonly reach: ServiceReach;
  /** Called for each connector that was loaded, replaced or removed. */
  onChange(change: ConnectorChange): void;
}

export interface ConnectorChange {
  readonly name: string;
  /** `removed` if it is no longer pinned; `off` if it is pinned but refused. */
  readonly state: 'on' | 'off' | 'removed';
  readonly sha256?: string;
  /** Why the connector is off. */
  readonly problem?: string;
}

/** A service as `status` shows it. */
export interface ServiceStatus extends Omit<ServiceState, 'failures'> {
  /** Whether its secrets are there. */
  readonly auth: 'configured' | 'missing' | 'none';
}

/** A connector as `status` shows it. */
export interface ConnectorStatus extends Partial<Omit<ServiceStatus, 'state'>> {
  readonly name: string;
  readonly state: ServiceState['state'] | 'off';
  readonly sha256?: string;
  readonly tools: readonly string[];
}

/** The service of `web_search` as `status` shows it. */
export interface SearchStatus extends ServiceStatus {
  readonly provider: string;
}

/** Disposing stops the watching and the health checks. */
export class Connectors implements Connections, Disposable {
  readonly #options: ConnectorsOptions;
  readonly #pins: PinFolder;
  readonly #services = new Map<string, ServiceClient>();
  /** Why connectors are off, by name. */
  readonly #problems = new Map<string, string>();
  readonly #watching: ReturnType<PinFolder['watch']>;
  readonly #healthChecks: HealthChecks;

  constructor(options: ConnectorsOptions) {
    this.#options = options;
    this.#healthChecks = new HealthChecks(options);
    const { stateDir, limits, powers } = options;
    this.#pins = pinnedConnectors(stateDir, limits);
    this.#watching = this.#pins.watch(() => this.reload(), { powers, delayMs: limits.pluginReloadMs });
    options.catalogue.lookFirst(() => this.#watching.look());
    // Runs after the watch has begun, so that no addition is missed in between.
    this.reload();
  }

  /** All pinned connectors in order of their names. */
  get status(): ConnectorStatus[] {
    this.#watching.look();
    const on = [...this.#services.values()].map((it) => this.#statusOf(it));
    const off = [...this.#problems].map(([name, problem]) => ({ name, state: 'off' as const, tools: [], problem }));
    return [...on, ...off].sort((a, b) => (a.name < b.name ? -1 : 1));
  }

  /** The service that `web_search` asks; undefined without one. */
  get searchStatus(): SearchStatus | undefined {
    const { search } = this.#options;
    return search && { provider: search.provider, ...this.#serviceStatusOf(search.service) };
  }

  networkOf(to: Connected): NetworkLayer {
    return (this.#searchOf(to)?.service ?? this.#serviceOf(to)).connector.network;
  }

  async run(to: Connected, call: ConnectedCall): Promise<unknown> {
    const search = this.#searchOf(to);
    const service = search?.service ?? this.#serviceOf(to);
    try {
      return await (search?.run(call) ?? service.run(to.operation, call));
    } finally {
      // A connector that was removed meanwhile is not asked any more.
      if (this.#all.includes(service)) this.#healthChecks.used(service);
    }
  }

  /** Asks all services whether they work; their state says it then. Never rejects. */
  checkHealth(): Promise<void> {
    return this.#healthChecks.checkNow(this.#all);
  }

  /** Reads all connectors; unchanged ones stay as they are. */
  reload(): void {
    const names = this.#pins.names();
    const { connectorsMax } = this.#options.limits;
    for (const name of [...this.#services.keys(), ...this.#problems.keys()])
      if (!names.includes(name)) this.#remove(name);
    for (const [at, name] of names.entries()) {
      if (at < connectorsMax) this.#load(name);
      else this.#refuse(name, `there are more than ${connectorsMax} connectors`);
    }
  }

  [Symbol.dispose](): void {
    this.#watching[Symbol.dispose]();
    this.#healthChecks[Symbol.dispose]();
  }

  get #all(): ServiceClient[] {
    const { search } = this.#options;
    return [...this.#services.values(), ...(search ? [search.service] : [])];
  }

  #searchOf({ connector }: Connected): Search | undefined {
    const { search } = this.#options;
    return search?.connected.connector === connector ? search : undefined;
  }

  #serviceOf({ connector, digest }: Connected): ServiceClient {
    const service = this.#services.get(connector);
    if (service?.connector.sha256 === digest) return service;
    throw new ToolError('TOOL_DISABLED', `the connector ${connector} was changed or removed`, {
      suggestion: 'List the tools again.',
    });
  }

  #load(name: string): void {
    const { limits, catalogue, secrets } = this.#options;
    let connector: Connector;
    try {
      connector = readPinned(this.#pins, name, limits);
      if (this.#services.get(name)?.connector.sha256 === connector.sha256) return;
      const assertConfigured = () => {
        for (const it of secretsOf(connector)) secrets.assertConfigured(it);
      };
      catalogue.set(sourceOf(name), toToolset(connector, { assertConfigured }));
    } catch (error) {
      // An error of the catalogue names the tool whose name is taken.
      const { message } = error as Error;
      return this.#refuse(name, error instanceof PinError ? message : `${message}; remove one of the two`);
    }
    this.#problems.delete(name);
    this.#forget(name);
    this.#services.set(name, new ServiceClient(connector, this.#options));
    this.#tell({ name, state: 'on', sha256: connector.sha256 });
  }

  /** Turns a connector off and removes its tools. */
  #refuse(name: string, problem: string): void {
    this.#options.catalogue.set(sourceOf(name), new Map());
    this.#forget(name);
    if (this.#problems.get(name) === problem) return;
    this.#problems.set(name, problem);
    this.#tell({ name, state: 'off', problem });
  }

  #remove(name: string): void {
    this.#options.catalogue.set(sourceOf(name), new Map());
    this.#forget(name);
    this.#problems.delete(name);
    this.#tell({ name, state: 'removed' });
  }

  #forget(name: string): void {
    const service = this.#services.get(name);
    if (service) this.#healthChecks.forget(service);
    this.#services.delete(name);
  }

  #tell(change: ConnectorChange): void {
    const { log } = this.#options.powers;
    const { name, state } = change;
    if (state === 'off') log.warn({ connector: name, problem: change.problem }, `connector ${name} is off`);
    else log.info({ connector: name, sha256: change.sha256 }, `connector ${name} is ${state}`);
    this.#options.onChange(change);
  }

  #statusOf(service: ServiceClient): ConnectorStatus {
    const { name, sha256 } = service.connector;
    return { name, sha256, tools: service.tools, ...this.#serviceStatusOf(service) };
  }

  #serviceStatusOf({ connector, state }: ServiceClient): ServiceStatus {
    const needed = secretsOf(connector);
    const isThere = needed.every((it) => this.#options.secrets.placeOf(it.name) !== undefined);
    const { failures: _, ...told } = state;
    return { ...told, auth: needed.length === 0 ? 'none' : isThere ? 'configured' : 'missing' };
  }
}

const sourceOf = (name: string): string => `connector ${name}`;
