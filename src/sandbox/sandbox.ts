/**
 * Tests what confinement this machine can give, and launches confined processes.
 * Fails closed: a tier whose level was not proven is refused, never run with less.
 */

import type { ChildProcess } from 'node:child_process';
import { existsSync } from 'node:fs';
import type { HostTier } from '../base/call.ts';
import { ToolError } from '../base/errors.ts';
import { NATIVE_PROGRAMS, nativeProgram } from '../base/native-programs.ts';
import type { Powers } from '../base/powers.ts';
import { type BrowserRequest, startBrowser } from './browser-launch.ts';
import { COMMAND_SECCOMP_FD, HOST_HOMES, HOST_PREVIEWS, HOST_SECCOMP_FD } from './bubblewrap.ts';
import { type Cgroups, type HostGroup, openCgroups, trialArgs } from './cgroup/cgroup.ts';
import type { CgroupVersion } from './cgroup/files.ts';
import { inGroup } from './cgroup/host-group.ts';
import type { ConfinedProcess } from './confined-process.ts';
import { identity } from './entry-rights.ts';
import { findProgram } from './find-program.ts';
import { assertInPlace } from './host-binds.ts';
import { type Launch, readOnlyDevices, toLaunch } from './launch.ts';
import {
  BARE_ENVIRONMENT,
  commandFilters,
  createLauncher,
  type Launcher,
  type LauncherOptions,
  type Stdio,
} from './launcher.ts';
import { type Masks, NO_MASKS } from './masks.ts';
import { openFilesFor } from './open-files.ts';
import { OuterNamespaces } from './outer-namespace.ts';
import { probeArgs } from './proof/probe.ts';
import { allProbes, gapsOf, notHeld, type ProbeOutcomes } from './proof/probes.ts';
import { prove } from './proof/proof.ts';
import { type ProviderRequest, startProvider } from './provider-launch.ts';
import { isSupported } from './syscalls.ts';

/**
 * A: with cgroups, and nothing of the machine can be changed. B: without one of these. C: namespaces but no file
 * confinement. See docs/protocol.md, `hello`.
 */
export type ConfinementLevel = 'A' | 'B' | 'C' | 'none';

export interface Confinement {
  readonly level: ConfinementLevel;
  readonly backend: 'bubblewrap' | 'none';
  readonly cgroup: CgroupVersion | 'none';
  /** What this machine lacks: `cgroup`, `root-workspace`, `execute-host`, `counters` (bounds by user namespace), or the id of a probe that did not hold. */
  readonly missing: readonly string[];
  /** Why the level is what it is and how to raise it, for people; empty where sandboxes nest. */
  readonly advice: string;
  /** Result of each probe of probes.ts, by its id. */
  readonly probes: ProbeOutcomes;
  /** Whether an execute host can itself be confined, which takes a nested sandbox. */
  readonly nests: boolean;
}

/** The part that clients see. */
export const toShown = ({ level, backend, cgroup, missing }: Confinement) => ({
  level,
  backend,
  cgroup,
  missing,
  // Masks hide other processes' sockets from a command, and there are none without a sandbox.
  unixSockets: backend === 'none' ? 'none' : 'own',
});

/** What the probes at the start showed, and how to mend what they did not. */
export const wallsOf = ({ probes }: Confinement) => ({ probes, gaps: gapsOf(probes) });

/** What a host sees beside the workspace, and does not see in it. */
export interface HostSees {
  readonly masks?: Masks;
  /** Folders outside that commands read, beside the toolchains; absolute. */
  readonly folders?: readonly string[] | undefined;
}

