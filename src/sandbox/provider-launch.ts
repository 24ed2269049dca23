/** Starts an external provider: its host and, below that, its server, in one sandbox without a network of its own. */
import type { Limits } from '../base/limits.ts';
import { PROVIDER_FDS, type ProviderView, providerProfile, type Runtime, toBwrapArgs } from './bubblewrap.ts';
import type { Cgroups } from './cgroup/cgroup.ts';
import { inGroup } from './cgroup/host-group.ts';
import type { ConfinedProcess } from './confined-process.ts';
import { doorAt, NO_DOOR } from './door.ts';
import { identity, reachable } from './entry-rights.ts';
import { bindsOf } from './host-binds.ts';
import { type Launch, readOnlyDevices, rlimits, toLaunch } from './launch.ts';
import type { Stdio } from './launcher.ts';
import { NO_MASKS, onDisk } from './masks.ts';
import { openFilesFor } from './open-files.ts';

export interface ProviderRequest {
  readonly program: readonly string[];
  readonly view: ProviderView;
  readonly bounds: { readonly memoryMb: number; readonly tasks: number };
  /** Token that identifies it to the egress proxy, if it may connect. */
  readonly egressToken?: string | undefined;
  /** Whether it may use Unix sockets. */
  readonly hasSockets?: boolean;
}

export interface ProviderParts {
  readonly bwrap: string;
  readonly runtime: Runtime;
  readonly limits: Limits;
  readonly stateDir: string;
  readonly toolchains?: readonly string[];
  readonly cgroups: Cgroups | undefined;
  /** File for `readOnlyDevices`. */
  readonly devices: string;
  /** Starts it with the commands' seccomp filter as the descriptor that follows `stdio`. */
  start(launch: Launch, stdio: Stdio): ConfinedProcess;
}

/** Starts a provider as the owner of its workspace or, without one, of the state directory. Throws SANDBOX_UNAVAILABLE. */
export function startProvider(request: ProviderRequest, stdio: Stdio, parts: ProviderParts): ConfinedProcess {
  const { program, view, bounds, egressToken } = request;
  const { bwrap, runtime, limits, stateDir, toolchains = [], cgroups, devices, start } = parts;
  const owned = view.workspace?.path ?? stateDir;
  const who = identity(owned);
  return inGroup(cgroups, { runsCommands: false, bounds, ...who }, (group) => {
    const { shownId, ...ids } = who;
    const door = egressToken === undefined ? NO_DOOR : doorAt(PROVIDER_FDS);
    const all: Stdio = egressToken === undefined ? stdio : [...stdio, 'pipe'];
    const masks = view.workspace ? onDisk(view.masks, view.workspace.path) : NO_MASKS;
    const base = { runtime, toolchains: reachable(toolchains, owned), tmpBytes: limits.commandTmpBytes, shownId };
    const profile = providerProfile(base, { ...view, masks }, all.length);
    const inside = [...door.words, bwrap, ...toBwrapArgs(profile), '--', ...program];
    const openFilesMax = Math.min(limits.openFilesMax, openFilesFor(who.uid, limits));
    const bounds = [...rlimits({ ...limits, openFilesMax }), ...readOnlyDevices(shownId, devices)];
    const binds = view.workspace && bindsOf(view.workspace.path, profile, who);
    const launch = toLaunch([...bounds, ...inside], { ...ids, group });
    const started = start({ ...launch, binds }, all);
    if (egressToken !== undefined) door.give(started.child, egressToken);
    return started;
  });
}
