/**
 * Profiles as bubblewrap arguments. A profile is data, so that a test can take one layer away and show what it held.
 * Figures and reasons: docs/decisions/0003-confinement.md.
 */
import { existsSync, lstatSync, readdirSync, readlinkSync } from 'node:fs';
import type { HostTier } from '../call.ts';
import { guard, type Masks, maskMounts, NO_MASKS } from './masks.ts';

export type Mount =
  | { readonly kind: 'ro' | 'rw'; readonly path: string }
  | { readonly kind: 'ro-at' | 'rw-at'; readonly path: string; readonly at: string }
  /** Left out where there is no such path. */
  | { readonly kind: 'ro-try' | 'rw-try'; readonly path: string }
  /** Covers a path that exists: neither opened, changed, removed nor moved by anybody inside, its owner included. */
  | {
      readonly kind: 'hidden';
      readonly type: 'file' | 'directory';
      readonly path: string;
      /** The path itself where it is not UTF-8: no argument can hold it, see `toArgBytes`. */
      readonly bytes?: Uint8Array;
    }
  /** Another file in the place of one that exists, read-only. */
  | { readonly kind: 'replaced'; readonly path: string; readonly by: string }
  /** An empty directory in the place of one that exists, with these of its entries in it and no others; nothing can be made or removed in it. */
  | {
      readonly kind: 'listed';
      readonly path: string;
      readonly entries: readonly string[];
      readonly isWritable: boolean;
    }
  | { readonly kind: 'tmpfs'; readonly at: string; readonly bytes: number }
  | { readonly kind: 'symlink'; readonly to: string; readonly at: string }
  /** An empty directory, for a later mount. */
  | { readonly kind: 'folder'; readonly at: string };

/** One that lies over something that has a path already. */
export type Cover = Extract<Mount, { readonly path: string }>;

export interface Profile {
  /** In order: a later one covers an earlier one. */
  readonly mounts: readonly Mount[];
  /** Uid and gid shown inside; needed when the real uid is 0, which may not be mapped into a nested namespace. */
  readonly shownId?: number;
  /** Whether processes inside may start sandboxes of their own (an execute host must). */
  readonly nests: boolean;
  /** Whether it is built in a host of such a profile, which has put together what of /etc it shows. */
  readonly isNested?: boolean;
  /** `bound`: the caller has mounted a fresh /proc of its own pid namespace, which bubblewrap can't without covering parts of it. */
  readonly proc: 'own' | 'bound';
  readonly network: 'none' | 'host';
  /** Folder with the `hosts` and `nsswitch.conf` of its /etc; the machine's nsswitch.conf, and no hosts file, when absent. */
  readonly names?: string;
  /** Size of its /dev/shm, which is memory; 32 MiB when absent. */
  readonly shmBytes?: number;
  /** Whether the program is the namespace's init: one process less, for programs that have no orphans. */
  readonly asInit: boolean;
  /** Number of the inherited descriptor that holds the seccomp program; absent only in tests that show what it held. */
  readonly seccompFd?: number;
}

/** It writes nothing. */
const ISOLATE_TMP_BYTES = 1024 * 1024;
const SHM_BYTES = 32 * 1024 * 1024;