export interface Sandbox extends AsyncDisposable {
  readonly confinement: Confinement;
  /** Throws SANDBOX_UNAVAILABLE, with the remedy, if this machine can't confine the tier. */
  assertHolds(tier: HostTier): void;
  /**
   * Starts `program` as the tier host; `stdio` is for descriptors 0 to 3, and 4 if its commands may connect. An execute
   * host has no masks; its commands have.
   */
  startHost(
    tier: HostTier,
    workspace: string,
    program: readonly string[],
    stdio: Stdio,
    sees?: HostSees,
  ): ConfinedProcess;
  /** Starts `program` with the network and nothing else; `stdio` is for descriptors 0 to 4. */
  startEgress(program: readonly string[], stdio: Stdio): ChildProcess;
  /**
   * Starts `program` as the host of an external provider, with its server below it; `stdio` is for descriptors 0 to 3, and
   * 4 if it may connect; `egressToken` identifies it to the egress proxy. Throws SANDBOX_UNAVAILABLE.
   */
  startProvider(request: ProviderRequest, stdio: Stdio): ConfinedProcess;
  /**
   * Starts a browser host, with its Chromium below it; `stdio` is for descriptors 0 to 4, of which 4 is its channel to the
   * egress proxy. Throws SANDBOX_UNAVAILABLE.
   */
  startBrowser(request: BrowserRequest, stdio: Stdio): ConfinedProcess;
  /**
   * bwrap arguments, without masks, and the seccomp program of this workspace's commands. They are valid in its execute
   * host or, if `isDirect`, in this process.
   */
  commandSandbox(
    workspace: string,
    options?: Pick<HostSees, 'folders'> & { readonly isDirect?: boolean },
  ): CommandParts;
}

export interface CommandParts {
  readonly bwrap: string;
  readonly args: string[];
  /** The same for programs of images. */
  readonly imageArgs: string[];
  readonly filter: Uint8Array;
  /** The seccomp filter of commands that may have Unix sockets of their own. */
  readonly ownSocketsFilter: Uint8Array;
  /** Absolute paths that are read-only whatever the policy says; paths outside the workspace do not matter. */
  readonly guarded: readonly string[];
  /** Hard limit of open files of its commands. */
  readonly openFiles: number;
  /** Folder that holds the homes of its commands; if absent, each command has one in memory. */
  readonly homesFolder?: string;
  /** Folder that holds the previews of its commands; there are none if absent. */
  readonly previewsFolder?: string;
}

/** Lowest level at which a tier runs by default; docs/policy.md lets an operator lower it once policies can. */
const LEVEL_NEEDED: Record<HostTier, ConfinementLevel> = {
  read_only: 'B',
  write: 'B',
  execute: 'B',
  external_api: 'B',
  isolate: 'B',
};
const RANK: Record<ConfinementLevel, number> = { none: 0, C: 1, B: 2, A: 3 };

export interface SandboxOptions extends LauncherOptions {
  readonly workspaces: readonly string[];
  readonly platform: string;
  /** Version of Ringfence: another version proves again. */
  readonly version: string;
  /** The only version of control groups to use, or none; the best one if absent. */
  readonly cgroup?: CgroupVersion | 'none' | undefined;
}

