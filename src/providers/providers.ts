/** All external providers: whose tools callers are offered, and which definitions of them a person has accepted. */
import { RpcError, ToolError } from '../errors.ts';
import { HostMasks } from '../hosts/host-masks.ts';
import type { HostStatus, PathView } from '../hosts/hosts.ts';
import type { Ran, RunOptions } from '../hosts/runs.ts';
import { subjectHash } from '../pipeline/binding.ts';
import type { NamedTool } from '../pipeline/stage.ts';
import type { UpstreamCaller, Upstreams } from '../pipeline/upstream.ts';
import { statmOf } from '../sandbox/proc.ts';
import type { AuditEntry } from '../store/audit-log.ts';
import type { Pin, ProviderPins } from '../store/provider-pins.ts';
import type { Catalogue } from '../tools/catalogue.ts';
import type { Upstream } from '../tools/upstream.ts';
import { type Definition, definition, type Listed } from './messages.ts';
import { toolName } from './names.ts';
import { type ProcessParts, workspaceOf } from './process.ts';
import { Provider, type ProviderState } from './provider.ts';
import type { ProviderSettings } from './settings.ts';
import { isOffered, takeListed, toNamedTool } from './tool.ts';

/**
 * Of one tool: `accepted` is offered; `changed` and `new` are not until an operator accepts them; `gone` was accepted and is
 * no longer there; `denied` is what the configuration leaves out, `refused` what can't be taken.
 */
export type ProvidedState = 'accepted' | 'changed' | 'new' | 'gone' | 'denied' | 'refused';

export interface ProvidedTool {
  /** As callers know it; absent where it was never accepted. */
  readonly name?: string;
  /** As its server calls it. */
  readonly tool: string;
  readonly state: ProvidedState;
  /** Of what its server says now. */
  readonly digest?: string;
  readonly reason?: string;
  /** What was accepted, and what its server says now, where they differ. */
  readonly accepted?: unknown;
  readonly offered?: unknown;
}

export interface ProviderInfo {
  readonly name: string;
  readonly kind: 'stdio' | 'http';
  readonly tier: string;
  readonly state: ProviderState;
  /** Tools that wait for an operator. */
  readonly pending: number;
  readonly tools: readonly ProvidedTool[];
  readonly restarts: number;
  /** To operators only, from here on. */
  readonly server?: Listed['server'];
  readonly pid?: number;
  /** Why it ended last. */
  readonly reason?: string;
}

export interface ProvidersOptions {
  readonly settings: readonly ProviderSettings[];
  readonly catalogue: Catalogue;
  readonly pins: ProviderPins;
  /** What the daemon's policy keeps from programs of a workspace. */
  viewOf(workspace: string): PathView;
  record(entry: AuditEntry): void;
}

interface Entry {
  readonly provider: Provider;
  /** By the server's name of the tool. */
  readonly pins: Map<string, Pin>;
  /** What the server offers now, by the same; undefined while that is not known. */
  offers?: Map<string, { readonly definition: Definition; readonly digest: string }>;
  listed?: Listed;
  /** Says of what its tools in the catalogue were made. */
  published: string;
}

export class Providers implements Upstreams, AsyncDisposable {
  readonly #entries = new Map<string, Entry>();
  readonly #options: ProvidersOptions;
  readonly #parts: ProcessParts;
  readonly #masks: HostMasks;

  /** Offers what was accepted before, and begins to start all of them. Throws STORE_FAILED. */
  constructor(options: ProvidersOptions, parts: ProcessParts) {
    this.#options = options;
    this.#parts = parts;
    this.#masks = new HostMasks(parts.limits, parts.powers);
    for (const settings of options.settings) this.#add(settings);
  }

  async run(to: Upstream, input: unknown, caller: UpstreamCaller, options: RunOptions): Promise<Ran> {
    return this.#entry(to.provider).provider.run(to, input, caller, options);
  }

