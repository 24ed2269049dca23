/**
 * What confinement this machine can give, found out by trying, and the launch of a confined process.
 * Fails closed: a tier whose level was not proven is refused, never run weaker.
 */
import type { ChildProcess, StdioOptions } from 'node:child_process';
import { closeSync, openSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { HostTier } from '../call.ts';
import { ToolError } from '../errors.ts';
import type { Limits } from '../limits.ts';
import type { Powers } from '../powers.ts';
import {
  COMMAND_SECCOMP_FD,
  commandProfile,
  EGRESS_LISTENERS_FD,
  egressProfile,
  executeHostProfile,
  findProgram,
  HOST_SECCOMP_FD,
  hostProfile,
  type Runtime,
  toBwrapArgs,
} from './bubblewrap.ts';
import { type Cgroups, type CommandPlace, type HostGroup, openCgroups, trialArgs } from './cgroup.ts';
import { type CgroupVersion, foldersOf } from './cgroup-files.ts';
import { inGroup } from './host-group.ts';
import {
  devicesTable,
  dying,
  freshPidNamespace,
  identity,
  type Launch,
  readOnlyDevices,
  rlimits,
  toLaunch,
} from './launch.ts';
import { type Masks, NO_MASKS, onDisk } from './masks.ts';
import { probeArgs } from './probe.ts';
import { allProbes, notHeld, type ProbeOutcomes } from './probes.ts';
import { prove } from './proof.ts';
import { type ProviderRequest, startProvider } from './provider-launch.ts';
import { seccompFilter } from './seccomp.ts';

/** A: with cgroups. B: without. C: namespaces but no file confinement. docs/protocol.md, `hello`. */
export type Level = 'A' | 'B' | 'C' | 'none';

export interface Confinement {
  readonly level: Level;
  readonly backend: 'bubblewrap' | 'none';
  readonly cgroup: CgroupVersion | 'none';
  /** What a better machine would have: `cgroup`, `root-workspace`, `execute-host`, or the id of a probe that did not hold. */
  readonly missing: readonly string[];
  /** Why the level is what it is and what would raise it, for people; empty at level B and better. */
  readonly advice: string;
  /** What each probe of probes.ts found, by its id. */
  readonly probes: ProbeOutcomes;
  /** Whether an execute host can itself be confined, which takes a sandbox within a sandbox. */
  readonly nests: boolean;
}

export interface Sandbox extends AsyncDisposable {
  readonly confinement: Confinement;
  /** Throws SANDBOX_UNAVAILABLE when this machine can't hold the tier, with the fix. */
  assertHolds(tier: HostTier): void;
  /**
   * Starts `program` as the tier host; `stdio` is for descriptors 0 to 3, and to 4 where its commands may connect. An execute
   * host has no masks, its commands have.
   */
  startHost(tier: HostTier, workspace: string, program: readonly string[], stdio: Stdio, masks?: Masks): ChildProcess;
  /** Where an execute host that was started makes the control groups of its commands; undefined where there are none. */
  commandPlaceOf(host: ChildProcess): CommandPlace | undefined;
  /** Starts `program` with the network and nothing else; `stdio` is for descriptors 0 to 4. */
  startEgress(program: readonly string[], stdio: Stdio): ChildProcess;
  /**
   * Starts `program` as the host of an external provider, with its server below it; `stdio` is for descriptors 0 to 3, and to
   * 4 where it may connect, as the egress proxy knows it by `egressToken`. Throws SANDBOX_UNAVAILABLE.
   */
  startProvider(request: ProviderRequest, stdio: Stdio): ChildProcess;
  /**
   * bwrap's arguments for a command of this workspace, to which its masks are added; its seccomp program. They hold in its execute
   * host, or, where `isDirect`, in this process.
   */
  commandSandbox(workspace: string, options?: { readonly isDirect: boolean }): CommandParts;
}

export interface CommandParts {
  readonly bwrap: string;
  readonly args: string[];
  readonly filter: Uint8Array;
  /** Absolute paths that are read-only whatever the policy says; those outside the workspace do not matter. */
  readonly guarded: readonly string[];
}

/** From descriptor 0 on. */
export type Stdio = Extract<StdioOptions, readonly unknown[]>;

/** Lowest level at which a tier runs, by default; docs/policy.md lets an operator lower it once policies can. */
const LEVEL_NEEDED: Record<HostTier, Level> = {
  read_only: 'B',
  write: 'B',
  execute: 'B',
  external_api: 'B',
  isolate: 'B',
};
const RANK: Record<Level, number> = { none: 0, C: 1, B: 2, A: 3 };

/** It writes nothing. */
const EGRESS_TMP_BYTES = 1024 * 1024;

/** The whole environment of a host or a launcher: nothing of the daemon's own. */
export const BARE_ENVIRONMENT: Readonly<Record<string, string>> = {
  PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
  HOME: '/tmp',
  LANG: 'C.UTF-8',
};

export interface SandboxOptions {
  readonly runtime: Runtime;
  /** Folder of the daemon's own, which no sandbox holds; seccomp programs are kept there. */
  readonly stateDir: string;
  readonly workspaces: readonly string[];
  /** Folders outside of /usr that commands see, read-only. */
  readonly toolchains?: readonly string[];
  /** Where write hosts of a workspace keep what is needed to undo their calls; nowhere when absent. */
  spoolOf?(workspace: string): string | undefined;
  readonly limits: Limits;
  readonly arch: string;
  readonly platform: string;
  /** Of Ringfence: another one proves anew. */
  readonly version: string;
  /** The only version of control groups to be used, or none; the best one when absent. */
  readonly cgroup?: CgroupVersion | 'none';
}

/** Tries the machine's confinement once and remembers what it gave. */
export async function createSandbox(options: SandboxOptions, powers: Powers): Promise<Sandbox> {
  const bwrap = findProgram('bwrap');
  if (options.platform !== 'linux' || bwrap === undefined || options.arch !== 'x64') {
    return unavailable(whyNot(options.platform, options.arch));
  }
  const launcher = createLauncher(bwrap, options, powers);
  const { confinement, cgroups } = await tryAll(launcher, options, powers);
  const places = new WeakMap<ChildProcess, CommandPlace>();
  return {
    confinement,
    assertHolds: (tier) => assertHolds(confinement, tier),
    startHost(tier, workspace, program, stdio, masks = NO_MASKS) {
      assertHolds(confinement, tier);
      const { host, nesting } = launcher.filters;
      return inGroup(cgroups, { runsCommands: tier === 'execute', ...identity(workspace) }, (group) => {
        const { nests } = confinement;
        const seccompFd = stdio.length;
        const launch = launcher.host({ tier, workspace, masks, program, nests, seccompFd, ...(group && { group }) });
        const child = launcher.start(launch, stdio, [tier === 'execute' ? nesting : host]);
        if (group?.commands) places.set(child, group.commands);
        return child;
      });
    },
    startEgress(program, stdio) {
      assertHolds(confinement, 'execute');
      return launcher.start(launcher.egress(program), stdio, [launcher.filters.command]);
    },
    startProvider(request, stdio) {
      assertHolds(confinement, 'external_api');
      const start = (launch: Launch, all: Stdio) => launcher.start(launch, all, [launcher.filters.command]);
      return startProvider(request, stdio, { ...options, bwrap, cgroups, start, devices: launcher.devices });
    },
    commandPlaceOf: (host) => places.get(host),
    commandSandbox: (workspace, { isDirect } = { isDirect: false }) => ({
      bwrap,
      args: launcher.commandArgs(workspace, { isNested: confinement.nests && !isDirect }),
      filter: launcher.commandFilter,
      guarded: options.runtime.guarded,
    }),
    [Symbol.asyncDispose]: async () => cgroups?.[Symbol.asyncDispose](),
  };
}

interface HostRequest {
  readonly tier: HostTier;
  readonly workspace: string;
  readonly program: readonly string[];
  readonly masks: Masks;
  /** Whether a sandbox within a sandbox works here. */
  readonly nests: boolean;
  readonly group?: HostGroup;
  /** Descriptor of its filter. */
  readonly seccompFd: number;
}

/** Starts confined processes, whether or not the confinement was proven. */
interface Launcher {
  readonly bwrap: string;
  /** Files with the seccomp programs. */
  readonly filters: { readonly host: string; readonly nesting: string; readonly command: string };
  readonly commandFilter: Uint8Array;
  /** File for `readOnlyDevices`. */
  readonly devices: string;
  host(request: HostRequest): Launch;
  egress(program: readonly string[]): Launch;
  commandArgs(workspace: string, options: { readonly isNested: boolean; readonly seccompFd?: number }): string[];
  /** `filters` become the descriptors after those of `stdio`. */
  start(launch: Launch, stdio: Stdio, filters: readonly string[]): ChildProcess;
}

function createLauncher(bwrap: string, options: SandboxOptions, powers: Powers): Launcher {
  const { runtime, limits, stateDir, arch, toolchains = [] } = options;
  // Commands may use sockets inside their own network namespace; Unix sockets in the workspace may be somebody else's.
  const commandFilter = seccompFilter({ arch, sockets: ['inet'] });
  const filters = {
    host: toFile('seccomp-host.bpf', seccompFilter({ arch, sockets: [] })),
    // Commands are held to their host's filter as well as to their own.
    nesting: toFile('seccomp-nesting.bpf', seccompFilter({ arch, sockets: ['inet'], allowNamespaces: true })),
    command: toFile('seccomp-command.bpf', commandFilter),
  };
  const devices = toFile('devices.fstab', Buffer.from(devicesTable()));
  function toFile(name: string, program: Buffer): string {
    const path = join(stateDir, name);
    writeFileSync(path, program, { mode: 0o600 });
    return path;
  }
  const request = (workspace: string) => {
    const { shownId } = identity(workspace);
    return {
      runtime,
      workspace,
      toolchains,
      tmpBytes: limits.commandTmpBytes,
      ...(shownId !== undefined && { shownId }),
    };
  };
  return {
    bwrap,
    filters,
    devices,
    commandFilter,
    host({ tier, workspace, program, masks, nests, seccompFd, group }) {
      const { shownId, ...ids } = identity(workspace);
      const who = { ...ids, ...(group && { group }) };
      const bounds = [...rlimits(limits), ...readOnlyDevices(shownId, devices)];
      if (tier === 'execute' && !nests) return toLaunch([...bounds, ...dying(), ...program], who);
      const groups = group?.commands ? [...foldersOf(group.commands.group), ...group.commands.home] : [];
      // No other host holds it, and no command.
      const spool = tier === 'write' ? options.spoolOf?.(workspace) : undefined;
      const more = { groups, ...(spool !== undefined && { spool }) };
      const asked = { ...request(workspace), masks: onDisk(masks, workspace), ...more };
      const profile = tier === 'execute' ? executeHostProfile(asked) : hostProfile(tier, asked);
      const ownProc = profile.proc === 'bound' ? freshPidNamespace(limits) : [];
      const ownBwrap = [bwrap, ...toBwrapArgs({ ...profile, seccompFd }), '--', ...program];
      return toLaunch([...bounds, ...ownProc, ...ownBwrap], who);
    },
    egress(program) {
      const { shownId, ...ids } = identity(stateDir);
      const profile = egressProfile({ runtime, tmpBytes: EGRESS_TMP_BYTES, ...(shownId !== undefined && { shownId }) });
      const variables = { NODE_CHANNEL_FD: EGRESS_LISTENERS_FD, UV_THREADPOOL_SIZE: limits.egressThreads };
      const env = Object.entries(variables).flatMap(([name, value]) => ['--setenv', name, `${value}`]);
      const bounds = [...rlimits(limits), ...readOnlyDevices(shownId, devices)];
      return toLaunch([...bounds, bwrap, ...toBwrapArgs(profile), ...env, '--', ...program], ids);
    },
    commandArgs: (workspace, { isNested, seccompFd = COMMAND_SECCOMP_FD }) =>
      toBwrapArgs({ ...commandProfile({ ...request(workspace), isNested }), seccompFd }),
    start({ command, args, uid, gid }, stdio, files) {
      const fds = files.map((file) => openSync(file, 'r'));
      try {
        const ids = uid === undefined ? {} : { uid, gid };
        return powers.spawn(command, args, { stdio: [...stdio, ...fds], env: BARE_ENVIRONMENT, cwd: '/', ...ids });
      } finally {
        for (const fd of fds) closeSync(fd);
      }
    },
  };
}

/** Tried with control groups, where there are any; they are used only where a command was seen to be limited by one. */
async function tryAll(
  launcher: Launcher,
  options: SandboxOptions,
  powers: Powers,
): Promise<{ confinement: Confinement; cgroups?: Cgroups }> {
  const { stateDir, limits, cgroup: force } = options;
  const cgroups = openCgroups({ stateDir, limits, ...(force && { force }) }, powers);
  if (!cgroups) return { confinement: await tryOut(launcher, undefined, options, powers) };
  const confinement = await tryOut(launcher, cgroups, options, powers);
  if (confinement.cgroup !== 'none') return { confinement, cgroups };
  await cgroups[Symbol.asyncDispose]();
  // What did not hold may be the group alone.
  return { confinement: await tryOut(launcher, undefined, options, powers) };
}

/** Probes the very profile that commands get, within an execute host's and without; the better one counts. */
async function tryOut(
  launcher: Launcher,
  cgroups: Cgroups | undefined,
  options: SandboxOptions,
  powers: Powers,
): Promise<Confinement> {
  const workspace = options.workspaces[0] as string;
  const nestedFd = HOST_SECCOMP_FD + 1;
  const { filters, bwrap } = launcher;
  const who = identity(workspace);
  const nested = (group?: HostGroup) => {
    const command = [
      bwrap,
      ...launcher.commandArgs(workspace, { isNested: true, seccompFd: nestedFd }),
      ...probeArgs(nestedFd + 1),
    ];
    const program = [...trialArgs(group), ...command];
    return launcher.host({
      tier: 'execute',
      workspace,
      program,
      masks: NO_MASKS,
      nests: true,
      seccompFd: HOST_SECCOMP_FD,
      ...(group && { group }),
    });
  };
  const direct = (group?: HostGroup) => {
    const command = [
      bwrap,
      ...launcher.commandArgs(workspace, { isNested: false }),
      ...probeArgs(COMMAND_SECCOMP_FD + 1),
    ];
    const program = [...readOnlyDevices(who.shownId, launcher.devices), ...trialArgs(group), ...command];
    return toLaunch(program, { ...who, ...(group && { group }) });
  };
  const pipes = ['pipe', 'pipe', 'pipe'] as const;
  const filter = Buffer.from(launcher.commandFilter).toString('base64');
  const start = (launchIn: typeof nested, stdio: Stdio, files: string[]) =>
    inGroup(cgroups, { runsCommands: true, ...who }, (group) => launcher.start(launchIn(group), stdio, files));
  const { within, without } = await prove(
    {
      ...options,
      bwrap,
      // bubblewrap tells what it starts, another bubblewrap included, where it stands, and so does a shell before it, which may also count itself.
      variables: [...Object.keys(BARE_ENVIRONMENT), 'PWD', 'OLDPWD', 'SHLVL', '_'],
      groups: cgroups?.base,
      within: {
        launch: { ...nested(), filter },
        start: (file) => start(nested, [...pipes, 'ignore'], [filters.nesting, filters.command, file]),
      },
      without: {
        launch: { ...direct(), filter },
        start: (file) => start(direct, [...pipes], [filters.command, file]),
      },
    },
    powers,
  );
  const best = within.ok ? within : without;
  const isLimited = cgroups !== undefined && best.probes.memory === 'ok';
  const rootOwned = who.shownId !== undefined;
  const missing = [
    ...(isLimited ? [] : ['cgroup']),
    ...(rootOwned ? ['root-workspace'] : []),
    ...(best.probes['shared-nodes'] === 'ok' ? [] : ['shared-nodes']),
    ...(within.ok ? [] : ['execute-host']),
  ];
  const cgroup = isLimited ? cgroups.version : 'none';
  const base = { backend: 'bubblewrap', cgroup, nests: within.ok, probes: best.probes } as const;
  const isWhole = isLimited && best.probes['shared-nodes'] === 'ok';
  if (best.ok) return { ...base, level: isWhole ? 'A' : 'B', missing, advice: '' };
  return { ...base, level: 'none', missing: [...missing, ...notHeld(best.probes)], advice: best.reason };
}

function assertHolds({ level, advice, missing }: Confinement, tier: HostTier): void {
  const needed = LEVEL_NEEDED[tier];
  if (RANK[level] >= RANK[needed]) return;
  throw new ToolError(
    'SANDBOX_UNAVAILABLE',
    `tier ${tier} needs confinement level ${needed}, this machine has ${level}`,
    {
      suggestion: advice,
      details: { needed, level, missing },
    },
  );
}

function whyNot(platform: string, arch: string): string {
  if (platform !== 'linux') return `Confinement is not available on ${platform} yet; run Ringfence on Linux.`;
  if (arch !== 'x64') return `The seccomp filter has no table for ${arch} yet; run Ringfence on x86_64.`;
  return 'Install bubblewrap (Debian, Ubuntu: apt-get install bubblewrap; Fedora: dnf install bubblewrap) and start the daemon again.';
}

function unavailable(advice: string): Sandbox {
  const level = findProgram('unshare') === undefined ? 'none' : 'C';
  const missing = ['bubblewrap', 'cgroup'];
  const probes = allProbes('unknown');
  const confinement: Confinement = { level, backend: 'none', cgroup: 'none', missing, advice, nests: false, probes };
  const refuse = (tier: HostTier): never => {
    assertHolds(confinement, tier);
    throw new ToolError('SANDBOX_UNAVAILABLE', 'there is no sandbox on this machine', { suggestion: advice });
  };
  return {
    confinement,
    assertHolds: refuse,
    startHost: (tier) => refuse(tier),
    commandPlaceOf: () => undefined,
    startEgress: () => refuse('execute'),
    startProvider: () => refuse('external_api'),
    commandSandbox: () => refuse('execute'),
    [Symbol.asyncDispose]: async () => {},
  };
}
