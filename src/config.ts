/**
 * What the daemon and the CLI are told: flags over environment over config file over defaults.
 * Architecture invariant: the only reader of the environment.
 */
import { existsSync, readFileSync, realpathSync, statSync } from 'node:fs';
import { dirname, isAbsolute, join, resolve } from 'node:path';
import { parse } from 'yaml';
import * as z from 'zod';
import { toCommandEnvironment, toolchainProblem } from './command-environment.ts';
import { type Limits, limitsSchema } from './limits.ts';
import { isInside } from './paths.ts';
import { type Environment, findPlaces, makeStateDir, type Places } from './places.ts';
import { type ProviderSettings, providersSchema, toProviderSettings } from './providers/settings.ts';

/** Something in flags, environment or config file that can't be used, in words for who wrote it. */
export class ConfigError extends Error {}

/** A name that is also a file's: `<state dir>/tokens/<name>.token`. */
const principalName = z
  .string()
  .regex(/^[a-z0-9][a-z0-9-]{0,31}$/, 'takes up to 32 lower-case letters, digits and dashes');

const configFile = z.strictObject({
  workspaces: z.array(z.string().min(1)).max(64).optional(),
  policy: z.string().min(1).optional(),
  listen: z.string().optional(),
  listenHttp: z.string().optional(),
  limits: limitsSchema.partial().optional(),
  toolchains: z.array(z.string().min(1).max(4096)).max(16).optional(),
  cgroup: z.enum(['v2', 'v1', 'none']).optional(),
  providers: providersSchema.optional(),
  cache: z.strictObject({ strategy: z.enum(['lru', 'lfu', 'ttl', 'size']) }).optional(),
  principals: z
    .record(principalName, z.strictObject({ policy: z.string().min(1).max(128).optional() }))
    .refine((it) => Object.keys(it).length <= 64, 'must name at most 64 principals')
    .optional(),
});

export interface ServeFlags {
  readonly socket?: string | undefined;
  readonly state?: string | undefined;
  readonly listen?: string | undefined;
  readonly 'listen-http'?: string | undefined;
  readonly policy?: string | undefined;
  readonly workspace?: readonly string[] | undefined;
}

interface Address {
  readonly host: string;
  readonly port: number;
}

export interface Config {
  readonly places: Places;
  /** Real paths; at least one. */
  readonly workspaces: readonly string[];
  /** Built-in name or path. */
  readonly policy: string;
  readonly listen?: Address;
  /** Where MCP is served over HTTP. */
  readonly listenHttp?: Address;
  readonly limits: Limits;
  /** Variables of each command, before its caller's. */
  readonly environment: Readonly<Record<string, string>>;
  /** Folders outside of /usr that commands see read-only, and find programs in; absolute, real. */
  readonly toolchains: readonly string[];
  /** The only version of control groups to be used; the best one when absent. */
  readonly cgroup?: 'v2' | 'v1' | 'none';
  /** What makes room for a result that is to be kept: the one unused for longest, used least, that expires first, or the largest. */
  readonly cacheStrategy: 'lru' | 'lfu' | 'ttl' | 'size';
  /** Agents with a token of their own, and the policy (built-in name, or absolute path) that narrows each. */
  readonly principals: readonly { readonly name: string; readonly policy?: string }[];
  /** External tool providers. What they hold of the environment is secret, and is logged nowhere. */
  readonly providers: readonly ProviderSettings[];
}

/** Everything a daemon needs to know. Throws ConfigError. */
export function loadConfig(flags: ServeFlags, env: Environment, cwd: string): Config {
  const places = findPlaces(flags, env);
  const file = readConfigFile(places.configFile);
  const toPath = (path: string) => pathInFile(path, places);
  const named = flags.workspace?.length ? flags.workspace : (file.workspaces?.map(toPath) ?? [cwd]);
  const listen = flags.listen ?? env.RINGFENCE_LISTEN ?? file.listen;
  const listenHttp = flags['listen-http'] ?? env.RINGFENCE_LISTEN_HTTP ?? file.listenHttp;
  makeStateDir(places.stateDir);
  const policy = flags.policy ?? env.RINGFENCE_POLICY;
  const policyPath =
    policy === undefined ? toPolicy(file.policy ?? 'default', toPath) : toPolicy(policy, (path) => resolve(cwd, path));
  const workspaces = named.map((it) => checkWorkspace(resolve(cwd, it), { places, policy: policyPath }));
  const toolchains = (file.toolchains ?? []).map((it) => toShownFolder(it, { as: 'toolchain', places, workspaces }));
  return Object.freeze({
    ...{ toolchains, environment: toCommandEnvironment(env, toolchains) },
    places,
    workspaces,
    policy: policyPath,
    ...(listen !== undefined && { listen: toAddress('listen', listen) }),
    ...(listenHttp !== undefined && { listenHttp: toAddress('listen-http', listenHttp) }),
    limits: Object.freeze(limitsSchema.parse(file.limits ?? {}, { jitless: true })),
    ...(file.cgroup && { cgroup: file.cgroup }),
    cacheStrategy: file.cache?.strategy ?? 'lru',
    providers: toProviders(file.providers ?? {}, { places, workspaces, env }),
    principals: Object.entries(file.principals ?? {}).map(([name, { policy: narrowedBy }]) => ({
      name,
      ...(narrowedBy !== undefined && { policy: toPolicy(narrowedBy, toPath) }),
    })),
  });
}

