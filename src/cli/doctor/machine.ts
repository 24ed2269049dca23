/**
 * Checks of the machine for `ringfence doctor`. Facts are read in one function and judged in another, so that tests can judge other
 * machines.
 */
import { execFileSync } from 'node:child_process';
import { accessSync, constants, existsSync, readdirSync } from 'node:fs';
import { release } from 'node:os';
import { join } from 'node:path';
import { textAt } from '../../base/quiet/reads.ts';
import { NODE_MIN } from '../../base/runtime.ts';
import { findProgram } from '../../sandbox/find-program.ts';
import { USERNS_FIX } from '../../sandbox/proof/probe.ts';
import { isSupported } from '../../sandbox/syscalls.ts';
import { distributionOf, installCommand, readUserns, type UsernsFacts } from './system.ts';

export interface DoctorFinding {
  readonly id: string;
  /** `problem` means that calls are refused, or that the daemon does not start. */
  readonly status: 'ok' | 'warning' | 'problem';
  readonly found: string;
  /** What to do about it; absent when ok. */
  readonly fix?: string;
}

type MakeFinding = (found: string, fix: string) => DoctorFinding;

/** Makes the findings of one check. */
export const findingsOf = (
  id: string,
): { ok(found: string): DoctorFinding; warning: MakeFinding; problem: MakeFinding } => ({
  ok: (found) => ({ id, status: 'ok', found }),
  warning: (found, fix) => ({ id, status: 'warning', found, fix }),
  problem: (found, fix) => ({ id, status: 'problem', found, fix }),
});

export interface MachineFacts {
  readonly node: { readonly version: string; readonly path: string };
  readonly platform: string;
  readonly arch: string;
  readonly kernel: string;
  readonly isRoot: boolean;
  /** Ids of the distribution, the nearest first, such as `ubuntu` and `debian`. */
  readonly distribution: readonly string[];
  /** Absent if bubblewrap is not installed. */
  readonly bwrap?: { readonly path: string; readonly version: string };
  readonly userns: UsernsFacts;
  readonly cgroup: {
    /** Controllers of the daemon's own v2 group, if it may create groups there. */
    readonly delegated?: readonly string[];
    readonly v2: boolean;
    /** Writable mounted v1 controllers. */
    readonly v1: readonly string[];
  };
  /** Paths of the programs that are used; undefined if missing. */
  readonly programs: Readonly<Record<string, string | undefined>>;
}

const CGROUP_ROOT = '/sys/fs/cgroup';

/** What each external program is used for. */
const PROGRAMS: Record<string, { readonly use: string; readonly package: string }> = {
  prlimit: { use: 'limits open files and core dumps of confined processes', package: 'util-linux' },
  setpriv: { use: 'ends confined processes when the daemon ends', package: 'util-linux' },
  unshare: { use: 'lets a daemon that runs as root confine commands', package: 'util-linux' },
  git: { use: 'is the first program that most agents run', package: 'git' },
  rg: { use: 'is the program that agents search with', package: 'ripgrep' },
};

/** Reads the facts of this machine without changing anything. */
export function readMachine(): MachineFacts {
  const path = findProgram('bwrap');
  return {
    node: { version: process.versions.node, path: process.execPath },
    platform: process.platform,
    arch: process.arch,
    kernel: release(),
    isRoot: process.getuid?.() === 0,
    distribution: distributionOf(textAt('/etc/os-release') ?? ''),
    ...(path !== undefined && { bwrap: { path, version: versionOf(path) } }),
    userns: readUserns(textAt),
    cgroup: readCgroup(),
    programs: Object.fromEntries(Object.keys(PROGRAMS).map((name) => [name, findProgram(name)])),
  };
}

function versionOf(bwrap: string): string {
  try {
    return /\d+(\.\d+)+/.exec(execFileSync(bwrap, ['--version'], { encoding: 'utf8', env: {} }))?.[0] ?? 'unknown';
  } catch {
    return 'unknown'; // The program can't be run, which another finding reports.
  }
}

function readCgroup(): MachineFacts['cgroup'] {
  const own = textAt('/proc/self/cgroup')
    ?.split('\n')
    .find((it) => it.startsWith('0::'))
    ?.slice(3);
  const isV2 = existsSync(join(CGROUP_ROOT, 'cgroup.controllers'));
  const v1 = !isV2 && existsSync(CGROUP_ROOT) ? readdirSync(CGROUP_ROOT) : [];
  const group = isV2 && own !== undefined ? join(CGROUP_ROOT, own) : undefined;
  return {
    v2: isV2,
    v1: ['memory', 'pids', 'cpuacct'].filter((it) => v1.includes(it) && isWritable(join(CGROUP_ROOT, it))),
    ...(group !== undefined &&
      isWritable(group) && {
        delegated: textAt(join(group, 'cgroup.controllers'))?.trim().split(' ').filter(Boolean) ?? [],
      }),
  };
}

