/** All external providers: the tools that are offered to callers, and the definitions that a person has accepted. */
import type { HostStatus } from '../../base/call.ts';
import { RpcError, ToolError } from '../../base/errors.ts';
import type { HostMasks } from '../../hosts/host-masks.ts';
import { singleStatus } from '../../hosts/host-process.ts';
import type { PathView } from '../../hosts/hosts.ts';
import type { RunOptions, RunResult } from '../../hosts/runs.ts';
import { subjectHash } from '../../pipeline/approve/binding.ts';
import type { AuditEntry } from '../../store/audit/log.ts';
import type { Catalogue } from '../../tools/catalogue.ts';
import type { Upstream } from '../../tools/runs.ts';
import type { NamedTool } from '../../tools/tool.ts';
import { definition, type ListedTools, type ToolDefinition } from './messages.ts';
import { type ProcessParts, workspaceOf } from './process.ts';
import { Provider, type ProviderState } from './provider.ts';
import type { Pin, ProviderPins } from './provider-pins.ts';
import type { UpstreamCaller, Upstreams } from './run-call.ts';
import type { ProviderSettings } from './settings.ts';
import { isOffered, takeListed, toNamedTool } from './tool.ts';
import { toolName } from './tool-names.ts';

/**
 * State of one tool. `accepted`: offered. `changed`, `new`: not offered until an operator accepts it. `gone`: accepted, but no longer
 * listed. `denied`: excluded by the configuration. `refused`: invalid.
 */
export type ProvidedState = 'accepted' | 'changed' | 'new' | 'gone' | 'denied' | 'refused';

export interface ProvidedTool {
  /** The callers' name; absent if the tool was never accepted. */
  readonly name?: string | undefined;
  /** The server's name of the tool. */
  readonly tool: string;
  readonly state: ProvidedState;
  /** Digest of the server's current definition. */
  readonly digest?: string;
  readonly reason?: string;
  /** The accepted and the current definition, if they differ. */
  readonly accepted?: unknown;
  readonly offered?: unknown;
}

export interface ProviderInfo {
  readonly name: string;
  readonly kind: 'stdio' | 'http';
  readonly tier: string;
  readonly state: ProviderState;
  /** Number of tools that wait for an operator. */
  readonly pending: number;
  readonly tools: readonly ProvidedTool[];
  readonly restarts: number;
  /** When it entered its state, ISO 8601. */
  readonly since: string;
  /** This and the following fields are for operators only. */
  readonly server?: ListedTools['server'] | undefined;
  readonly pid?: number | undefined;
  /** Why the last run ended. */
  readonly reason?: string | undefined;
}

export interface ProvidersOptions {
  readonly masks: HostMasks;
  readonly settings: readonly ProviderSettings[];
  readonly catalogue: Catalogue;
  readonly pins: ProviderPins;
  /** The daemon's policy on paths for programs of a workspace. */
  viewOf(workspace: string): PathView;
  record(entry: AuditEntry): void;
}

interface ProviderEntry {
  readonly provider: Provider;
  /** Accepted tools by the server's name. */
  readonly pins: Map<string, Pin>;
  /** Current definitions by the server's name; undefined while unknown. */
  offers?: Map<string, { readonly definition: ToolDefinition; readonly digest: string }>;
  listed?: ListedTools;
  /** Identifies the definitions that its tools in the catalogue were made from. */
  published: string;
}

export class Providers implements Upstreams, AsyncDisposable {
  readonly #entries = new Map<string, ProviderEntry>();
  readonly #options: ProvidersOptions;
  readonly #parts: ProcessParts;

  /** Offers the tools accepted earlier and starts all providers. Throws STORE_FAILED. */
  constructor(options: ProvidersOptions, parts: ProcessParts) {
    this.#options = options;
    this.#parts = parts;
    for (const settings of options.settings) this.#add(settings);
  }

  async run(to: Upstream, input: unknown, caller: UpstreamCaller, options: RunOptions): Promise<RunResult> {
    return this.#entry(to.provider).provider.run(to, input, caller, options);
  }

