/**
 * Starts a browser host: the process that drives a Chromium, and the Chromium below it, in one sandbox without workspace
 * and without a network of its own. Chromium confines its renderers by itself, for which it needs namespaces and chroot.
 */
import type { Limits } from '../base/limits.ts';
import { PROVIDER_FDS, type Runtime, toBwrapArgs } from './bubblewrap.ts';
import type { Cgroups } from './cgroup/cgroup.ts';
import { inGroup } from './cgroup/host-group.ts';
import type { Chromium } from './chromium.ts';
import type { ConfinedProcess } from './confined-process.ts';
import { doorAt } from './door.ts';
import { identity } from './entry-rights.ts';
import { type Launch, readOnlyDevices, rlimits, toLaunch } from './launch.ts';
import type { Stdio } from './launcher.ts';
import type { Profile } from './mount.ts';

export interface BrowserRequest {
  /** Node and its arguments for the browser host. */
  readonly program: readonly string[];
  readonly chromium: Chromium;
  /** Absolute path; the browser runs as its owner, and sees nothing of it. */
  readonly workspace: string;
  /** Identifies the browser to the egress proxy. */
  readonly egressToken: string;
}

export interface BrowserParts {
  readonly bwrap: string;
  readonly runtime: Runtime;
  readonly limits: Limits;
  readonly cgroups: Cgroups | undefined;
  /** File for `readOnlyDevices`. */
  readonly devices: string;
  /** Starts it with the browsers' seccomp filter as the descriptor that follows `stdio`. */
  start(launch: Launch, stdio: Stdio): ConfinedProcess;
}

/** Starts a browser host. Throws SANDBOX_UNAVAILABLE. */
export function startBrowser(request: BrowserRequest, stdio: Stdio, parts: BrowserParts): ConfinedProcess {
  const { program, chromium, workspace, egressToken } = request;
  const { bwrap, limits, cgroups, devices, start } = parts;
  const { browserMemoryMb: memoryMb, browserTasksMax: tasks } = limits;
  const who = identity(workspace);
  return inGroup(cgroups, { runsCommands: false, bounds: { memoryMb, tasks }, ...who }, (group) => {
    const { shownId, ...ids } = who;
    const door = doorAt(PROVIDER_FDS);
    const all: Stdio = [...stdio, 'pipe'];
    const profile = browserProfile(chromium, parts, { shownId, seccompFd: all.length });
    const inside = [...door.words, bwrap, ...toBwrapArgs(profile), '--', ...program];
    const bounds = [...rlimits(limits, { dataMb: memoryMb }), ...readOnlyDevices(shownId, devices)];
    const started = start(toLaunch([...bounds, ...inside], { ...ids, group }), all);
    door.give(started.child, egressToken);
    return started;
  });
}

function browserProfile(
  { folder }: Chromium,
  { runtime, limits }: BrowserParts,
  { shownId, seccompFd }: { shownId: number | undefined; seccompFd: number },
): Profile {
  return {
    mounts: [
      // The host may run as the real root, who could change kernel settings here.
      { kind: 'ro', path: '/proc/sys' },
      { kind: 'tmpfs', at: '/tmp', bytes: limits.browserTmpBytes },
      // Without the index each browser would read all fonts of the machine first.
      { kind: 'ro-try', path: '/var/cache/fontconfig' },
      ...(folder === undefined ? [] : [{ kind: 'ro', path: folder } as const]),
      ...runtime.needed.map((path) => ({ kind: 'ro', path }) as const),
    ],
    shownId,
    names: runtime.etc,
    nests: true,
    proc: 'own',
    network: 'none',
    // bubblewrap's own init reaps what the browser leaves behind.
    asInit: false,
    seccompFd,
  };
}