/** All of bwrap's arguments up to the program, without environment and directory. */
export function toBwrapArgs(profile: Profile): string[] {
  const { shownId, seccompFd } = profile;
  return [
    ...['--unshare-user', '--unshare-ipc', '--unshare-uts'],
    // In a namespace of groups nothing can be moved to where it does not reach, as an execute host moves its commands.
    ...(profile.nests ? [] : ['--unshare-cgroup-try']),
    ...(profile.proc === 'own' ? ['--unshare-pid'] : []),
    ...(profile.network === 'none' ? ['--unshare-net'] : []),
    ...(shownId === undefined ? [] : ['--uid', `${shownId}`, '--gid', `${shownId}`]),
    ...(profile.nests ? [] : ['--disable-userns']),
    ...['--cap-drop', 'ALL', '--die-with-parent', '--new-session', '--hostname', 'sandbox'],
    ...(profile.asInit ? ['--as-pid-1'] : []),
    // For each of its mounts bubblewrap reads the table of all: what brings many at once (/etc, in a host) comes after what takes many.
    ...(profile.proc === 'own' ? ['--proc', '/proc'] : ['--bind', '/proc', '/proc']),
    ...(profile.nests ? [] : readOnlyProc(shownId)),
    ...['--dev', '/dev'],
    ...toArgs({ kind: 'tmpfs', at: '/dev/shm', bytes: profile.shmBytes ?? SHM_BYTES }),
    ...systemMounts(profile).flatMap(toArgs),
    ...profile.mounts.flatMap(toArgs),
    // Both are writable tmpfs of half the memory unless remounted.
    ...['--remount-ro', '/dev', '--remount-ro', '/'],
    ...(seccompFd === undefined ? [] : ['--seccomp', `${seccompFd}`]),
  ];
}

/**
 * Files in /proc are the real root's, and of the whole machine, in every /proc: what runs as that could write core_pattern, which is an
 * escape, and set the modes of all. To others /proc/sys is refused twice, and they may write what is their own.
 */
const readOnlyProc = (shownId: number | undefined): string[] =>
  shownId === undefined ? ['--ro-bind', '/proc/sys', '/proc/sys'] : ['--remount-ro', '/proc'];

const IDS = ['--uid', '--gid'];

/** The same arguments for a program that is shown as root where the workspace is root's: without any of root's rights. */
export const asOwner = (args: readonly string[]): string[] =>
  args.map((it, i) => (IDS.includes(args[i - 1] as string) ? '0' : it));

/** One mount as bwrap's arguments. */
export function toArgs(mount: Mount): string[] {
  switch (mount.kind) {
    case 'ro':
      return ['--ro-bind', mount.path, mount.path];
    case 'rw':
      return ['--bind', mount.path, mount.path];
    case 'ro-at':
      return ['--ro-bind', mount.path, mount.at];
    case 'rw-at':
      return ['--bind', mount.path, mount.at];
    case 'ro-try':
      return ['--ro-bind-try', mount.path, mount.path];
    case 'rw-try':
      return ['--bind-try', mount.path, mount.path];
    case 'hidden':
      // A device on a mount without devices can't be opened by anybody, and it needs no file of ours that every uid could reach.
      if (mount.type === 'file') return ['--ro-bind', '/dev/null', mount.path];
      return ['--perms', '0000', '--tmpfs', mount.path, '--remount-ro', mount.path];
    case 'replaced':
      return ['--ro-bind', mount.by, mount.path];
    case 'listed': {
      const bind = mount.isWritable ? '--bind-try' : '--ro-bind-try';
      const entries = mount.entries.flatMap((it) => [bind, it, it]);
      return ['--perms', '0755', '--tmpfs', mount.path, ...entries, '--remount-ro', mount.path];
    }
    case 'tmpfs':
      return ['--size', `${mount.bytes}`, '--tmpfs', mount.at];
    case 'symlink':
      return ['--symlink', mount.to, mount.at];
    case 'folder':
      return ['--dir', mount.at];
    default:
      return mount satisfies never;
  }
}

/** The mounts over paths that are not UTF-8, as bubblewrap reads arguments from a descriptor (`--args`): Node's are text. */
export function toArgBytes(mounts: readonly Cover[]): Buffer {
  const words = mounts.flatMap((mount) => {
    if (!isNameless(mount)) return [];
    return toArgs(mount).map((word) => (word === mount.path ? Buffer.from(mount.bytes) : Buffer.from(word)));
  });
  return Buffer.concat(words.flatMap((word) => [word, Buffer.from([0])]));
}

