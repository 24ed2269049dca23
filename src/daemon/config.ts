/**
 * The settings of the daemon and the CLI: flags override the environment, which overrides the config file, which
 * overrides defaults. Architecture invariant: the only reader of the environment.
 */
import { existsSync, readFileSync, realpathSync, statSync } from 'node:fs';
import { dirname, isAbsolute, join, resolve } from 'node:path';
import * as z from 'zod';
import { isCaseSensitive, noCase } from '../base/case.ts';
import { defaultLimits, type Limits } from '../base/limits.ts';
import { isInside } from '../base/paths.ts';
import { FLEET_POLICY, fleetPolicyFile } from '../fleet/policy/policy-path.ts';
import { type FleetSettings, fleetSchema, toFleetSettings } from '../fleet/workspaces/settings.ts';
import { type Mode, modesSchema, toModes } from '../policy/modes.ts';
import { PolicyError } from '../policy/policy-error.ts';
import { type PositionedYaml, readYaml } from '../policy/positioned-yaml.ts';
import { complaintsOf } from '../policy/schema/schema-message.ts';
import type { OutgoingProxy } from '../sandbox/egress/outgoing-proxy.ts';
import type { Configured, SettingSources } from '../services/capability.ts';
import { type Registries, registriesSchema, registryVariables } from '../services/registries/registries.ts';
import { type SecretSettings, secretsSchema, toSecretSettings } from '../services/secrets/settings.ts';
import { type TraceSettings, telemetrySchema, toTraceSettings } from '../store/telemetry/settings.ts';
import { type PackageSettings, packagesSchema, toPackageSettings } from '../tools/package/settings.ts';
import { capabilities } from './capabilities.ts';
import { certificatesNamedIn, pathsKept, toCommandEnvironment, toolchainProblem } from './command-environment.ts';
import { startFolder } from './config/added.ts';
import { type Address, toAddress } from './config/address.ts';
import { ConfigError } from './config/config-error.ts';
import { internalLimitSettings, limitSettings, toLimits } from './config/limits.ts';
import { chosen, type Origin } from './config/origin.ts';
import { toOutgoing } from './config/outgoing.ts';
import { principalName } from './config/principal-name.ts';
import { type Project, projectsSchema, toProjects } from './config/projects.ts';
import { type Environment, findUserDirs, makeStateDir, type UserDirs } from './user-dirs.ts';

export { ConfigError } from './config/config-error.ts';
export type { Origin } from './config/origin.ts';

