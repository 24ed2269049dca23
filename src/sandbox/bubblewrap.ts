/**
 * Turns profiles into bubblewrap arguments. A profile is data, so that a test can remove one layer and show what it prevents.
 * Figures and reasons: docs/decisions/0003-confinement.md.
 */

import type { HostTier } from '../base/call.ts';
import { ToolError } from '../base/errors.ts';
import { isInside } from '../base/paths.ts';
import { STORE, storeIn } from './etc/certificates.ts';
import { namesMount, SYSTEM_FACTS, systemMounts } from './etc/system-mounts.ts';
import { guard, type Masks, maskMounts, NO_MASKS } from './masks.ts';
import { type CoveringMount, HOME, isNameless, type Mount, type OwnFile, type Profile } from './mount.ts';

/** Stands in the arguments for the files of an image, which only a command knows. */
export const IMAGE_FILES = '--ringfence-image';

/** Isolate hosts write nothing. */
const ISOLATE_TMP_BYTES = 1024 * 1024;
const SHM_BYTES = 32 * 1024 * 1024;

/** All of bwrap's arguments up to the program, without environment and directory. */
export function toBwrapArgs(profile: Profile): string[] {
  const { shownId, seccompFd } = profile;
  return [
    ...['--unshare-user', '--unshare-ipc', '--unshare-uts'],
    // Inside a cgroup namespace no process can be moved outside it, which an execute host must do with its commands.
    ...(profile.nests ? [] : ['--unshare-cgroup-try']),
    ...(profile.proc === 'own' ? ['--unshare-pid'] : []),
    ...(profile.network === 'none' ? ['--unshare-net'] : []),
    ...(shownId === undefined ? [] : ['--uid', `${shownId}`, '--gid', `${shownId}`]),
    ...(profile.nests ? [] : ['--disable-userns']),
    ...['--cap-drop', 'ALL', '--die-with-parent', '--new-session', '--hostname', 'sandbox'],
    ...(profile.asInit ? ['--as-pid-1'] : []),
    // bubblewrap reads the whole mount table for each mount: put what adds many mounts at once (/etc, in a host) last.
    ...(profile.proc === 'own' ? ['--proc', '/proc'] : ['--bind', '/proc', '/proc']),
    ...(profile.nests ? [] : readOnlyProc(shownId)),
    ...['--dev', '/dev'],
    ...toArgs({ kind: 'tmpfs', at: '/dev/shm', bytes: profile.shmBytes ?? SHM_BYTES }),
    ...(profile.isImage
      ? [IMAGE_FILES, ...namesMount(profile).flatMap(toArgs)]
      : systemMounts(profile).flatMap(toArgs)),
    ...profile.mounts.flatMap(toArgs),
    // Both are writable tmpfs of half the memory unless remounted read-only.
    ...['--remount-ro', '/dev', '--remount-ro', '/'],
    ...(seccompFd === undefined ? [] : ['--seccomp', `${seccompFd}`]),
  ];
}

/**
 * Files in every /proc belong to the real root and concern the whole machine: a process that runs as root could write core_pattern,
 * which is an escape, and change the modes of all. For other users a read-only /proc/sys is a second barrier, and the rest of
 */
const readOnlyProc = (shownId: number | undefined): string[] =>
  shownId === undefined ? ['--ro-bind', '/proc/sys', '/proc/sys'] : ['--remount-ro', '/proc'];

const IDS = ['--uid', '--gid'];

/** The same arguments for a program that is shown as root in a workspace that root owns, without any of root's rights. */
export const asOwner = (args: readonly string[]): string[] =>
  args.map((it, i) => (IDS.includes(args[i - 1] as string) ? '0' : it));