/** Whether no argument can name where it lies. */
export const isNameless = (mount: Cover): mount is Cover & { readonly kind: 'hidden'; readonly bytes: Uint8Array } =>
  mount.kind === 'hidden' && mount.bytes !== undefined;

/** The parts of /etc that programs need to start, and that say little of the machine. */
const ETC = [
  ...['ld.so.cache', 'ld.so.conf', 'ld.so.conf.d', 'passwd', 'group', 'nsswitch.conf', 'localtime', 'alternatives'],
  ...['ssl', 'ca-certificates', 'pki', 'mime.types', 'services', 'protocols', 'terminfo', 'inputrc', 'os-release'],
  ...['fonts', 'perl', 'maven', 'magic', 'magic.mime'],
];
/** Distributions keep the settings of these under names with versions: without them Java does not start. */
const ETC_VERSIONED = /^(?:java(?:-\d+-openjdk)?|python3(?:\.\d+)?)$/;

/** What an execute host calls its /etc, beside that. No machine does: a command's profile that is used elsewhere shows nothing more, and fails. */
const HOST_ETC = '/run/ringfence/etc';

/**
 * What an execute host calls the folder of its commands' homes. Its real path, which lies in the state directory, would be among
 * the arguments of bubblewrap, which each command can read in /proc.
 */
export const HOST_HOMES = '/run/ringfence/homes';

/** The read-only system: /usr, the top-level folders that are links into it or stand beside it, a few files of /etc. */
function systemMounts(profile: Pick<Profile, 'nests' | 'isNested' | 'names'>): Mount[] {
  const top = ['/bin', '/sbin', '/lib', '/lib32', '/lib64', '/libx32'].flatMap((path): Mount[] => {
    const stat = lstatSync(path, { throwIfNoEntry: false });
    if (!stat) return [];
    return stat.isSymbolicLink() ? [{ kind: 'symlink', to: readlinkSync(path), at: path }] : [{ kind: 'ro', path }];
  });
  return [{ kind: 'ro', path: '/usr' }, ...top, ...etcMounts(profile)];
}

/** bubblewrap reads the table of mounts for each: what an execute host has put together is one mount for its commands. */
function etcMounts({ nests, isNested = false, names }: Pick<Profile, 'nests' | 'isNested' | 'names'>): Mount[] {
  if (isNested) return [{ kind: 'ro-at', path: HOST_ETC, at: '/etc' }];
  const own = names === undefined ? [] : OWN_NAMES.map((it) => ({ path: `${names}/${it}`, at: `/etc/${it}` }));
  const all = [...ETC, ...readdirSync('/etc').filter((it) => ETC_VERSIONED.test(it))];
  const machine = all.map((name) => `/etc/${name}`).filter((path) => existsSync(path));
  const shown = machine.filter((path) => !own.some(({ at }) => at === path));
  const link: Mount[] = nests ? [{ kind: 'symlink', to: '../../etc', at: HOST_ETC }] : [];
  return [
    ...shown.map((path): Mount => ({ kind: 'ro', path })),
    ...own.map((it): Mount => ({ kind: 'ro-at', ...it })),
    ...link,
  ];
}

/** Names are looked up by these; the machine's may need a resolver that no sandbox has, and name hosts of its networks. */
const OWN_NAMES = ['hosts', 'nsswitch.conf'];

/** Path of a command's home in its sandbox; no workspace or toolchain lies there. */
export const HOME = '/run/home';

/** Path of git's system config in a command's sandbox; the file is empty when the person's name is unknown. */
export const GIT_SYSTEM = '/run/git';

/** Path of a command's own copies of repositories' configs in its sandbox. */
export const GIT_COPIES = '/run/git-config';

/** A home that is kept on disk, or, without one, as much memory. */
export const homeMount = (kept: string | undefined, bytes: number): string[] =>
  kept === undefined ? toArgs({ kind: 'tmpfs', at: HOME, bytes }) : ['--bind', kept, HOME];