/** Tests the machine's confinement once and remembers the result. Call it before anything else starts a process: see `openCgroups`. */
export async function createSandbox(options: SandboxOptions, powers: Powers): Promise<Sandbox> {
  const bwrap = findProgram('bwrap');
  const why = whyNot(options, bwrap);
  if (bwrap === undefined || why !== undefined) return unavailable(why ?? INSTALL_BUBBLEWRAP);
  const { stateDir, limits, cgroup: force } = options;
  const opened = openCgroups({ stateDir, limits, force }, powers);
  using parts = new DisposableStack();
  const outer = parts.use(new OuterNamespaces(powers));
  const first = identity(options.workspaces[0] as string);
  outer.prepare(first);
  const launcher = createLauncher(bwrap, options, { outer, powers });
  const { confinement: tried, cgroups } = await tryAll(launcher, opened, options, powers);
  const isBounded = outer.joinOf(first).length > 0;
  const confinement = isBounded ? tried : { ...tried, missing: [...tried.missing, 'counters'] };
  const owned = parts.move();
  const start = (launch: Launch, stdio: Stdio, filters: readonly string[]): ConfinedProcess => ({
    child: launcher.start(launch, stdio, filters),
    assertInPlace: (pid) => launch.binds && assertInPlace(launch.binds, pid),
  });
  const isCounted = cgroups !== undefined;
  const filters = commandFilters(options.arch, isCounted);
  return {
    confinement,
    assertHolds: (tier) => assertHolds(confinement, tier),
    startHost(tier, workspace, program, stdio, { masks = NO_MASKS, folders } = {}) {
      assertHolds(confinement, tier);
      const { host, nesting } = launcher.filters;
      return inGroup(cgroups, { runsCommands: tier === 'execute', ...identity(workspace) }, (group) => {
        const fds = { seccompFd: stdio.length, filesFd: stdio.length + 1 };
        const asked = { tier, workspace, masks, folders, program, nests: confinement.nests, ...fds };
        const launch = launcher.host({ ...asked, group });
        const started = start(launch, stdio, [tier === 'execute' ? nesting : host]);
        return { ...started, groups: group?.commands };
      });
    },
    startEgress(program, stdio) {
      assertHolds(confinement, 'execute');
      return launcher.start(launcher.egress(program), stdio, [launcher.filters.command]);
    },
    startProvider(request, stdio) {
      assertHolds(confinement, 'external_api');
      const { filters: files, devices } = launcher;
      const filter = request.hasSockets ? files.sockets : files.command;
      const startIt = (launch: Launch, all: Stdio) => start(launch, all, [filter]);
      return startProvider(request, stdio, { ...options, bwrap, cgroups, start: startIt, devices });
    },
    startBrowser(request, stdio) {
      assertHolds(confinement, 'external_api');
      const { filters: files, devices } = launcher;
      const startIt = (launch: Launch, all: Stdio) => start(launch, all, [files.browser]);
      return startBrowser(request, stdio, { ...options, bwrap, cgroups, start: startIt, devices });
    },
    commandSandbox: (workspace, { isDirect = false, folders } = {}) => ({
      bwrap,
      ...argsOf(launcher, workspace, { isNested: confinement.nests && !isDirect, isCounted, folders }),
      filter: filters.none,
      ownSocketsFilter: filters.own,
      guarded: options.runtime.guarded,
      openFiles: openFilesFor(identity(workspace).uid, options.limits),
      ...homesPart(options.homesOf?.(workspace), confinement.nests && !isDirect),
      ...previewsPart(options.previewsOf?.(workspace), confinement.nests && !isDirect),
    }),
    [Symbol.asyncDispose]: async () => {
      owned.dispose();
      await cgroups?.[Symbol.asyncDispose]();
    },
  };
}

/** Arguments for commands, and for programs of images. */
const argsOf = (launcher: Launcher, workspace: string, options: Parameters<Launcher['commandArgs']>[1]) => ({
  args: launcher.commandArgs(workspace, options),
  imageArgs: launcher.commandArgs(workspace, { ...options, isImage: true }),
});

/** Path of the homes as seen by the process that starts the commands: a confined host, or one that sees the machine. */
const homesPart = (homesFolder: string | undefined, isNested: boolean) =>
  homesFolder === undefined ? {} : { homesFolder: isNested ? HOST_HOMES : homesFolder };

const previewsPart = (previewsFolder: string | undefined, isNested: boolean) =>
  previewsFolder === undefined ? {} : { previewsFolder: isNested ? HOST_PREVIEWS : previewsFolder };

/** Tests with control groups, if there are any; they are used only if one was seen to limit a command. */
async function tryAll(
  launcher: Launcher,
  cgroups: Cgroups | undefined,
  options: SandboxOptions,
  powers: Powers,
): Promise<{ confinement: Confinement; cgroups?: Cgroups }> {
  if (!cgroups) return { confinement: await tryOut(launcher, undefined, options, powers) };
  const confinement = await tryOut(launcher, cgroups, options, powers);
  if (confinement.cgroup !== 'none') return { confinement, cgroups };
  await cgroups[Symbol.asyncDispose]();
  // The control group alone may have failed.
  return { confinement: await tryOut(launcher, undefined, options, powers) };
}