/** One mount as bwrap arguments. */
export function toArgs(mount: Mount): string[] {
  switch (mount.kind) {
    case 'ro':
      return ['--ro-bind', mount.path, mount.path];
    case 'rw':
      return ['--bind', mount.path, mount.path];
    case 'ro-at':
      if (mount.fd !== undefined) return ['--perms', '0644', '--ro-bind-data', `${mount.fd}`, mount.at];
      return ['--ro-bind', mount.path, mount.at];
    case 'rw-at':
      return ['--bind', mount.path, mount.at];
    case 'ro-try':
      return ['--ro-bind-try', mount.path, mount.path];
    case 'rw-try':
      return ['--bind-try', mount.path, mount.path];
    case 'hidden':
      // Nobody can open a device on a nodev mount, and it needs no file of ours that every uid can reach.
      if (mount.type === 'file') return ['--ro-bind', '/dev/null', mount.path];
      return ['--perms', '0000', '--tmpfs', mount.path, '--remount-ro', mount.path];
    case 'replaced':
      return ['--ro-bind', mount.by, mount.path];
    case 'own':
      return ['--bind', mount.by, mount.path];
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

/** Arguments as bubblewrap reads them from a descriptor (`--args`). Throws INPUT_INVALID if a NUL would end one early, and begin another. */
export function toArgBytes(words: readonly (string | Uint8Array)[]): Buffer {
  return Buffer.concat(withoutNul(words).flatMap((it) => [Buffer.from(it), Buffer.from([0])]));
}

/** Throws INPUT_INVALID if a word holds a NUL byte: the word would end there, though a rule has matched the whole. */
export function withoutNul<Words extends readonly (string | Uint8Array)[]>(words: Words): Words {
  if (words.some((it) => (typeof it === 'string' ? it.includes('\0') : it.includes(0))))
    throw new ToolError('INPUT_INVALID', 'arguments and variables of a command must not contain NUL bytes');
  return words;
}

/** A mount over a path as arguments, of which one is bytes if the path is not UTF-8. */
export const toMaskWords = (mount: CoveringMount): (string | Uint8Array)[] =>
  toArgs(mount).map((word) => (isNameless(mount) && word === mount.path ? mount.bytes : word));

/** Path of the folder of commands' homes inside an execute host, which lies in the state directory. */
export const HOST_HOMES = '/run/ringfence/homes';

/** Path of the folder of a workspace's previews inside its write and execute hosts. */
export const HOST_PREVIEWS = '/run/ringfence/previews';

/** Path of git's system config in a command's sandbox; the file is empty when the person's name is unknown. */
export const GIT_SYSTEM = '/run/git';

/** Path of a command's own copies of repositories' configs in its sandbox. */
export const GIT_COPIES = '/run/git-config';

/** Mounts a home that is kept on disk or, without one, a tmpfs of `bytes`. */
export const homeMount = (kept: string | undefined, bytes: number): string[] =>
  kept === undefined ? toArgs({ kind: 'tmpfs', at: HOME, bytes }) : ['--bind', kept, HOME];

/** Paths of our own code; absolute paths of files and folders. */
export interface Runtime {
  /** Folder with the `hosts` and `nsswitch.conf` for commands. */
  readonly etc: string;
  /** What hosts need to run: code, packages, Node. */
  readonly needed: readonly string[];
  /** What this or the next daemon runs: read-only even inside a workspace, or an agent could rewrite its own guard. */
  readonly guarded: readonly string[];
}

export interface ProfileRequest {
  readonly runtime: Runtime;
  readonly workspace?: string;
  readonly shownId?: number | undefined;
  readonly tmpBytes: number;
  /** Our own files in the /etc of commands. */
  readonly ownFiles?: readonly OwnFile[] | undefined;
  /** More folders that commands see, read-only; absolute. */
  readonly toolchains?: readonly string[];
  /** Folders that execute hosts see, and their commands only in part; absolute. */
  readonly hostFolders?: readonly string[];
  /** Folder in which a write host keeps the undo data of its calls; absolute, one per workspace. */
  readonly spool?: string | undefined;
  /** Folder that holds the homes of the workspace's commands, for execute hosts; absolute. */
  readonly homes?: string | undefined;
  /** Folder that holds the previews of the workspace's commands, for write and execute hosts; absolute. */
  readonly previews?: string | undefined;
  /** What a policy hides from this host; nothing if absent. */
  readonly masks?: Masks;
}

const readOnly = (path: string): Mount => ({ kind: 'ro', path });
const tmp = (bytes: number): Mount => ({ kind: 'tmpfs', at: '/tmp', bytes });

function workspaceMounts(workspace: string, writable: boolean, { masks = NO_MASKS, runtime }: ProfileRequest): Mount[] {
  const guarded = guard(masks, workspace, runtime.guarded);
  return [{ kind: writable ? 'rw' : 'ro', path: workspace }, ...maskMounts(guarded, workspace, writable)];
}

const shown = (folders: readonly string[] = []): Mount[] =>
  folders.filter((it) => !it.startsWith('/usr/')).map((path) => ({ kind: 'ro-try', path }));

/** The profile of a tier host that runs tools in its own threads. */
export function hostProfile(tier: Exclude<HostTier, 'execute'>, request: ProfileRequest): Profile {
  const { workspace, runtime, shownId, spool, previews } = request;
  const sees = workspace !== undefined && (tier === 'read_only' || tier === 'write');
  return {
    mounts: [
      tmp(tier === 'isolate' ? ISOLATE_TMP_BYTES : request.tmpBytes),
      ...(sees ? workspaceMounts(workspace, tier === 'write', request) : []),
      ...(tier === 'write' && spool !== undefined ? [{ kind: 'rw', path: spool } as const] : []),
      ...(previews === undefined ? [] : [{ kind: 'rw-at', path: previews, at: HOST_PREVIEWS } as const]),
      // Last, so that a policy that hides Ringfence's own files does not stop its hosts from starting.
      ...runtime.needed.map(readOnly),
    ],
    shownId,
    nests: false,
    proc: 'own',
    network: 'none',
    asInit: true,
    seccompFd: HOST_SECCOMP_FD,
  };
}

/** Files in /etc that name lookup reads. */
const NAMES = ['/etc/resolv.conf', '/etc/hosts', '/etc/host.conf', '/etc/gai.conf'];

/** The profile of the egress proxy: the network and nothing else of the machine. */
export function egressProfile(
  { runtime, shownId, tmpBytes }: Omit<ProfileRequest, 'workspace' | 'masks'>,
  stateDir: string,
): Profile {
  return {
    mounts: [
      tmp(tmpBytes),
      ...NAMES.map((path): Mount => ({ kind: 'ro-try', path })),
      { kind: 'ro-at', path: storeIn(stateDir), at: STORE },
      ...runtime.needed.map(readOnly),
    ],
    shownId,
    nests: false,
    proc: 'own',
    network: 'host',
    asInit: true,
    seccompFd: EGRESS_LISTENERS_FD + 1,
  };
}

/**
 * The profile of an execute host: what its commands may see, and the right to start nested sandboxes. It has no masks of
 * its own: its commands would inherit them, outdated masks and those that a person lifted for one call included.
 */
export function executeHostProfile(
  request: ProfileRequest & { workspace: string; groups?: readonly string[] },
): Profile {
  const host = hostProfile('write', { ...request, masks: NO_MASKS });
  // Commands' sandboxes get none of these.
  const groups = (request.groups ?? []).map((path): Mount => ({ kind: 'rw', path }));
  const base = { ...host, mounts: [...host.mounts, ...groups] };
  // The kernel forbids mounting a fresh /proc below a partly covered one, and bubblewrap run by root covers parts of its /proc.
  const homes: Mount[] = request.homes === undefined ? [] : [{ kind: 'rw-at', path: request.homes, at: HOST_HOMES }];
  const mounts = [
    ...base.mounts,
    ...homes,
    ...SYSTEM_FACTS,
    ...shown(request.toolchains),
    ...shown(request.hostFolders),
  ];
  return {
    ...base,
    mounts,
    names: request.runtime.etc,
    ownFiles: request.ownFiles,
    nests: true,
    asInit: false,
    proc: request.shownId === undefined ? 'own' : 'bound',
  };
}

/**
 * The profile of one command, without masks: those are computed when it starts, since files come and go.
 * `isNested`: the sandbox is built in an execute host that is itself confined. `isImage`: for programs of images.
 */
export function commandProfile(
  request: ProfileRequest & { workspace: string; isNested?: boolean; isImage?: boolean | undefined },
): Profile {
  const { workspace, shownId, tmpBytes, isNested = false, isImage = false } = request;
  return {
    // First, so that none of these covers anything in the workspace.
    mounts: [
      tmp(tmpBytes),
      { kind: 'folder', at: HOME },
      { kind: 'folder', at: GIT_SYSTEM },
      { kind: 'folder', at: GIT_COPIES },
      // Through the link, a workspace in /var/tmp would be mounted at /tmp/…, where nobody looks whether its masks are in place.
      isInside('/var/tmp', workspace)
        ? { kind: 'tmpfs', at: '/var/tmp', bytes: tmpBytes }
        : { kind: 'symlink', to: '../tmp', at: '/var/tmp' },
      // Programs of the machine need the machine's libraries.
      ...(isImage ? [] : [...SYSTEM_FACTS, ...shown(request.toolchains)]),
      { kind: 'rw', path: workspace },
    ],
    isImage,
    names: request.runtime.etc,
    ownFiles: request.ownFiles,
    shownId,
    nests: false,
    isNested,
    proc: 'own',
    network: 'none',
    asInit: false,
    seccompFd: COMMAND_SECCOMP_FD,
  };
}

/** What a provider's processes see besides the system: of the person's files only what its configuration names. */
export interface ProviderView {
  /** The workspace's absolute path, and whether the provider may change it. */
  readonly workspace?: { readonly path: string; readonly isWritable: boolean };
  /** More read-only paths: the provider's own code. */
  readonly reads: readonly string[];
  /** Files and sockets of the machine at other paths, read-only; a socket can be connected to all the same. */
  readonly places?: readonly { readonly path: string; readonly at: string }[];
  readonly masks: Masks;
}

/** The profile of a provider: its host and its server together, with no network except through the egress proxy. */
export function providerProfile(
  request: Omit<ProfileRequest, 'workspace' | 'masks' | 'spool'>,
  { workspace, reads, places = [], masks }: ProviderView,
  seccompFd: number,
): Profile {
  const { runtime, shownId, tmpBytes } = request;
  return {
    mounts: [
      tmp(tmpBytes),
      ...shown(request.toolchains),
      ...reads.map((path): Mount => ({ kind: 'ro-try', path })),
      ...places.map((it): Mount => ({ kind: 'ro-at', ...it })),
      ...(workspace ? workspaceMounts(workspace.path, workspace.isWritable, { ...request, masks }) : []),
      ...runtime.needed.map(readOnly),
    ],
    shownId,
    names: runtime.etc,
    nests: false,
    proc: 'own',
    network: 'none',
    // bubblewrap's own init reaps the processes that the server leaves behind.
    asInit: false,
    seccompFd,
  };
}

/**
 * Descriptors that the bwrap of hosts and of commands inherits; 3 is a host's channel to the gateway, and a command's
 * seccomp program.
 */
export const HOST_FRAMES_FD = 3;
export const HOST_SECCOMP_FD = 4;
/** An execute host's channel to the egress proxy. Its seccomp program is the next descriptor. */
export const HOST_EGRESS_FD = 4;
/** The egress proxy's descriptor from which it receives the commands' listeners. */
export const EGRESS_LISTENERS_FD = 4;
/** For a provider host that may connect: its channel to the egress proxy, and the pipe that brings its token. */
export const PROVIDER_FDS = { line: HOST_EGRESS_FD, token: 5 };
export const COMMAND_SECCOMP_FD = 3;
export const COMMAND_STATUS_FD = 4;
/** The same for a command. Both are closed before bubblewrap starts. */
export const COMMAND_EGRESS_FDS = { line: 5, token: 6 };