/** Where our own code lies; absolute paths of files and folders. */
export interface Runtime {
  /** Folder with the `hosts` and `nsswitch.conf` of commands. */
  readonly etc: string;
  /** What hosts run from: code, packages, Node. */
  readonly needed: readonly string[];
  /** What this or the next daemon runs: read-only where a workspace holds it, or an agent would write its own guard. */
  readonly guarded: readonly string[];
}

export interface ProfileRequest {
  readonly runtime: Runtime;
  readonly workspace?: string;
  readonly shownId?: number;
  readonly tmpBytes: number;
  /** More folders that commands see, read-only; absolute. */
  readonly toolchains?: readonly string[];
  /** Where a write host keeps what is needed to undo its calls; absolute, the workspace's own. */
  readonly spool?: string;
  /** Folder that holds the homes of the workspace's commands, for execute hosts; absolute. */
  readonly homes?: string;
  /** What a policy keeps from this host; nothing when absent. */
  readonly masks?: Masks;
}

const readOnly = (path: string): Mount => ({ kind: 'ro', path });
const tmp = (bytes: number): Mount => ({ kind: 'tmpfs', at: '/tmp', bytes });

function workspaceMounts(workspace: string, writable: boolean, { masks = NO_MASKS, runtime }: ProfileRequest): Mount[] {
  const guarded = guard(masks, workspace, runtime.guarded);
  return [{ kind: writable ? 'rw' : 'ro', path: workspace }, ...maskMounts(guarded, workspace, writable)];
}

const toolchainMounts = ({ toolchains = [] }: ProfileRequest): Mount[] =>
  toolchains.filter((it) => !it.startsWith('/usr/')).map((path) => ({ kind: 'ro-try', path }));

/** The profile of a tier host that runs tools in its own threads. */
export function hostProfile(tier: Exclude<HostTier, 'execute'>, request: ProfileRequest): Profile {
  const { workspace, runtime, shownId, spool } = request;
  const sees = workspace !== undefined && (tier === 'read_only' || tier === 'write');
  return {
    mounts: [
      tmp(tier === 'isolate' ? ISOLATE_TMP_BYTES : request.tmpBytes),
      ...(sees ? workspaceMounts(workspace, tier === 'write', request) : []),
      ...(tier === 'write' && spool !== undefined ? [{ kind: 'rw', path: spool } as const] : []),
      // Last, so that a policy that hides Ringfence's own files does not keep its hosts from starting.
      ...runtime.needed.map(readOnly),
    ],
    ...(shownId !== undefined && { shownId }),
    nests: false,
    proc: 'own',
    network: 'none',
    asInit: true,
    seccompFd: HOST_SECCOMP_FD,
  };
}

/** Of /etc, what names are looked up by. */
const NAMES = ['/etc/resolv.conf', '/etc/hosts', '/etc/host.conf', '/etc/gai.conf'];

/** The profile of the egress proxy: the network, and nothing else of the machine. */
export function egressProfile({ runtime, shownId, tmpBytes }: Omit<ProfileRequest, 'workspace' | 'masks'>): Profile {
  return {
    mounts: [tmp(tmpBytes), ...NAMES.map((path): Mount => ({ kind: 'ro-try', path })), ...runtime.needed.map(readOnly)],
    ...(shownId !== undefined && { shownId }),
    nests: false,
    proc: 'own',
    network: 'host',
    asInit: true,
    seccompFd: EGRESS_LISTENERS_FD + 1,
  };
}

/**
 * The profile of an execute host: what its commands may see, and the right to start sandboxes within. It has no masks of
 * its own: its commands would inherit them, those that are out of date and those that a person lifted for one call included.
 */