  /** Restarts providers whose sandbox no longer matches the daemon's policy. */
  endStale(): void {
    for (const { provider } of this.#entries.values())
      if (workspaceOf(provider.settings) !== undefined && provider.state === 'ready')
        provider.restart('the policy changed');
  }

  list(role: 'agent' | 'operator'): ProviderInfo[] {
    return [...this.#entries].map(([name, entry]) => {
      const { provider, listed } = entry;
      const { settings, state, restarts, host, reason } = provider;
      const tools = toolsOf(entry).map((it) => (role === 'operator' ? it : publicPartOf(it)));
      return {
        name,
        kind: settings.kind,
        tier: settings.tier,
        state,
        restarts,
        since: new Date(provider.sinceMs).toISOString(),
        tools,
        pending: tools.filter(isPending).length,
        ...(role === 'operator' && {
          server: listed?.server,
          pid: host?.pid,
          reason: reason || undefined,
        }),
      };
    });
  }

  /**
   * Accepts definitions by digest, as an operator saw them. Throws RpcError INVALID_PARAMS if the server's definition has changed since.
   */
  accept(name: string, digests: Readonly<Record<string, string>>, by: string): ProviderInfo {
    const entry = this.#entries.get(name);
    if (!entry)
      throw new RpcError('INVALID_PARAMS', `there is no provider ${name}; the providers are: ${this.#names()}`);
    const wanted = Object.entries(digests).map(([tool, digest]) => {
      const offer = entry.offers?.get(tool);
      if (offer?.digest !== digest)
        throw new RpcError(
          'INVALID_PARAMS',
          `provider ${name} does not offer ${tool} with the digest ${digest}; list its tools again`,
        );
      return offer.definition;
    });
    this.#pin(name, entry, wanted, by);
    this.#publish(name, entry);
    return this.list('operator').find((it) => it.name === name) as ProviderInfo;
  }

