/** Starts confined processes, whether or not their confinement has been proven. */
import type { ChildProcess, StdioOptions } from 'node:child_process';
import { closeSync, openSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { HostTier } from '../base/call.ts';
import type { Limits } from '../base/limits.ts';
import type { Powers } from '../base/powers.ts';
import {
  COMMAND_SECCOMP_FD,
  commandProfile,
  EGRESS_LISTENERS_FD,
  egressProfile,
  executeHostProfile,
  hostProfile,
  type Runtime,
  toBwrapArgs,
} from './bubblewrap.ts';
import type { HostGroup } from './cgroup/cgroup.ts';
import { foldersOf } from './cgroup/files.ts';
import { EGRESS_PORT } from './door.ts';
import { identity, ownerOf, reachable, shownIds, type UserIds } from './entry-rights.ts';
import { certificateVariables, JAVA_STORE } from './etc/certificates.ts';
import { OwnEtc } from './etc/own-etc.ts';
import type { GivenSettings } from './etc/settings.ts';
import { bindsOf } from './host-binds.ts';
import { devicesTable, dying, freshPidNamespace, type Launch, readOnlyDevices, rlimits, toLaunch } from './launch.ts';
import { type Masks, onDisk } from './masks.ts';
import { HOME, type Profile } from './mount.ts';
import { openFilesFor } from './open-files.ts';
import type { OuterNamespaces } from './outer-namespace.ts';
import { seccompFilter } from './seccomp.ts';

/** Descriptors from 0 on. */
export type Stdio = Extract<StdioOptions, readonly unknown[]>;

/** The complete environment of a host or launcher: no variable of the daemon. */
export const BARE_ENVIRONMENT: Readonly<Record<string, string>> = {
  PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
  HOME: '/tmp',
  LANG: 'C.UTF-8',
};

/** Settings of commands' git that override all config files, as environment variables. */
const gitSettings = (settings: Readonly<Record<string, string>>): Record<string, string> =>
  Object.fromEntries([
    ['GIT_CONFIG_COUNT', `${Object.keys(settings).length}`],
    ...Object.entries(settings).flatMap(([key, value], i) => [
      [`GIT_CONFIG_KEY_${i}`, key],
      [`GIT_CONFIG_VALUE_${i}`, value],
    ]),
  ]);

/**
 * Keeps settings out of the home. A home outlives a session, and settings in it name programs: what one session left there would run in
 * the commands of another, of which a person or a rule had checked only the words. These files last for one session.
 */
const SETTINGS_IN_SCRATCH = {
  XDG_CONFIG_HOME: '/tmp/.config',
  GIT_CONFIG_GLOBAL: '/tmp/.gitconfig',
  npm_config_userconfig: '/tmp/.npmrc',
  CURL_HOME: '/tmp',
  WGETRC: '/tmp/.wgetrc',
};

/**
 * Java takes its home from /etc/passwd, which is the machine's where sandboxes don't nest and the folder is another user's, and no proxy
 * from the environment. Maven, Gradle, sbt and Kotlin read these, as every virtual machine does; each prints one line about it.
 */
const JAVA_TOOL_OPTIONS = [
  `-Duser.home=${HOME}`,
  ...['http', 'https'].flatMap((it) => [`-D${it}.proxyHost=127.0.0.1`, `-D${it}.proxyPort=${EGRESS_PORT}`]),
  '-Dhttp.nonProxyHosts=localhost|127.*|[::1]',
  // Maven 3.9 and newer read the properties above only with this one.
  '-Daether.connector.http.useSystemProperties=true',
].join(' ');

/**
 * Keeps `git status` from refreshing the index. Also stops git from using a bare repository inside another: a repository may carry
 * one as plain files outside of the protected `.git`, whose config names a program that git then runs (default as of git 3.0).
 */
const COMMAND_ENVIRONMENT: Readonly<Record<string, string>> = {
  ...BARE_ENVIRONMENT,
  HOME,
  ...SETTINGS_IN_SCRATCH,
  JAVA_TOOL_OPTIONS,
  TERM: 'dumb',
  // No person watches except at a terminal; and a model's input costs money.
  CI: '1',
  NO_UPDATE_NOTIFIER: '1',
  npm_config_update_notifier: 'false',
  GIT_OPTIONAL_LOCKS: '0',
  ...gitSettings({
    'safe.bareRepository': 'explicit',
    // git sees only size and change time of masked files: src/sandbox/git/view.ts.
    'core.checkStat': 'minimal',
    // No key of the person is there: a repository that says so would only make each commit fail. `git commit -S` still signs.
    'commit.gpgSign': 'false',
    'tag.gpgSign': 'false',
  }),
};

/** The same for a workspace: Java's store is among our own files for /etc. */
export const commandEnvironment = (
  workspace: string,
  { nests }: { nests: boolean },
): Readonly<Record<string, string>> =>
  nests || identity(workspace).uid === undefined
    ? {
        ...COMMAND_ENVIRONMENT,
        JAVA_TOOL_OPTIONS: `${JAVA_TOOL_OPTIONS} -Djavax.net.ssl.trustStore=/etc/${JAVA_STORE}`,
      }
    : COMMAND_ENVIRONMENT;

/** The egress proxy writes nothing. */
const EGRESS_TMP_BYTES = 1024 * 1024;

interface HostRequest {
  readonly tier: HostTier;
  readonly workspace: string;
  readonly program: readonly string[];
  readonly masks: Masks;
  /** More folders that commands see, read-only. */
  readonly folders?: readonly string[] | undefined;
  /** Whether a sandbox within a sandbox works here. */
  readonly nests: boolean;
  readonly group?: HostGroup | undefined;
  /** Descriptor of its seccomp program. */
  readonly seccompFd: number;
  /** The first descriptor behind those of all its seccomp programs. */
  readonly filesFd: number;
}

export interface LauncherOptions {
  readonly runtime: Runtime;
  /** Folder of the daemon, visible in no sandbox; holds the seccomp programs. */
  readonly stateDir: string;
  /** Folders outside of /usr that commands see, read-only. */
  readonly toolchains?: readonly string[];
  /** Folders that execute hosts see, read-only, and their commands only in part. */
  readonly hostFolders?: readonly string[];
  /** Files whose certificates of authorities are trusted beside the machine's. */
  readonly certificates?: readonly string[];
  /** Settings of package managers, for the /etc of commands. */
  readonly settings?: GivenSettings;
  /** Gives the folder in which a workspace's write hosts keep their undo data; there is none if absent. */
  spoolOf?(workspace: string): string | undefined;
  /** Gives the folder with the previews of a workspace's commands; there are none if absent. */
  previewsOf?(workspace: string): string | undefined;
  /** Gives the folder with the homes of a workspace's commands; if absent, each command has one in memory. */
  homesOf?(workspace: string): string | undefined;
  readonly limits: Limits;
  readonly arch: string;
}

interface CommandArgsOptions {
  readonly isNested: boolean;
  readonly folders?: readonly string[] | undefined;
  readonly seccompFd?: number;
  /** For programs of images, whose files the arguments leave out. */
  readonly isImage?: boolean | undefined;
  /** Whether a control group counts memory: then /dev/shm may hold a quarter of the largest command's memory. */
  readonly isCounted?: boolean;
}

export interface Launcher {
  readonly bwrap: string;
  /** Files with the seccomp programs. */
  readonly filters: {
    readonly host: string;
    readonly nesting: string;
    readonly command: string;
    readonly sockets: string;
    readonly browser: string;
  };
  /** File for `readOnlyDevices`. */
  readonly devices: string;
  host(request: HostRequest): Launch;
  egress(program: readonly string[]): Launch;
  commandArgs(workspace: string, options: CommandArgsOptions): string[];
  /** `filters` become the descriptors that follow `stdio`. */
  start(launch: Launch, stdio: Stdio, filters: readonly string[]): ChildProcess;
}

/** Seccomp programs of commands without Unix sockets, and with their own; `isCounted` if a control group counts their memory. */
export function commandFilters(arch: string, isCounted: boolean): { none: Buffer; own: Buffer } {
  const base = { arch, allowMemfd: isCounted, allowTracing: true };
  // Commands may use sockets inside their own network namespace; masks hide the Unix sockets of other processes.
  return {
    none: seccompFilter({ ...base, sockets: ['inet', 'interfaces'] }),
    own: seccompFilter({ ...base, sockets: ['inet', 'unix', 'interfaces'] }),
  };
}

const egressVariables = ({ egressThreads }: Limits): [string, string | number][] =>
  Object.entries({
    ...certificateVariables,
    NODE_CHANNEL_FD: EGRESS_LISTENERS_FD,
    UV_THREADPOOL_SIZE: egressThreads,
  });

function filterFiles(arch: string, toFile: (name: string, program: Buffer) => string): Launcher['filters'] {
  // Chromium makes a Unix socket for itself; no socket of others is in its sandbox.
  // Commands are subject to their host's filter and their own.
  const ofCommands = { arch, sockets: ['inet', 'unix'], allowMemfd: true, allowTracing: true } as const;
  return {
    host: toFile('seccomp-host.bpf', seccompFilter({ arch, sockets: [] })),
    nesting: toFile('seccomp-nesting.bpf', seccompFilter({ ...ofCommands, allowNamespaces: 'bubblewrap' })),
    command: toFile('seccomp-command.bpf', commandFilters(arch, false).none),
    sockets: toFile('seccomp-sockets.bpf', commandFilters(arch, false).own),
    browser: toFile(
      'seccomp-browser.bpf',
      seccompFilter({ arch, sockets: ['inet', 'unix'], allowNamespaces: 'chromium' }),
    ),
  };
}

/** Writes our own files for the /etc of commands, and gives the maker of requests that are alike for all sandboxes of a workspace. */
function requestsOf(options: LauncherOptions, { log }: Powers) {
  const { runtime, stateDir, limits, toolchains = [], hostFolders = [], certificates = [], settings = {} } = options;
  const etc = new OwnEtc(stateDir, shownIds(), {
    settingsBytesMax: limits.settingsFileBytesMax,
    certificates,
    settings,
  });
  for (const path of etc.withoutCertificates)
    log.warn({ path }, 'no certificates of authorities can be read here; commands do not trust them');
  const ownFilesOf = ({ uid, gid }: UserIds, filesFd: number | undefined) => {
    if (uid === undefined || gid === undefined) return etc.ofOwn();
    // Sandboxes within a host's show what that shows; a host that is not confined could not open them.
    return filesFd === undefined ? [] : etc.ofOther({ uid, gid }, filesFd);
  };
  return (workspace: string, folders: readonly string[] = [], filesFd?: number) => {
    const owner = identity(workspace);
    return {
      runtime,
      workspace,
      ownFiles: ownFilesOf(owner, filesFd),
      toolchains: reachable([...toolchains, ...folders], workspace),
      hostFolders: reachable(hostFolders, workspace),
      tmpBytes: limits.commandTmpBytes,
      shownId: owner.shownId,
    };
  };
}

export function createLauncher(
  bwrap: string,
  options: LauncherOptions,
  { outer, powers }: { outer: OuterNamespaces; powers: Powers },
): Launcher {
  const { runtime, limits, stateDir, arch } = options;
  const filters = filterFiles(arch, toFile);
  const devices = toFile('devices.fstab', Buffer.from(devicesTable()));
  function toFile(name: string, program: Buffer): string {
    const path = join(stateDir, name);
    writeFileSync(path, program, { mode: 0o600 });
    return path;
  }
  const request = requestsOf(options, powers);
  return {
    bwrap,
    filters,
    devices,
    host({ tier, workspace, program, masks, folders, nests, seccompFd, filesFd, group }) {
      const owner = identity(workspace);
      const { shownId, ...ids } = owner;
      const who = { ...ids, isForeign: tier === 'execute', group };
      const processBounds = {
        ...(tier === 'write' && { openFiles: limits.openFilesMax + limits.shadowHeldFilesMax }),
        ...(tier === 'execute' && { openFiles: openFilesFor(owner.uid, limits) }),
        ...(tier === 'external_api' && { dataMb: limits.pageHostMemoryMb }),
      };
      const bounds = [...rlimits(limits, processBounds), ...readOnlyDevices(shownId, devices)];
      if (tier === 'execute' && !nests) return toLaunch([...bounds, ...dying(), ...program], who);
      const groups = group?.commands ? [...foldersOf(group.commands.group), ...group.commands.home] : [];
      // No other host sees it, and no command.
      const spool = tier === 'write' ? options.spoolOf?.(workspace) : undefined;
      const homes = tier === 'execute' ? options.homesOf?.(workspace) : undefined;
      const previews = tier === 'write' || tier === 'execute' ? options.previewsOf?.(workspace) : undefined;
      const asked = {
        ...request(workspace, folders, filesFd),
        masks: onDisk(masks, workspace, ownerOf(workspace)),
        groups,
        spool,
        homes,
        previews,
      };
      const profile = tier === 'execute' ? executeHostProfile(asked) : hostProfile(tier, asked);
      const ownProc = profile.proc === 'bound' ? freshPidNamespace(limits) : [];
      const ownBwrap = [bwrap, ...toBwrapArgs({ ...profile, seccompFd }), '--', ...program];
      const binds = bindsOf(workspace, profile, owner);
      const files = filesReadBy(profile);
      return { ...toLaunch([...bounds, ...ownProc, ...ownBwrap], who), binds, files };
    },
    egress(program) {
      const { shownId, ...ids } = identity(stateDir);
      const asked = { runtime, tmpBytes: EGRESS_TMP_BYTES, shownId };
      const profile = egressProfile(asked, stateDir);
      const env = egressVariables(limits).flatMap(([name, value]) => ['--setenv', name, `${value}`]);
      const bounds = [...rlimits(limits), ...readOnlyDevices(shownId, devices)];
      return toLaunch([...bounds, bwrap, ...toBwrapArgs(profile), ...env, '--', ...program], {
        ...ids,
        isForeign: false,
      });
    },
    commandArgs: (workspace, { isNested, folders, isImage, seccompFd = COMMAND_SECCOMP_FD, isCounted = false }) => {
      const shm = isCounted ? { shmBytes: Math.floor((limits.commandMax.memoryMb * 1024 * 1024) / 4) } : {};
      return toBwrapArgs({
        ...commandProfile({ ...request(workspace, folders), isNested, isImage }),
        ...shm,
        seccompFd,
      });
    },
    start: (launch, stdio, ownFilters) => startIn(outer, launch, stdio, { filters: ownFilters, powers }),
  };
}

/** The files that bubblewrap reads from descriptors, in their order. */
const filesReadBy = ({ ownFiles = [] }: Pick<Profile, 'ownFiles'>): string[] =>
  ownFiles.flatMap((it) => (it.fd === undefined ? [] : [it.path]));

/**
 * Starts a launch in the namespace around sandboxes, if it runs programs of others. `filters` and then its own files become the
 * descriptors that follow `stdio`.
 */
function startIn(
  outer: OuterNamespaces,
  { before, program, isForeign, user, files = [] }: Launch,
  stdio: Stdio,
  { filters, powers }: { filters: readonly string[]; powers: Powers },
): ChildProcess {
  const join = isForeign ? outer.joinOf(user ?? {}) : [];
  const [command = '', ...args] = [...before, ...join, ...program];
  // Otherwise the words before the program change the user.
  const ids = before.length === 0 ? user : undefined;
  const fds = [...filters, ...files].map((file) => openSync(file, 'r'));
  try {
    return powers.spawn(command, args, { stdio: [...stdio, ...fds], env: BARE_ENVIRONMENT, cwd: '/', ...ids });
  } finally {
    for (const fd of fds) closeSync(fd);
  }
}