export function executeHostProfile(
  request: ProfileRequest & { workspace: string; groups?: readonly string[] },
): Profile {
  const host = hostProfile('write', { ...request, masks: NO_MASKS });
  // Nothing of it is in the sandboxes of commands.
  const groups = (request.groups ?? []).map((path): Mount => ({ kind: 'rw', path }));
  const base = { ...host, mounts: [...host.mounts, ...groups] };
  // A covered /proc forbids fresh ones below it, and bubblewrap run by root covers parts of the one it mounts.
  const homes: Mount[] = request.homes === undefined ? [] : [{ kind: 'rw-at', path: request.homes, at: HOST_HOMES }];
  const mounts = [...base.mounts, ...homes, ...toolchainMounts(request)];
  return {
    ...base,
    mounts,
    names: request.runtime.etc,
    nests: true,
    asInit: false,
    proc: request.shownId === undefined ? 'own' : 'bound',
  };
}

/**
 * The profile of one command, without what is masked in it: that is found out when it starts, since files come and go.
 * `isNested`: it is built in an execute host that is confined itself.
 */
export function commandProfile(request: ProfileRequest & { workspace: string; isNested?: boolean }): Profile {
  const { workspace, shownId, tmpBytes, isNested = false } = request;
  return {
    // First, so that nothing in the workspace is covered.
    mounts: [
      tmp(tmpBytes),
      { kind: 'folder', at: HOME },
      { kind: 'folder', at: GIT_SYSTEM },
      { kind: 'folder', at: GIT_COPIES },
      ...toolchainMounts(request),
      { kind: 'rw', path: workspace },
    ],
    names: request.runtime.etc,
    ...(shownId !== undefined && { shownId }),
    nests: false,
    isNested,
    proc: 'own',
    network: 'none',
    asInit: false,
    seccompFd: COMMAND_SECCOMP_FD,
  };
}

/** What a provider's processes see beside the system: nothing of the person's but what its configuration names. */
export interface ProviderView {
  /** Absolute; whether it may be changed. */
  readonly workspace?: { readonly path: string; readonly isWritable: boolean };
  /** More paths, read-only: where its own code lies. */
  readonly reads: readonly string[];
  readonly masks: Masks;
}

/** The profile of a provider: its host and its server together, without a network but by the egress proxy. */
export function providerProfile(
  request: Omit<ProfileRequest, 'workspace' | 'masks' | 'spool'>,
  { workspace, reads, masks }: ProviderView,
  seccompFd: number,
): Profile {
  const { runtime, shownId, tmpBytes } = request;
  return {
    mounts: [
      tmp(tmpBytes),
      ...toolchainMounts(request),
      ...reads.map((path): Mount => ({ kind: 'ro-try', path })),
      ...(workspace ? workspaceMounts(workspace.path, workspace.isWritable, { ...request, masks }) : []),
      ...runtime.needed.map(readOnly),
    ],
    ...(shownId !== undefined && { shownId }),
    names: runtime.etc,
    nests: false,
    proc: 'own',
    network: 'none',
    // bubblewrap's own init reaps what its server leaves behind.
    asInit: false,
    seccompFd,
  };
}

/** Descriptors that a host's and a command's bwrap inherits; 3 is the host's line to the gateway, a command's filter. */
export const HOST_FRAMES_FD = 3;
export const HOST_SECCOMP_FD = 4;
/** Of an execute host whose commands may connect: its line to the egress proxy. Its seccomp program is the next one. */
export const HOST_EGRESS_FD = 4;
/** Of the egress proxy: where the listeners of commands come from. */
export const EGRESS_LISTENERS_FD = 4;
/** Of a provider host that may connect: its line to the egress proxy, the pipes that its first program and its token come by. */
export const PROVIDER_FDS = { line: HOST_EGRESS_FD, program: 5, token: 6 };
export const COMMAND_SECCOMP_FD = 3;
export const COMMAND_STATUS_FD = 4;
/** Of a command that may connect: the same three. Nothing of them is open when the command runs. */
export const COMMAND_EGRESS_FDS = { line: 5, program: 6, token: 7 };