/** Launches of a probe in the exact profile of commands: within an execute host's sandbox, and by itself. */
function trialsOf(launcher: Launcher, workspace: string) {
  const nestedFd = HOST_SECCOMP_FD + 1;
  const { bwrap, devices } = launcher;
  const who = identity(workspace);
  const nested = (group?: HostGroup) => {
    const args = launcher.commandArgs(workspace, { isNested: true, seccompFd: nestedFd });
    const program = [...trialArgs(group), bwrap, ...args, ...probeArgs(nestedFd + 1)];
    const asked = { tier: 'execute', workspace, program, masks: NO_MASKS, nests: true } as const;
    return launcher.host({ ...asked, seccompFd: HOST_SECCOMP_FD, filesFd: nestedFd + 2, group });
  };
  const direct = (group?: HostGroup) => {
    const args = launcher.commandArgs(workspace, { isNested: false });
    const command = [...trialArgs(group), bwrap, ...args, ...probeArgs(COMMAND_SECCOMP_FD + 1)];
    return toLaunch([...readOnlyDevices(who.shownId, devices), ...command], { ...who, group });
  };
  return { who, nested, direct };
}

/** Probes both; the better result counts. */
async function tryOut(
  launcher: Launcher,
  cgroups: Cgroups | undefined,
  options: SandboxOptions,
  powers: Powers,
): Promise<Confinement> {
  const { filters, bwrap } = launcher;
  const workspace = options.workspaces[0] as string;
  const { who, nested, direct } = trialsOf(launcher, workspace);
  const pipes = ['pipe', 'pipe', 'pipe'] as const;
  const program = nativeProgram('probe');
  const filter = Buffer.from(commandFilters(options.arch, false).none).toString('base64');
  const start = (launchIn: typeof nested, stdio: Stdio, files: string[]) =>
    inGroup(cgroups, { runsCommands: true, ...who }, (group) => ({
      child: launcher.start(launchIn(group), stdio, files),
    })).child;
  const { within, without } = await prove(
    {
      ...options,
      bwrap,
      workspace,
      // bubblewrap sets PWD for what it starts, another bubblewrap included, and so does a shell before it, which may also set SHLVL.
      variables: [...Object.keys(BARE_ENVIRONMENT), 'PWD', 'OLDPWD', 'SHLVL', '_'],
      groups: cgroups?.base,
      within: {
        launch: { ...nested(), filter },
        start: () => start(nested, [...pipes, 'ignore'], [filters.nesting, filters.command, program]),
      },
      without: {
        launch: { ...direct(), filter },
        start: () => start(direct, [...pipes], [filters.command, program]),
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
  if (best.ok) return { ...base, level: isWhole ? 'A' : 'B', missing, advice: within.reason };
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

const INSTALL_BUBBLEWRAP =
  'Install bubblewrap (Debian, Ubuntu: apt-get install bubblewrap; Fedora: dnf install bubblewrap) and start the daemon again.';

/** Why this machine can have no sandbox at all, and what would help; undefined if it is worth testing. */
function whyNot({ platform, arch }: SandboxOptions, bwrap: string | undefined): string | undefined {
  if (platform !== 'linux') return `Confinement is not available on ${platform} yet; run Ringfence on Linux.`;
  if (!isSupported(arch)) return `The seccomp filter has no table for ${arch}; run Ringfence on x86_64 or arm64.`;
  if (bwrap === undefined) return INSTALL_BUBBLEWRAP;
  const missing = NATIVE_PROGRAMS.map(nativeProgram).filter((it) => !existsSync(it));
  if (missing.length === 0) return undefined;
  return `${missing.join(' and ')} can't be found. In a checkout, run script/bootstrap; else install a package of Ringfence that was built for ${arch}.`;
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
    startEgress: () => refuse('execute'),
    startProvider: () => refuse('external_api'),
    startBrowser: () => refuse('external_api'),
    commandSandbox: () => refuse('execute'),
    [Symbol.asyncDispose]: async () => {},
  };
}
