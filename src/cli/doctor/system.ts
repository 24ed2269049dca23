/** What kind of system this is, as far as its files tell: distribution, WSL, container, what restricts namespaces. */
import { existsSync } from 'node:fs';
import { textAt } from '../../base/quiet/reads.ts';

/** Containers that are told apart, since each has its own options. */
export type ContainerKind = 'docker' | 'podman' | 'kubernetes' | 'container';

/** Contents of files of /proc/sys; absent if the kernel has no such file. */
export interface UsernsFacts {
  readonly clone?: string | undefined;
  readonly max?: string | undefined;
  readonly apparmor?: string | undefined;
}

export interface SystemFacts {
  /** `ID` and `ID_LIKE` of os-release, such as `ubuntu` and `debian`. */
  readonly distribution: readonly string[];
  readonly wsl?: 1 | 2 | undefined;
  readonly container?: ContainerKind | undefined;
  readonly isRoot: boolean;
  readonly hasBwrap: boolean;
  readonly userns: UsernsFacts;
  /** Whether Ubuntu's profile is loaded for bwrap, which allows one sandbox and none within it. */
  readonly hasStackingProfile: boolean;
  /** Whether parts of /proc are covered, as container engines do. */
  readonly isProcMasked: boolean;
  /** Whether a seccomp filter already applies to this process. */
  readonly isFiltered: boolean;
  /** The AppArmor profile of this process; absent if none. */
  readonly profile?: string;
}

/** Reads a file; undefined if it is missing or may not be read. */
export type ReadText = (path: string) => string | undefined;

/** Reads the facts of a system. `read` and `exists` are replaced by tests of other systems. */
export function readSystem(
  known: Pick<SystemFacts, 'isRoot' | 'hasBwrap'>,
  read: ReadText = textAt,
  exists: (path: string) => boolean = existsSync,
): SystemFacts {
  const wsl = wslOf(read('/proc/version') ?? '');
  const container = containerOf(read, exists);
  const profile = read('/proc/self/attr/current')?.replace(/\0?\n?$/, '');
  return {
    ...known,
    distribution: distributionOf(read('/etc/os-release') ?? ''),
    wsl,
    container,
    userns: readUserns(read),
    hasStackingProfile:
      exists('/etc/apparmor.d/bwrap-userns-restrict') && !exists('/etc/apparmor.d/disable/bwrap-userns-restrict'),
    isProcMasked: /^\S+ \S+ \S+ \S+ \/proc\/\S/m.test(read('/proc/self/mountinfo') ?? ''),
    isFiltered: /^Seccomp:\s*2$/m.test(read('/proc/self/status') ?? ''),
    ...(profile !== undefined && profile !== 'unconfined' && { profile }),
  };
}

export function readUserns(read: ReadText): UsernsFacts {
  const sysctl = (name: string) => read(`/proc/sys/${name}`)?.trim();
  return {
    clone: sysctl('kernel/unprivileged_userns_clone'),
    max: sysctl('user/max_user_namespaces'),
    apparmor: sysctl('kernel/apparmor_restrict_unprivileged_userns'),
  };
}

/** The first kernel of WSL is no Linux and says `Microsoft`; that of the second says `microsoft-standard-WSL2`. */
function wslOf(version: string): 1 | 2 | undefined {
  if (/microsoft-standard|WSL2/.test(version)) return 2;
  return version.includes('Microsoft') ? 1 : undefined;
}

function containerOf(read: ReadText, exists: (path: string) => boolean): ContainerKind | undefined {
  const group = read('/proc/self/cgroup') ?? '';
  if (exists('/var/run/secrets/kubernetes.io') || group.includes('kubepods')) return 'kubernetes';
  if (exists('/run/.containerenv') || group.includes('libpod')) return 'podman';
  if (exists('/.dockerenv') || group.includes('docker')) return 'docker';
  return /lxc|containerd/.test(group) ? 'container' : undefined;
}

/** The ids in the text of os-release. */
export function distributionOf(release: string): string[] {
  const field = (name: string) => new RegExp(`^${name}="?([^"\\n]*)"?$`, 'm').exec(release)?.[1] ?? '';
  return `${field('ID')} ${field('ID_LIKE')}`.split(' ').filter(Boolean);
}

const INSTALL: readonly (readonly [distribution: string, command: string])[] = [
  ['debian', 'apt-get install'],
  ['ubuntu', 'apt-get install'],
  ['fedora', 'dnf install'],
  ['rhel', 'dnf install'],
  ['arch', 'pacman -S'],
  ['suse', 'zypper install'],
  ['opensuse', 'zypper install'],
  ['alpine', 'apk add'],
];

/** The command that installs a package on this system. */
export function installCommand(packageName: string, distribution: readonly string[]): string {
  const [, command = 'apt-get install'] = INSTALL.find(([name]) => distribution.includes(name)) ?? [];
  return `sudo ${command} ${packageName}`;
}