  hostStatus(): HostStatus[] {
    return [...this.#entries.values()].flatMap(({ provider }) => {
      const { host, settings, restarts } = provider;
      const workspace = workspaceOf(settings) ?? '';
      return host ? [singleStatus(host, { tier: settings.tier, workspace, restarts })] : [];
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([...this.#entries.values()].map(({ provider }) => provider.stop()));
  }

  #add(settings: ProviderSettings): void {
    const { pins, viewOf } = this.#options;
    const { name } = settings;
    const provider = new Provider(
      {
        settings,
        masks: this.#options.masks,
        viewNow: () => viewOf(workspaceOf(settings) ?? ''),
        onListed: (listed) => this.#takeList(name, listed),
        assertAccepted: (upstream) => this.#assertAccepted(name, upstream),
      },
      this.#parts,
    );
    const entry: ProviderEntry = {
      provider,
      published: '',
      pins: new Map(pins.pinsOf(name).map((it) => [it.tool, it])),
    };
    this.#entries.set(name, entry);
    this.#publish(name, entry);
  }

  #takeList(name: string, given: ListedTools): void {
    const entry = this.#entry(name);
    const listed = takeListed(given, { settings: entry.provider.settings, limits: this.#parts.limits });
    entry.listed = listed;
    entry.offers = new Map(listed.tools.map((it) => [it.name, { definition: it, digest: subjectHash(name, it) }]));
    if (!this.#options.pins.isKnown(name)) this.#pin(name, entry, listed.tools, 'first sight');
    const pending = toolsOf(entry).filter(isPending);
    if (pending.length > 0) {
      const tools = pending.map((it) => `${it.tool} (${it.state})`);
      this.#parts.powers.log.warn(
        { provider: name, tools },
        'tools changed; accept them with `ringfence providers accept`',
      );
    }
    this.#publish(name, entry);
  }

  #pin(name: string, { pins, offers }: ProviderEntry, definitions: readonly ToolDefinition[], by: string): void {
    const taken = new Set([...pins.values()].map((it) => it.name));
    const made = definitions
      .toSorted((a, b) => (a.name < b.name ? -1 : 1))
      .map((it): Pin => {
        const known = pins.get(it.name)?.name ?? toolName(name, it.name, taken);
        taken.add(known);
        return { tool: it.name, name: known, digest: offers?.get(it.name)?.digest as string, definition: it };
      });
    const accepted = Object.fromEntries(made.map(({ tool, digest }) => [tool, digest]));
    this.#options.record({ kind: 'policy', sessionId: '', principal: by, detail: { provider: name, accepted } });
    this.#options.pins.accept(name, made, by);
    for (const it of made) pins.set(it.tool, it);
  }

  /**
   * Puts the accepted, configured and available tools into the catalogue, in their accepted form even if the server's definition has
   * changed.
   */
  #publish(name: string, { provider, pins, offers, ...entry }: ProviderEntry): void {
    const { settings } = provider;
    const offered = [...pins.values()].filter(({ tool }) => isOffered(settings, tool) && (offers?.has(tool) ?? true));
    const made = offered.map((it) => `${it.name} ${it.digest}`).join();
    if (made === entry.published) return;
    this.#entry(name).published = made;
    const toolset = new Map(offered.flatMap((pin) => this.#toTool(settings, pin)));
    try {
      this.#options.catalogue.set(`provider:${name}`, toolset);
    } catch (error) {
      this.#parts.powers.log.error({ provider: name, error }, 'can not offer the tools of a provider');
    }
  }

  #toTool(settings: ProviderSettings, { name, tool, digest, definition: kept }: Pin): [string, NamedTool][] {
    const parsed = definition.safeParse(kept);
    // An older version stored a definition that is now invalid.
    if (!parsed.success) return [];
    const assertAccepted = () => this.#assertAccepted(settings.name, { tool, digest });
    const options = { settings, name, digest, definition: parsed.data, limits: this.#parts.limits, assertAccepted };
    return [[name, toNamedTool(options)]];
  }

  /** Throws TOOL_DISABLED if the tool is not offered in its accepted form. */
  #assertAccepted(provider: string, { tool, digest }: Pick<Upstream, 'tool' | 'digest'>): void {
    const { pins, offers } = this.#entry(provider);
    if (pins.get(tool)?.digest === digest && (!offers || offers.get(tool)?.digest === digest)) return;
    const what = offers && !offers.has(tool) ? 'is not offered any more' : 'is not what was accepted any more';
    throw new ToolError('TOOL_DISABLED', `${tool} of provider ${provider} ${what}`, {
      suggestion: `An operator can see the change with \`ringfence providers list ${provider}\` and accept it with \`ringfence providers accept ${provider}\`.`,
      details: { provider, tool },
    });
  }

  #entry(name: string): ProviderEntry {
    const entry = this.#entries.get(name);
    if (!entry) throw new ToolError('PROVIDER_UNAVAILABLE', `there is no provider ${name}`);
    return entry;
  }

  #names(): string {
    return [...this.#entries.keys()].join(', ') || 'none';
  }
}

const isPending = ({ state }: ProvidedTool): boolean => state === 'changed' || state === 'new';

function toolsOf({ provider, pins, offers, listed }: ProviderEntry): ProvidedTool[] {
  const names = [...new Set([...pins.keys(), ...(offers?.keys() ?? [])])].toSorted();
  const known = names.map((tool): ProvidedTool => {
    const pin = pins.get(tool);
    const offer = offers?.get(tool);
    const base = { tool, name: pin?.name, digest: offer?.digest ?? (pin?.digest as string) };
    if (!isOffered(provider.settings, tool)) return { ...base, state: 'denied' };
    if (!offers || (pin && offer?.digest === pin.digest)) return { ...base, state: 'accepted' };
    if (!offer) return { ...base, state: 'gone' };
    if (!pin) return { ...base, state: 'new', offered: offer.definition };
    return { ...base, state: 'changed', accepted: pin.definition, offered: offer.definition };
  });
  const refused = (listed?.refused ?? []).map(
    ({ name, reason }) => ({ tool: name, state: 'refused', reason }) as const,
  );
  return [...known, ...refused];
}

const publicPartOf = ({ name, tool, state }: ProvidedTool): ProvidedTool => ({ tool, state, name });