/** The keys of config.yaml but those of capabilities. */
const coreSchema = z.strictObject({
  workspaces: z
    .array(z.string().min(1))
    .max(64)
    .optional()
    .describe('Folders in which agents may work, subfolders included. Default: the folder in which `serve` starts.'),
  policy: z
    .string()
    .min(1)
    .optional()
    .describe(
      'The policy that decides calls: a built-in name, a file outside every workspace, or `fleet` for the one that the operator of its fleet has signed. Default: `default`.',
    ),
  listen: z
    .string()
    .optional()
    .describe('Loopback `[HOST:]PORT` for WebSocket clients; port 0 picks a free port. Default: none.'),
  listenHttp: z.string().optional().describe('Loopback `[HOST:]PORT` for MCP over HTTP. Default: none.'),
  idleExitMinutes: z
    .number()
    .min(0)
    .max(10_080)
    .optional()
    .describe(
      'Minutes without a session after which a daemon ends that a call or an MCP client started; 0 for never. A service and `serve` go on. Default: 30.',
    ),
  toolchains: z
    .array(z.string().min(1).max(4096))
    .max(16)
    .optional()
    .describe(
      'Folders outside `/usr` that commands see read-only and whose programs they can run; `ringfence init` finds those of your PATH. Those of `ringfence toolchain add` come by themselves. Default: none.',
    ),
  projects: projectsSchema
    .optional()
    .describe(
      'Programs and hosts of one project: its toolchains come first on PATH there, and commands connect to its hosts as after a yes for the project, where the policy has a person asked. `ringfence init` proposes both.',
    ),
  cgroup: z
    .enum(['v2', 'v1', 'none'])
    .optional()
    .describe('Use only this version of control groups. Default: the best one that works.'),
  cache: z
    .strictObject({
      strategy: z
        .enum(['lru', 'lfu', 'ttl', 'size'])
        .describe(
          'Which result to drop when the cache is full: least recently used, least often used, first to expire, or largest.',
        ),
    })
    .optional()
    .describe('Cache for results of tools that only read. Default: `{ strategy: lru }`.'),
  principals: z
    .record(
      principalName,
      z.strictObject({
        policy: z
          .string()
          .min(1)
          .max(128)
          .optional()
          .describe('A policy that narrows what the agent may do: a built-in name or a file.'),
      }),
    )
    .refine((it) => Object.keys(it).length <= 64, 'must name at most 64 principals')
    .optional()
    .describe('Agents with their own token (`<state>/tokens/NAME.token`), by name. Default: none.'),
  secrets: secretsSchema
    .optional()
    .describe('Programs that give secrets, by the names of these: [secrets](how-to/secrets.md). Default: none.'),
  modes: modesSchema
    .optional()
    .describe('Modes beside `read`, `plan` and `code`, by name: [modes](how-to/modes.md). Default: none.'),
  registries: registriesSchema
    .optional()
    .describe('Registries that want a key, for commands: [packages](how-to/packages.md). Default: none.'),
  packages: packagesSchema.optional().describe('What `package_install` takes: [packages](how-to/packages.md).'),
  fleet: fleetSchema.optional().describe('Workspaces that a fleet may have this node make: [fleet](how-to/fleet.md).'),
  telemetry: telemetrySchema
    .optional()
    .describe('What is sent about calls: [observability](how-to/observability.md). Default: nothing.'),
  limits: limitSettings.optional().describe('Bounds that differ from the defaults below.'),
  internalLimits: internalLimitSettings
    .optional()
    .describe('Bounds for tests of Ringfence itself; any of them may go at any time.'),
});

/** The schema of config.yaml. `npm run gen` writes docs/configuration.md from these descriptions. */
export const configSchema = coreSchema.extend(Object.assign({}, ...capabilities.map((it) => it.keys)));

/** A file that was checked; each capability knows the values of its own keys. */
export type ConfigFile = z.output<typeof coreSchema> & Readonly<Record<string, unknown>>;

export interface ServeFlags {
  readonly socket?: string | undefined;
  readonly state?: string | undefined;
  readonly listen?: string | undefined;
  readonly 'listen-http'?: string | undefined;
  readonly policy?: string | undefined;
  readonly workspace?: readonly string[] | undefined;
}

export interface Config {
  readonly dirs: UserDirs;
  /** Real paths of the workspaces; at least one. */
  readonly workspaces: readonly string[];
  /** Name of a built-in policy, or a path. */
  readonly policy: string;
  /** The source of the policy setting, and the config file if it is that. */
  readonly policyOrigin: { readonly from: Origin; readonly configFile?: string };
  /** The sources of settings that are not the defaults, by their keys. */
  readonly origins: Readonly<Record<string, Origin>>;
  readonly listen?: Address;
  /** Address at which MCP is served over HTTP. */
  readonly listenHttp?: Address;
  readonly limits: Limits;
  /** Environment variables of each command; the caller's come after. */
  readonly environment: Readonly<Record<string, string>>;
  /** Folders outside of /usr that commands see read-only and find programs in; absolute and real. */
  readonly toolchains: readonly string[];
  /** Files with certificates of authorities that the environment names. */
  readonly certificates: readonly string[];
  /** The proxy of the network outside, as the environment names it. */
  readonly outgoing?: OutgoingProxy;
  readonly projects: readonly Project[];
  /** The only version of control groups to use; the best available if absent. */
  readonly cgroup?: 'v2' | 'v1' | 'none' | undefined;
  /** Which cached result is dropped to make room: the least recently used, the least often used, the first to expire, or the largest. */
  readonly cacheStrategy: 'lru' | 'lfu' | 'ttl' | 'size';
  /** Minutes without a session after which a daemon ends that a client started by itself; 0 for never. */
  readonly idleExitMinutes: number;
  /** Agents with a token of their own, and the policy (built-in name, or absolute path) that narrows each. */
  readonly principals: readonly { readonly name: string; readonly policy?: string }[];
  /** Places of secrets besides the state directory. */
  readonly secrets: SecretSettings;
  readonly packages: PackageSettings;
  readonly registries: Registries;
  /** What a fleet may have this node fetch; it makes no workspaces if absent. */
  readonly fleet?: FleetSettings | undefined;
  /** The capabilities with their settings, which may hold secrets. */
  readonly capabilities: readonly Configured[];
  /** Modes by name, beside the built-in ones; policies by built-in name or absolute path. */
  readonly modes: Readonly<Record<string, Mode>>;
  /** The collector of traces; undefined if calls are not traced. */
  readonly traces?: TraceSettings | undefined;
}