function isWritable(path: string): boolean {
  try {
    accessSync(path, constants.W_OK);
    return true;
  } catch {
    return false;
  }
}

/** The oldest bubblewrap that knows --disable-userns. */
const BWRAP_MIN = '0.8.0';

const isOlder = (version: string, than: string): boolean => {
  const [a, b] = [version, than].map((it) => it.split('.').map(Number)) as [number[], number[]];
  const at = b.findIndex((it, i) => (a[i] ?? 0) !== it);
  return at >= 0 && (a[at] ?? 0) < (b[at] as number);
};

/** One finding for each check. Pure. */
export function judgeMachine(facts: MachineFacts): DoctorFinding[] {
  const { node, kernel, platform, arch } = facts;
  const ofNode = findingsOf('node');
  const nodeFound = `${node.version} (${node.path})`;
  const ofKernel = findingsOf('kernel');
  const programs = Object.entries(PROGRAMS).map(([name, it]) => {
    const { ok, warning } = findingsOf(name);
    const path = facts.programs[name];
    if (path !== undefined) return ok(path);
    return warning(`not found; this program ${it.use}`, installCommand(it.package, facts.distribution));
  });
  return [
    isOlder(node.version, NODE_MIN)
      ? ofNode.problem(nodeFound, `Use Node ${NODE_MIN} or newer.`)
      : ofNode.ok(nodeFound),
    platform === 'linux' && isSupported(arch)
      ? ofKernel.ok(`Linux ${kernel}, ${arch}`)
      : ofKernel.problem(`${platform} ${kernel}, ${arch}`, 'Run Ringfence on Linux, on x86_64 or arm64.'),
    judgeBwrap(facts),
    judgeUserNamespaces(facts),
    judgeCgroup(facts),
    ...programs,
  ];
}

function judgeBwrap({ bwrap, distribution }: MachineFacts): DoctorFinding {
  const { ok, problem } = findingsOf('bubblewrap');
  if (!bwrap) return problem('bwrap is not installed', installCommand('bubblewrap', distribution));
  const found = `${bwrap.version} (${bwrap.path})`;
  if (!isOlder(bwrap.version, BWRAP_MIN)) return ok(found);
  return problem(`${found}, older than ${BWRAP_MIN}`, `Install bubblewrap ${BWRAP_MIN} or newer.`);
}

/** Judges user namespaces as far as the settings tell. The probes show whether they suffice, since a restriction may have exceptions. */
function judgeUserNamespaces({ userns, isRoot }: MachineFacts): DoctorFinding {
  const { ok, warning, problem } = findingsOf('user-namespaces');
  if (userns.max === undefined)
    return problem('the kernel has no user namespaces', 'Run a kernel with CONFIG_USER_NS.');
  if (userns.max === '0') return problem('the limit for user namespaces is 0', 'sysctl user.max_user_namespaces=10000');
  if (isRoot) return ok('available, and root may create them');
  if (userns.clone === '0')
    return problem('only root may create user namespaces', 'sysctl kernel.unprivileged_userns_clone=1');
  if (userns.apparmor !== undefined && userns.apparmor !== '0')
    return warning('AppArmor restricts them to programs with a profile', USERNS_FIX);
  return ok('every user may create them');
}

function judgeCgroup({ cgroup, isRoot }: MachineFacts): DoctorFinding {
  const { ok, warning } = findingsOf('cgroup');
  const { delegated, v1, v2 } = cgroup;
  if (delegated?.includes('memory') && delegated.includes('pids')) return ok(`v2, delegated: ${delegated.join(' ')}`);
  if (v1.length === 3) return ok(`v1, writable: ${v1.join(' ')}`);
  const fix = isRoot
    ? 'Start the daemon in its own cgroup with the memory and pids controllers.'
    : 'Set Delegate=yes in the systemd unit of the daemon, or run:  systemd-run --user --scope -p Delegate=yes ringfence serve';
  const found = v2 ? 'cgroup v2, not delegated to this user' : 'no cgroup that this user may write';
  return warning(found, fix);
}
