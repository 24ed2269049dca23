/** Provides the pinned connectors as tools of a running daemon; reads them at start and after every change. */
import { ToolError } from '../../base/errors.ts';
import type { NetworkLayer } from '../../policy/network.ts';
import type { Connected } from '../../tools/connected.ts';
import { type PinnedKind, type PinnedParts, PinnedTools } from '../pinned/pinned-tools.ts';
import { type Connector, secretsOf } from './connector.ts';
import { HealthChecks, type ServiceReach } from './health-checks.ts';
import { pinnedConnectors, readPinned } from './pinned-connectors.ts';
import type { ConnectedCall, Connections } from './run-call.ts';
import type { Search } from './search/search.ts';
import { ServiceClient, type ServiceParts } from './service-client.ts';
import { toToolset } from './toolset.ts';

export interface ConnectorsOptions extends ServiceParts, PinnedParts {
  readonly stateDir: string;
  /** The service that `web_search` asks, if there is one. */
  readonly search?: Search | undefined;
  readonly reach: ServiceReach;
}

/** Disposing stops the watching and the health checks. */
export class Connectors implements Connections, Disposable {
  readonly #options: ConnectorsOptions;
  readonly #services = new Map<string, ServiceClient>();
  readonly #healthChecks: HealthChecks;
  readonly #pinned: PinnedTools<Connector>;

  constructor(options: ConnectorsOptions) {
    this.#options = options;
    this.#healthChecks = new HealthChecks(options);
    const { stateDir, limits, secrets } = options;
    const pins = pinnedConnectors(stateDir, limits);
    const kind: PinnedKind<Connector> = {
      pins,
      read: (name) => readPinned(pins, name, limits),
      toToolset: (connector) =>
        toToolset(connector, {
          assertConfigured() {
            for (const it of secretsOf(connector)) secrets.assertConfigured(it);
          },
        }),
      onChange: (name, connector) => this.#replace(name, connector),
    };
    this.#pinned = new PinnedTools(kind, options);
  }

  /** All pinned connectors in order of their names. */
  get status() {
    return this.#pinned.status((_, { name }) => this.#statusOf(this.#services.get(name) as ServiceClient));
  }

  /** The service that `web_search` asks; undefined without one. */
  get searchStatus() {
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

  [Symbol.dispose](): void {
    this.#pinned[Symbol.dispose]();
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

  #replace(name: string, connector: Connector | undefined): void {
    const before = this.#services.get(name);
    if (before) this.#healthChecks.forget(before);
    if (connector) this.#services.set(name, new ServiceClient(connector, this.#options));
    else this.#services.delete(name);
  }

  #statusOf(service: ServiceClient) {
    const { name, sha256 } = service.connector;
    return { name, sha256, tools: service.tools, ...this.#serviceStatusOf(service) };
  }

  #serviceStatusOf({ connector, state }: ServiceClient) {
    const needed = secretsOf(connector);
    const isThere = needed.every((it) => this.#options.secrets.placeOf(it.name) !== undefined);
    const { failures: _, ...told } = state;
    return { ...told, auth: needed.length === 0 ? 'none' : isThere ? 'configured' : 'missing' };
  }
}