/** Loads the daemon's settings. Throws ConfigError. */
export function loadConfig(flags: ServeFlags, env: Environment, cwd: string): Config {
  const dirs = findUserDirs(flags, env);
  makeStateDir(dirs.stateDir);
  return toConfig(readConfigFile(dirs.configFile), { flags, env, cwd, dirs });
}

interface ConfigSources {
  readonly flags: ServeFlags;
  readonly env: Environment;
  readonly cwd: string;
  readonly dirs: UserDirs;
}

/** Merges a file's settings with flags and environment. Creates nothing. Throws ConfigError. */
export function toConfig(file: ConfigFile, { flags, env, cwd, dirs }: ConfigSources): Config {
  const toPath = (path: string) => pathInFile(path, dirs);
  const named = flags.workspace?.length ? flags.workspace : (file.workspaces?.map(toPath) ?? [startFolder(cwd, dirs)]);
  const { listen, listenHttp, policy } = settingsOf(file, { flags, env });
  const policyPath =
    policy.value === FLEET_POLICY
      ? fleetPolicyFile(dirs.stateDir)
      : toPolicy(policy.value ?? 'default', policy.from === 'file' ? toPath : (path) => resolve(cwd, path));
  const workspaces = named.map((it) => checkWorkspace(resolve(cwd, it), { dirs, policy: policyPath }));
  const asked = file.telemetry?.traces;
  const traces = asked && namingFile(dirs, () => toTraceSettings(asked, { env, toPath }));
  const limits = toLimits(file.internalLimits, file.limits);
  const placing = file.fleet;
  const closed = [...workspaces, realOf(dirs.stateDir)];
  const fleet =
    placing && namingFile(dirs, () => toFleetSettings(placing, { folder: realOf(toPath(placing.folder)), closed }));
  const toToolchain = (it: string) => toShownFolder(it, { as: 'toolchain', dirs, workspaces });
  const ofPerson = (file.toolchains ?? []).map(toToolchain);
  const configured = toCapabilities(file, { dirs, workspaces, env, limits });
  const forCommands = configured.flatMap((it) => it.forCommands ?? []);
  const projects = toProjects(file.projects ?? [], { toPath, toToolchain });
  return Object.freeze({
    ...toOutgoing(env, dirs, limits),
    toolchains: [...ofPerson, ...projects.flatMap((it) => it.toolchains), ...forCommands.flatMap((it) => it.seen)],
    projects,
    certificates: certificatesNamedIn(env),
    environment: {
      ...toCommandEnvironment(env, [...ofPerson, ...forCommands.flatMap((it) => it.programs ?? [])]),
      ...registryVariables(file.registries ?? {}),
    },
    dirs,
    workspaces,
    policy: policyPath,
    origins: originsOf(file, { policy, listen, listenHttp }, { flags, env }),
    policyOrigin: { from: policy.from, ...(policy.from === 'file' && { configFile: dirs.configFile }) },
    ...(listen.value !== undefined && { listen: toAddress('listen', listen.value) }),
    ...(listenHttp.value !== undefined && { listenHttp: toAddress('listen-http', listenHttp.value) }),
    limits,
    cgroup: file.cgroup,
    cacheStrategy: file.cache?.strategy ?? 'lru',
    idleExitMinutes: file.idleExitMinutes ?? IDLE_EXIT_MINUTES,
    traces,
    fleet,
    packages: toPackageSettings(file.packages),
    registries: file.registries ?? {},
    secrets: toSecretSettings(file.secrets ?? {}, env),
    modes: toModes(file.modes ?? {}, (it) => toPolicy(it, toPath)),
    capabilities: configured,
    principals: Object.entries(file.principals ?? {}).map(([name, { policy: narrowedBy }]) => ({
      name,
      ...(narrowedBy !== undefined && { policy: toPolicy(narrowedBy, toPath) }),
    })),
  });
}

