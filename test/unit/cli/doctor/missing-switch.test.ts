/** The one missing switch of each kind of system, from its files and from what bubblewrap says there. */
import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { missingSwitch } from '../../../../src/cli/doctor/missing-switch.ts';
import { installCommand, readSystem } from '../../../../src/cli/doctor/system.ts';

const RELEASE = {
  debian: 'PRETTY_NAME="Debian GNU/Linux 12"\nID=debian\n',
  ubuntu: 'NAME="Ubuntu"\nVERSION_ID="24.04"\nID=ubuntu\nID_LIKE=debian\n',
  fedora: 'NAME="Fedora Linux"\nID=fedora\n',
  arch: 'NAME="Arch Linux"\nID=arch\n',
  rocky: 'ID="rocky"\nID_LIKE="rhel centos fedora"\n',
  alpine: 'ID=alpine\n',
} as const;
const LINUX = 'Linux version 6.8.0-31-generic (buildd@lcy02) (gcc 13.2.0) #31-Ubuntu SMP';
const MOUNTS = '22 28 0:20 / /sys rw - sysfs sysfs rw\n23 28 0:21 / /proc rw - proc proc rw\n';
const MASKED = `${MOUNTS}640 23 0:21 /bus /proc/bus ro - proc proc rw\n641 23 0:50 / /proc/kcore rw - tmpfs tmpfs rw\n`;

/** What bubblewrap says. */
const SAYS = {
  uidMap: 'bwrap: setting up uid map: Permission denied',
  loopback: 'bwrap: loopback: Failed RTM_NEWADDR: Operation not permitted',
  noPermissions:
    'bwrap: No permissions to create new namespace, likely because the kernel does not allow non-privileged',
  cloneRefused: 'bwrap: Creating new namespace failed: Operation not permitted',
  proc: "bwrap: Can't mount proc on /newroot/proc: Operation not permitted",
  slave: 'bwrap: Failed to make / slave: Permission denied',
} as const;

interface OtherSystem {
  readonly release?: keyof typeof RELEASE;
  readonly files?: Readonly<Record<string, string>>;
  readonly isRoot?: boolean;
  readonly hasBwrap?: boolean;
}

function systemOf({ release = 'debian', files = {}, isRoot = false, hasBwrap = true }: OtherSystem) {
  const all: Record<string, string> = {
    '/etc/os-release': RELEASE[release],
    '/proc/version': LINUX,
    '/proc/sys/user/max_user_namespaces': '15000\n',
    '/proc/self/cgroup': '0::/user.slice/user-1000.slice/session-2.scope\n',
    '/proc/self/mountinfo': MOUNTS,
    '/proc/self/status': 'Name:\tnode\nSeccomp:\t0\n',
    ...files,
  };
  return readSystem(
    { isRoot, hasBwrap },
    (path) => all[path],
    (path) => path in all,
  );
}

const APPARMOR = { '/proc/sys/kernel/apparmor_restrict_unprivileged_userns': '1\n' };
const STACKING = { ...APPARMOR, '/etc/apparmor.d/bwrap-userns-restrict': '' };
const DOCKER = { '/.dockerenv': '', '/proc/self/status': 'Name:\tnode\nSeccomp:\t2\n', '/proc/self/mountinfo': MASKED };
const { '/.dockerenv': _, ...withoutDocker } = DOCKER;
const PODMAN = { ...withoutDocker, '/run/.containerenv': '' };
const KUBERNETES = {
  '/proc/self/status': 'Name:\tnode\nSeccomp:\t2\n',
  '/proc/self/mountinfo': MASKED,
  '/proc/self/cgroup': '0::/kubepods.slice/kubepods-burstable.slice/cri-containerd-1.scope\n',
};