/** The config file as it is; empty where there is none. Throws ConfigError. */
export function readConfigFile(path: string): z.output<typeof configFile> {
  if (!existsSync(path)) return {};
  let plain: unknown;
  try {
    plain = parse(readFileSync(path, 'utf8'));
  } catch (error) {
    throw new ConfigError(`${path}: ${(error as Error).message}`);
  }
  const parsed = configFile.safeParse(plain ?? {}, { jitless: true });
  if (parsed.success) return parsed.data;
  throw new ConfigError(`${path}: ${z.prettifyError(parsed.error)}`);
}

/** The real path of a directory that may be a workspace beside all that this config names. Throws ConfigError. */
export function checkWorkspace(
  path: string,
  { places, policy, toolchains = [] }: Pick<Config, 'places'> & Partial<Pick<Config, 'policy' | 'toolchains'>>,
): string {
  const workspace = toWorkspace(path, places);
  const { stateDir, socket } = places;
  for (const ours of [stateDir, dirname(socket), ...(policy !== undefined && isAbsolute(policy) ? [policy] : [])])
    if (isInside(workspace, existsSync(ours) ? realpathSync(ours) : ours))
      throw new ConfigError(
        `${ours} lies in workspace ${workspace}, where agents could change it; put it elsewhere (--state, --socket, --policy)`,
      );
  const toolchain = toolchains.find((it) => isInside(workspace, it) || isInside(it, workspace));
  if (toolchain !== undefined)
    throw new ConfigError(`workspace ${workspace} holds, or lies in, the toolchain ${toolchain}, which commands trust`);
  return workspace;
}

/** The real path of a directory that may be a workspace. Throws ConfigError for `/`, the home directory, the state directory and what holds them. */
function toWorkspace(path: string, { home, stateDir }: Places): string {
  if (!existsSync(path) || !statSync(path).isDirectory()) throw new ConfigError(`workspace ${path} is not a directory`);
  const real = realpathSync(path);
  const what =
    real === '/'
      ? 'the root directory'
      : existsSync(home) && isInside(real, realpathSync(home))
        ? 'the home directory'
        : undefined;
  if (what) throw new ConfigError(`${what} is never a workspace; name a project's folder with --workspace DIR`);
  if (isInside(stateDir, real)) throw new ConfigError(`${real} is Ringfence's state; it is never a workspace`);
  return real;
}

interface ShownFolder {
  /** What it is called in the config. */
  readonly as: string;
  readonly places: Places;
  readonly workspaces: readonly string[];
  readonly covered?: readonly string[];
}

/** The real path of a folder that programs get to see. Throws ConfigError for what is not there, or would show them what they may not see. */
function toShownFolder(named: string, { as, places, workspaces, covered }: ShownFolder): string {
  const { home, stateDir, socket } = places;
  const closed = [...workspaces, realpathSync(stateDir), dirname(socket)];
  const path = named.startsWith('~/') ? join(home, named.slice(2)) : named;
  if (!isAbsolute(path) || !existsSync(path))
    throw new ConfigError(`${as} ${named} is not an absolute path that exists`);
  const real = realpathSync(path);
  const problem = toolchainProblem(real, {
    home: existsSync(home) ? realpathSync(home) : home,
    closed,
    ...(covered && { covered }),
  });
  if (problem !== undefined) throw new ConfigError(`${as} ${named} ${problem}; programs may not see that`);
  return real;
}

/** Throws ConfigError. */
function toProviders(
  given: z.output<typeof providersSchema>,
  { places, workspaces, env }: { places: Places; workspaces: readonly string[]; env: Environment },
): ProviderSettings[] {
  try {
    return toProviderSettings(given, {
      env,
      toShownFolder: (path) => toShownFolder(path, { as: 'folder', places, workspaces, covered: [] }),
      toPath: (path) => pathInFile(path, places),
      toWorkspace(path) {
        const real = existsSync(path) ? realpathSync(path) : path;
        if (workspaces.includes(real)) return real;
        throw new Error(`${path} is not one of the daemon's workspaces: ${workspaces.join(', ')}`);
      },
    });
  } catch (error) {
    throw new ConfigError(`${places.configFile}: ${(error as Error).message}`);
  }
}

/** A name without dot or slash is a built-in's; anything else is a file. */
const toPolicy = (nameOrPath: string, toPath: (path: string) => string): string =>
  /^[a-z-]+$/.test(nameOrPath) ? nameOrPath : toPath(nameOrPath);

/** One that the config file names: beside it, or of the home directory; wherever the daemon is started from. */
const pathInFile = (path: string, { home, configFile }: Places): string =>
  path.startsWith('~/') ? join(home, path.slice(2)) : resolve(dirname(configFile), path);

/** `[HOST:]PORT`. */
function toAddress(flag: string, text: string): Address {
  const match = /^(?:(.+):)?(\d{1,5})$/.exec(text);
  const port = Number(match?.[2]);
  if (!match || port > 65_535)
    throw new ConfigError(`--${flag} takes [HOST:]PORT with a port up to 65535, not ${text}`);
  return { host: match[1]?.replace(/^\[(.*)\]$/, '$1') ?? '127.0.0.1', port };
}