/** The settings that flags and environment can override. */
export function settingsOf(file: ConfigFile, { flags, env }: Pick<ConfigSources, 'flags' | 'env'>) {
  return {
    policy: chosen({ flag: flags.policy, environment: env.RINGFENCE_POLICY, file: file.policy }),
    listen: chosen({ flag: flags.listen, environment: env.RINGFENCE_LISTEN, file: file.listen }),
    listenHttp: chosen({
      flag: flags['listen-http'],
      environment: env.RINGFENCE_LISTEN_HTTP,
      file: file.listenHttp,
    }),
  };
}

function originsOf(
  file: ConfigFile,
  set: ReturnType<typeof settingsOf>,
  { flags, env }: Pick<ConfigSources, 'flags' | 'env'>,
): Record<string, Origin> {
  const { RINGFENCE_CONFIG, RINGFENCE_STATE, RINGFENCE_SOCKET } = env;
  const all = {
    ...Object.fromEntries(Object.entries(file).map(([key, value]) => [key, chosen({ file: value }).from])),
    file: chosen({ environment: RINGFENCE_CONFIG }).from,
    state: chosen({ flag: flags.state, environment: RINGFENCE_STATE }).from,
    socket: chosen({ flag: flags.socket, environment: RINGFENCE_SOCKET }).from,
    workspaces: chosen<unknown>({ flag: flags.workspace?.[0], file: file.workspaces }).from,
    ...Object.fromEntries(Object.entries(set).map(([key, { from }]) => [key, from])),
  };
  return Object.fromEntries(Object.entries(all).filter(([, from]) => from !== 'default'));
}

const IDLE_EXIT_MINUTES = 30;

/** Reads the config file; empty if there is none. Throws ConfigError. */
export function readConfigFile(path: string): ConfigFile {
  if (!existsSync(path)) return {};
  const source = readSource(path);
  const parsed = configSchema.safeParse(source.value ?? {}, { jitless: true });
  if (parsed.success) return parsed.data;
  throw new ConfigError(complaintsOf(parsed.error.issues, source, configSchema).join('\n'));
}

function readSource(path: string): PositionedYaml {
  try {
    return readYaml(readFileSync(path, 'utf8'), path, defaultLimits);
  } catch (error) {
    throw new ConfigError(
      error instanceof PolicyError ? error.problems.join('\n') : `${path}: ${(error as Error).message}`,
    );
  }
}

/** The real path of a directory that may be a workspace with this config's other settings. Throws ConfigError. */
export function checkWorkspace(
  path: string,
  { dirs, policy, toolchains = [] }: Pick<Config, 'dirs'> & Partial<Pick<Config, 'policy' | 'toolchains'>>,
): string {
  const workspace = toWorkspace(path, dirs);
  const { stateDir, socket } = dirs;
  for (const ours of [stateDir, dirname(socket), ...(policy !== undefined && isAbsolute(policy) ? [policy] : [])])
    if (isInside(workspace, realOf(ours)))
      throw new ConfigError(
        `${ours} lies in workspace ${workspace}, where agents could change it; choose another path with --state, --socket or --policy`,
      );
  const toolchain = toolchains.find((it) => isInside(workspace, it) || isInside(it, workspace));
  if (toolchain !== undefined)
    throw new ConfigError(
      `workspace ${workspace} overlaps the toolchain ${toolchain}, where agents could change programs that commands run; move one of them`,
    );
  return workspace;
}