const CASES: [string, OtherSystem, string, string, RegExp][] = [
  [
    'Debian 10',
    { files: { '/proc/sys/kernel/unprivileged_userns_clone': '0\n' } },
    SAYS.noPermissions,
    'unprivileged-userns-clone',
    /^echo kernel\.unprivileged_userns_clone=1 \| sudo tee \/etc\/sysctl\.d\//,
  ],
  ['Debian without bubblewrap', { hasBwrap: false }, 'Install it', 'bubblewrap', /^sudo apt-get install bubblewrap$/],
  ['Fedora without bubblewrap', { release: 'fedora', hasBwrap: false }, 'x', 'bubblewrap', /^sudo dnf install bubb/],
  ['Arch without bubblewrap', { release: 'arch', hasBwrap: false }, 'x', 'bubblewrap', /^sudo pacman -S bubblewrap$/],
  [
    'a hardened kernel of Arch',
    { release: 'arch', files: { '/proc/sys/kernel/unprivileged_userns_clone': '0' } },
    SAYS.noPermissions,
    'unprivileged-userns-clone',
    /unprivileged_userns_clone=1/,
  ],
  [
    'RHEL with a limit of 0',
    { release: 'rocky', files: { '/proc/sys/user/max_user_namespaces': '0\n' } },
    SAYS.cloneRefused,
    'max-user-namespaces',
    /^echo user\.max_user_namespaces=28633 /,
  ],
  [
    'Ubuntu 24.04',
    { release: 'ubuntu', files: APPARMOR },
    SAYS.uidMap,
    'apparmor-userns',
    /^sudo cp .*apparmor_parser -r/,
  ],
  [
    'Ubuntu 24.04 with its network',
    { release: 'ubuntu', files: APPARMOR },
    SAYS.loopback,
    'apparmor-userns',
    /sudo cp/,
  ],
  [
    'Ubuntu 25.04, where one sandbox works',
    { release: 'ubuntu', files: STACKING },
    SAYS.uidMap,
    'apparmor-nesting',
    /apparmor_parser -R \/etc\/apparmor\.d\/bwrap-userns-restrict && sudo cp /,
  ],
  [
    'Ubuntu 25.04 after that profile was disabled',
    { release: 'ubuntu', files: { ...STACKING, '/etc/apparmor.d/disable/bwrap-userns-restrict': '' } },
    SAYS.uidMap,
    'apparmor-userns',
    /^sudo cp /,
  ],
  [
    'WSL 1',
    { release: 'ubuntu', files: { '/proc/version': 'Linux version 4.4.0-19041-Microsoft (Microsoft@Microsoft.com)' } },
    SAYS.cloneRefused,
    'wsl1',
    /wsl --set-version .* 2$/,
  ],
  ['Docker', { files: DOCKER }, SAYS.noPermissions, 'container-seccomp', /^docker run --security-opt seccomp=/],
  ['Docker with a seccomp profile', { files: DOCKER }, SAYS.proc, 'container-proc', /systempaths=unconfined$/],
  [
    'Docker with AppArmor',
    { files: { ...DOCKER, '/proc/self/attr/current': 'docker-default (enforce)\n' } },
    SAYS.slave,
    'container-apparmor',
    /apparmor=unconfined$/,
  ],
  [
    'Podman',
    { release: 'fedora', files: PODMAN },
    SAYS.proc,
    'container-proc',
    /^podman run --security-opt unmask=ALL$/,
  ],
  ['Kubernetes', { files: KUBERNETES }, SAYS.cloneRefused, 'container-seccomp', /localhostProfile/],
  ['Kubernetes with a profile', { files: KUBERNETES }, SAYS.proc, 'container-proc', /procMount: Unmasked/],
  [
    'a container on a machine that forbids them',
    { files: { ...DOCKER, '/proc/sys/user/max_user_namespaces': '0' } },
    SAYS.cloneRefused,
    'max-user-namespaces',
    /^On the machine that runs the container: echo/,
  ],
];

test.each(CASES)('%s: one cause, with the fix of that system', (_, system, says, id, fix) => {
  const failure = `bubblewrap could not build the sandbox (${says}).`;
  expect(missingSwitch(systemOf(system), failure)).toEqual({
    id,
    found: expect.stringMatching(/\w/),
    fix: expect.stringMatching(fix),
  });
});

describe('no cause is named', () => {
  test('no cause is named if sandboxes can be built, whatever the settings say', () => {
    for (const files of [APPARMOR, STACKING, DOCKER, KUBERNETES])
      expect(missingSwitch(systemOf({ files }), '')).toBeUndefined();
  });

  test('no cause is named if nothing that is known explains the failure', () => {
    const failure = "bubblewrap could not build the sandbox (bwrap: Can't find source path /ws: No such file).";
    for (const files of [{}, APPARMOR, STACKING]) expect(missingSwitch(systemOf({ files }), failure)).toBeUndefined();
  });

  test('no setting of ordinary users is named as the cause if root runs the daemon', () => {
    const clone = { '/proc/sys/kernel/unprivileged_userns_clone': '0' };
    for (const files of [clone, APPARMOR])
      expect(missingSwitch(systemOf({ files, isRoot: true }), SAYS.uidMap)).toBeUndefined();
  });
});

test('WSL 2 is Linux', () => {
  const version = 'Linux version 5.15.153.1-microsoft-standard-WSL2 (root@941d701f84f1)';
  const system = systemOf({ files: { '/proc/version': version } });
  expect(system.wsl).toBe(2);
  expect(missingSwitch(system, SAYS.cloneRefused)).toBeUndefined();
});

test('a distribution that is like another one installs packages as that', () => {
  expect(installCommand('git', systemOf({ release: 'rocky' }).distribution)).toBe('sudo dnf install git');
  expect(installCommand('git', systemOf({ release: 'alpine' }).distribution)).toBe('sudo apk add git');
  expect(installCommand('git', [])).toBe('sudo apt-get install git');
});

test('the profile that the fixes load is in the package and allows user namespaces', () => {
  const profile = readFileSync(new URL('../../../../etc/apparmor.d/bwrap', import.meta.url), 'utf8');
  expect(profile).toMatch(/^profile bwrap \/usr\/bin\/bwrap flags=\(unconfined\) \{\n {2}userns,$/m);
});