  /** Ends those whose sandbox is not as the policy of the daemon says any more. */
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
        ...{ name, kind: settings.kind, tier: settings.tier, state, restarts, tools },
        pending: tools.filter(isPending).length,
        ...(role === 'operator' && {
          ...(listed && { server: listed.server }),
          ...(host && { pid: host.pid }),
          ...(reason !== '' && { reason }),
        }),
      };
    });
  }

  /** Takes definitions by their digests, as an operator saw them. Throws RpcError INVALID_PARAMS where the server says otherwise by now. */
  accept(name: string, digests: Readonly<Record<string, string>>, by: string): ProviderInfo {
    const entry = this.#entries.get(name);
    if (!entry) throw new RpcError('INVALID_PARAMS', `there is no provider ${name}; there are: ${this.#names()}`);
    const wanted = Object.entries(digests).map(([tool, digest]) => {
      const offer = entry.offers?.get(tool);
      if (offer?.digest !== digest)
        throw new RpcError(
          'INVALID_PARAMS',
          `provider ${name} does not offer ${tool} with the digest ${digest} now; look again`,
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
      if (!host) return [];
      const { privateBytes, sharedBytes } = statmOf(host.pid);
      const rssBytes = privateBytes + sharedBytes;
      return {
        ...{ tier: settings.tier, workspace: workspaceOf(settings) ?? '', pid: host.pid, threads: 1 },
        ...{ busy: host.jobs, rssBytes, cpuMs: 0, restarts },
      };
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([...this.#entries.values()].map(({ provider }) => provider.stop()));
    await this.#masks[Symbol.asyncDispose]();
  }

  #add(settings: ProviderSettings): void {
    const { pins, viewOf } = this.#options;
    const { name } = settings;
    const provider = new Provider(
      {
        ...{ settings, masks: this.#masks },
        viewNow: () => viewOf(workspaceOf(settings) ?? ''),
        onListed: (listed) => this.#takeList(name, listed),
        assertAccepted: (upstream) => this.#assertAccepted(name, upstream),
      },
      this.#parts,
    );
    const entry: Entry = { provider, published: '', pins: new Map(pins.of(name).map((it) => [it.tool, it])) };
    this.#entries.set(name, entry);
    this.#publish(name, entry);
  }

  #takeList(name: string, given: Listed): void {
    const entry = this.#entry(name);
    const listed = takeListed(given, { settings: entry.provider.settings, limits: this.#parts.limits });
    entry.listed = listed;
    entry.offers = new Map(listed.tools.map((it) => [it.name, { definition: it, digest: subjectHash(name, it) }]));
    if (!this.#options.pins.isKnown(name)) this.#pin(name, entry, listed.tools, 'first sight');
    const pending = toolsOf(entry).filter(isPending);
    if (pending.length > 0) {
      const tools = pending.map((it) => `${it.tool} (${it.state})`);
      this.#parts.powers.log.warn({ provider: name, tools }, 'tools wait for `ringfence providers accept`');
    }
    this.#publish(name, entry);
  }

  #pin(name: string, { pins, offers }: Entry, definitions: readonly Definition[], by: string): void {
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

  /** What was accepted, is configured and is not gone; as it was accepted, also while the server says otherwise. */
  #publish(name: string, { provider, pins, offers, ...entry }: Entry): void {
    const { settings } = provider;
    const offered = [...pins.values()].filter(({ tool }) => isOffered(settings, tool) && (offers?.has(tool) ?? true));
    const made = offered.map((it) => `${it.name} ${it.digest}`).join();
    if (made === entry.published) return;
    this.#entry(name).published = made;
    const toolset = new Map(offered.flatMap((pin) => this.#toTool(settings, pin)));
    try {
      this.#options.catalogue.set(`provider:${name}`, toolset);
    } catch (error) {
      this.#parts.powers.log.error({ provider: name, error }, 'the tools of a provider can not be offered');
    }
  }

  #toTool(settings: ProviderSettings, { name, tool, digest, definition: kept }: Pin): [string, NamedTool][] {
    const parsed = definition.safeParse(kept);
    // Kept by a version that took more.
    if (!parsed.success) return [];
    const assertAccepted = () => this.#assertAccepted(settings.name, { tool, digest });
    const options = { settings, name, digest, definition: parsed.data, limits: this.#parts.limits, assertAccepted };
    return [[name, toNamedTool(options)]];
  }

  /** Throws TOOL_DISABLED. */
  #assertAccepted(provider: string, { tool, digest }: Pick<Upstream, 'tool' | 'digest'>): void {
    const { pins, offers } = this.#entry(provider);
    if (pins.get(tool)?.digest === digest && (!offers || offers.get(tool)?.digest === digest)) return;
    const what = offers && !offers.has(tool) ? 'is not offered any more' : 'is not what was accepted any more';
    throw new ToolError('TOOL_DISABLED', `${tool} of provider ${provider} ${what}`, {
      suggestion: `An operator sees what changed with \`ringfence providers list ${provider}\`, and accepts it with \`ringfence providers accept ${provider}\`.`,
      details: { provider, tool },
    });
  }

  #entry(name: string): Entry {
    const entry = this.#entries.get(name);
    if (!entry) throw new ToolError('PROVIDER_UNAVAILABLE', `there is no provider ${name}`);
    return entry;
  }

  #names(): string {
    return [...this.#entries.keys()].join(', ') || 'none';
  }
}

const isPending = ({ state }: ProvidedTool): boolean => state === 'changed' || state === 'new';

function toolsOf({ provider, pins, offers, listed }: Entry): ProvidedTool[] {
  const names = [...new Set([...pins.keys(), ...(offers?.keys() ?? [])])].toSorted();
  const known = names.map((tool): ProvidedTool => {
    const pin = pins.get(tool);
    const offer = offers?.get(tool);
    const base = { tool, ...(pin && { name: pin.name }), digest: offer?.digest ?? (pin?.digest as string) };
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

const publicPartOf = ({ name, tool, state }: ProvidedTool): ProvidedTool => ({ tool, state, ...(name && { name }) });