/**
 * The real path of a directory that may be a workspace. Throws ConfigError for `/`, the home directory, the state
 * directory and any parent of these.
 */
function toWorkspace(path: string, { home, stateDir }: UserDirs): string {
  if (!existsSync(path) || !statSync(path).isDirectory()) throw new ConfigError(`workspace ${path} is not a directory`);
  const real = realpathSync(path);
  const what =
    real === '/'
      ? 'the root directory'
      : existsSync(home) && isInside(real, realpathSync(home))
        ? 'the home directory'
        : undefined;
  if (what) throw new ConfigError(`${what} can't be a workspace; name the folder of a project with --workspace DIR`);
  if (isInside(stateDir, real))
    throw new ConfigError(`${real} belongs to the state directory of Ringfence and can't be a workspace`);
  if (!isCaseSensitive(real)) throw new ConfigError(noCase(real));
  return real;
}

/** `as` is the name of the setting in messages. */
type ShownFolder = Pick<Config, 'dirs' | 'workspaces'> & { readonly as: string; readonly covered?: readonly string[] };

/** The real path of a folder that programs will see. Throws ConfigError if it is missing, or would show them what they must not see. */
function toShownFolder(named: string, { as, dirs, workspaces, covered }: ShownFolder): string {
  const path = named.startsWith('~/') ? join(dirs.home, named.slice(2)) : named;
  if (!isAbsolute(path) || !existsSync(path))
    throw new ConfigError(`${as} ${named} is not an absolute path that exists`);
  const real = realpathSync(path);
  const problem = toolchainProblem(real, { ...pathsKept(dirs, workspaces), ...(covered && { covered }) });
  if (problem !== undefined) throw new ConfigError(`${as} ${named} ${problem}; programs must not see it`);
  return real;
}

function toCapabilities(
  file: ConfigFile,
  { dirs, workspaces, ...own }: Pick<Config, 'dirs' | 'workspaces'> & Pick<SettingSources, 'env' | 'limits'>,
): Configured[] {
  const toPath = (path: string) => pathInFile(path, dirs);
  const sources: SettingSources = {
    ...own,
    stateDir: dirs.stateDir,
    toPath,
    toPolicy: (it) => toPolicy(it, toPath),
    toShownFolder: (path) => toShownFolder(path, { as: 'folder', dirs, workspaces, covered: [] }),
    toWorkspace(path) {
      const real = realOf(path);
      if (workspaces.includes(real)) return real;
      throw new Error(`${path} is not one of the daemon's workspaces: ${workspaces.join(', ')}`);
    },
  };
  return namingFile(dirs, () => capabilities.map((it) => it.configure(file, sources)));
}

/** The real path of what may be missing. */
const realOf = (path: string): string => (existsSync(path) ? realpathSync(path) : path);

/** Names the config file in what `make` throws. */
function namingFile<T>({ configFile }: UserDirs, make: () => T): T {
  try {
    return make();
  } catch (error) {
    throw new ConfigError(`${configFile}: ${(error as Error).message}`);
  }
}

/** A name of letters and dashes is a built-in policy; anything else is a file. */
const toPolicy = (nameOrPath: string, toPath: (path: string) => string): string =>
  /^[a-z-]+$/.test(nameOrPath) ? nameOrPath : toPath(nameOrPath);

/** Resolves a path in the config file: relative to the file, or `~/` for the home directory; independent of the daemon's directory. */
const pathInFile = (path: string, { home, configFile }: UserDirs): string =>
  path.startsWith('~/') ? join(home, path.slice(2)) : resolve(dirname(configFile), path);
