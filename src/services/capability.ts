/**
 * What a capability of the daemon is. Each has a folder with a `capability.ts`, which says what it adds, and a line of
 * src/daemon/capabilities.ts; nothing else imports it. The composition root sees neither its settings nor its parts: `configure` keeps
 * the settings in a closure and `start` gives functions, so that no list of names or of types grows with each capability.
 */

import type * as z from 'zod';
import type { HostStatus } from '../base/call.ts';
import type { Limits } from '../base/limits.ts';
import type { Powers } from '../base/powers.ts';
import type { Egress } from '../hosts/egress.ts';
import type { HostMasks } from '../hosts/host-masks.ts';
import type { Hosts } from '../hosts/hosts.ts';
import type { PathView } from '../hosts/job.ts';
import type { HostDoors } from '../pipeline/doors/host-doors.ts';
import type { KeyAgents } from '../pipeline/execute/keys/key-agents.ts';
import type { Runners } from '../pipeline/execute/runner.ts';
import type { ValidateParts } from '../pipeline/input/validate.ts';
import type { Call } from '../pipeline/stage.ts';
import type { Policy } from '../policy/schema.ts';
import type { OutgoingProxy } from '../sandbox/egress/outgoing-proxy.ts';
import type { Sandbox } from '../sandbox/sandbox.ts';
import type { AuditLog } from '../store/audit/log.ts';
import type { CostLedger } from '../store/cost-ledger.ts';
import type { Family } from '../store/telemetry/families.ts';
import type { WebCache } from '../store/web-cache.ts';
import type { Catalogue } from '../tools/catalogue.ts';
import type { PackageSettings } from '../tools/package/settings.ts';
import type { Method, Params } from '../wire/protocol/messages.ts';
import type { Secrets } from './secrets/secrets.ts';

type Keys = Readonly<Record<string, z.ZodType>>;

/** What settings are made with. */
export interface SettingSources {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly stateDir: string;
  readonly limits: Limits;
  /** A path as the config file means it: relative to the file, or `~/` for the home directory. */
  toPath(path: string): string;
  /** A built-in policy by its name, or the absolute path of a policy file. */
  toPolicy(nameOrPath: string): string;
  /** The real path of a folder that programs may see. Throws ConfigError for other paths. */
  toShownFolder(path: string): string;
  /** The real path of a workspace of the daemon. Throws an Error for other paths. */
  toWorkspace(path: string): string;
}

/** What a capability may use of the daemon. */
export interface DaemonParts {
  /** Ends with the daemon what is added to it. */
  readonly parts: AsyncDisposableStack;
  readonly stateDir: string;
  readonly home: string;
  /** XDG's config folder of the person. */
  readonly configHome: string;
  readonly limits: Limits;
  readonly powers: Powers;
  /** Environment variables of each command. */
  readonly environment: Readonly<Record<string, string>>;
  readonly outgoing?: OutgoingProxy;
  readonly packages: PackageSettings;
  readonly secrets: Secrets;
  readonly sandbox: Sandbox;
  readonly egress: Egress;
  readonly hosts: Hosts;
  readonly masks: HostMasks;
  readonly doors: HostDoors;
  readonly catalogue: Catalogue;
  readonly auditLog: AuditLog;
  readonly ledger: CostLedger;
  readonly webCache: WebCache;
  redact<T>(value: T): T;
  /** The daemon's policy at this moment. */
  basePolicy(): Policy;
  /** The path rules of a call's policy. */
  viewOf(of: Pick<Call, 'policy' | 'principal' | 'sessionId' | 'workspace' | 'root'>): PathView;
  /** Why commands must never see a folder of the machine; undefined if they may. */
  outsideProblem(path: string): string | undefined;
}

/** The sender of a request, as far as a capability may know it. */
export interface Asker {
  readonly role: 'agent' | 'operator';
  readonly principal: string;
  /** Present for the session of a sub-agent. */
  readonly delegation?: object | undefined;
}

/** What a capability adds to a daemon that runs. */
export interface Running {
  readonly runners?: Runners;
  /** What reaches servers of git with the keys in agents of the person. */
  readonly keyAgents?: KeyAgents;
  readonly methods?: { readonly [M in Method]?: (asker: Asker, params: Params<M>) => unknown };
  /** Members of the answer to `status`. */
  status?(role: Asker['role']): object;
  metrics?(): Family[];
  /** Processes that run calls. */
  hosts?(): HostStatus[];
  /** Asks the services of others whether they work; the status says it then. Never rejects. */
  checkHealth?(): Promise<void>;
  readonly setUpOf?: ValidateParts['setUpOf'];
  /** Ends what runs for a session. */
  endSession?(sessionId: string): void;
  /** Ends what was started under a policy that has changed. */
  endStale?(): void;
}

/** Folders of a capability whose programs are for commands; absolute paths. */
interface ForCommands {
  /** The folders that commands see read-only. */
  readonly seen: readonly string[];
  /** Folders that the hosts of commands see, for sandboxes that show a part of them. */
  readonly ofHosts?: readonly string[];
  /** The one of them that is on PATH; absent for folders without programs for it. */
  readonly programs?: string;
  /** Makes the folders; a daemon does so before its first sandbox. */
  make(): void;
}

/** A capability with its settings. */
export interface Configured {
  readonly forCommands?: ForCommands | undefined;
  /** What `ringfence config show` prints, by key. */
  readonly shown: Readonly<Record<string, unknown>>;
  start(daemon: DaemonParts): Running;
}

export interface Capability {
  /** The keys that it adds to config.yaml, with their descriptions for docs/configuration.md. */
  readonly keys: Keys;
  /** Reads its settings from a file that was checked with the keys. Creates nothing. Throws an Error that names the problem. */
  configure(file: Readonly<Record<string, unknown>>, sources: SettingSources): Configured;
}

interface Definition<K extends Keys, Settings> {
  readonly keys: K;
  settings(file: z.output<z.ZodObject<K>>, sources: SettingSources): Settings;
  shown?(settings: Settings): Readonly<Record<string, unknown>>;
  forCommands?(stateDir: string): ForCommands;
  start(settings: Settings, daemon: DaemonParts): Running;
}

export const defineCapability = <K extends Keys, Settings>(it: Definition<K, Settings>): Capability => ({
  keys: it.keys,
  configure(file, sources) {
    const settings = it.settings(file as z.output<z.ZodObject<K>>, sources);
    return {
      forCommands: it.forCommands?.(sources.stateDir),
      shown: it.shown?.(settings) ?? {},
      start: (daemon) => it.start(settings, daemon),
    };
  },
});

/** A capability without settings. */
export const capabilityOf = (
  start: (daemon: DaemonParts) => Running,
  more: Pick<Definition<Keys, unknown>, 'forCommands'> = {},
): Capability =>
  defineCapability({ ...more, keys: {}, settings: () => undefined, start: (_, daemon) => start(daemon) });

/** A gauge of how many there are in each state. */
export function gaugeByState(name: string, help: string, all: readonly { readonly state: string }[]): Family {
  const byState = [...Map.groupBy(all, ({ state }) => state)];
  return {
    name,
    type: 'gauge',
    help,
    samples: byState.map(([state, { length: value }]) => ({ labels: { state }, value })),
  };
}
