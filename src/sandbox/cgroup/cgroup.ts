/**
 * The control groups of a daemon: chooses the version that works here, makes one group for each host, and removes them. The kernel
 * counts and limits in them what a watchdog could only observe. docs/decisions/0006-cgroups.md
 *
 *     ringfence-<pid namespace>-<pid>-<start>.<n>     this daemon's groups
 *       daemon                                        version 2 only: the daemon, since a group with groups in it holds no process
 *       host-<n>                                      what one host and its commands may use together
 *         own                                         the host's processes
 *         commands                                    execute hosts only; the host may write in it
 *           <n>                                       one command
 */
import {
  appendFileSync,
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  writeFileSync,
} from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import type { Limits } from '../../base/limits.ts';
import { type Powers, pause } from '../../base/powers.ts';
import { statOf, unescaped } from '../proc.ts';
import {
  type CgroupFolders,
  type CgroupVersion,
  clearGroup,
  foldersOf,
  groupBelow,
  isGiven,
  joinFilesOf,
  limitGroup,
  makeGroup,
  passOn,
  removeGroup,
} from './files.ts';

/** Arguments that start a probe in a group as a host starts a command: it makes, limits and enters the group from within. */
export function trialArgs(host: HostGroup | undefined): string[] {
  if (!host?.commands) return [];
  const { group } = host.commands;
  const trial = groupBelow(group, 'trial');
  const folders = foldersOf(trial);
  const limit = join(trial.memory, group.version === 'v1' ? 'memory.limit_in_bytes' : 'memory.max');
  const files = joinFilesOf(trial);
  const make = folders.map((_, i) => `mkdir "$${i + 1}"`);
  const enter = files.map((_, i) => `echo 0 >"$${folders.length + 2 + i}"`);
  const [count, all] = [folders.length + 1, folders.length + 1 + files.length];
  const script = [...make, `echo ${256 * MiB} >"$${count}"`, ...enter, `shift ${all}`, 'exec "$@"'].join(' && ');
  return ['/bin/sh', '-c', script, 'sh', ...folders, limit, ...files];
}

/** What a launch needs to start a host in its group. */
export interface HostGroup {
  /** Files to which the host's launcher writes 0 before anything else. */
  readonly join: readonly string[];
  /** Absent for hosts that run no commands. */
  readonly commands?: CommandGroupParent;
}

/** The place in which an execute host makes the groups of its commands; plain data. */
export interface CommandGroupParent {
  readonly group: CgroupFolders;
  /** Files to which a thread that entered a command's group writes 0 to return to the host's group. */
  readonly home: readonly string[];
}

export interface HostGroupRequest {
  readonly runsCommands: boolean;
  /** Bounds of a host that has less or more than others. */
  readonly bounds?: { readonly memoryMb: number; readonly tasks: number };
  /** User id that the host runs as. */
  readonly uid?: number;
  readonly gid?: number;
}

/** The groups of this process in each version, as read from two files of /proc. */
export interface OwnGroups {
  readonly v1?: CgroupFolders;
  readonly v2?: CgroupFolders;
}

const CONTROLLERS = ['memory', 'pids', 'cpuacct'] as const;

/** Parses the texts of `/proc/self/cgroup` and `/proc/self/mountinfo`. */
export function parseOwnGroups(cgroups: string, mountinfo: string): OwnGroups {
  const mounts = mountinfo.split('\n').flatMap((line) => {
    const [left = '', right = ''] = line.split(' - ');
    const [, , , root = '', at = ''] = left.split(' ').map(unescaped);
    const [type = '', , options = ''] = right.split(' ');
    return type.startsWith('cgroup') ? [{ root, at, type, controllers: options.split(',') }] : [];
  });
  const paths = cgroups.split('\n').flatMap((line) => {
    const [, controllers, path] = /^\d+:([^:]*):(.*)$/.exec(line) ?? [];
    return path === undefined ? [] : [{ controllers: controllers as string, path }];
  });
  const folderOf = (mount: (typeof mounts)[number] | undefined, path: string | undefined) => {
    if (!mount || path === undefined) return undefined;
    const { root, at } = mount;
    if (root === '/') return resolve(join(at, path));
    // A container sees only its own part of the tree, under a name that counts from the top.
    return path === root || path.startsWith(`${root}/`) ? join(at, path.slice(root.length)) : at;
  };
  const [memory, pids, cpu] = CONTROLLERS.map((name) =>
    folderOf(
      mounts.find((it) => it.type === 'cgroup' && it.controllers.includes(name)),
      paths.find((it) => it.controllers.split(',').includes(name))?.path,
    ),
  );
  const v2 = folderOf(
    mounts.find((it) => it.type === 'cgroup2'),
    paths.find((it) => it.controllers === '')?.path,
  );
  return {
    ...(memory && pids && cpu && { v1: { version: 'v1', memory, pids, cpu } as const }),
    ...(v2 && { v2: { version: 'v2', memory: v2, pids: v2, cpu: v2 } as const }),
  };
}

export interface CgroupOptions {
  /** Folder whose file lists the daemon's groups, for the next start. */
  readonly stateDir: string;
  readonly limits: Limits;
  /** The only version to try, or none; the best one if absent. */
  readonly force?: CgroupVersion | 'none' | undefined;
  /** Groups of this process; tests pass folders of an ordinary file system. */
  readonly own?: OwnGroups;
}

/** File of the state directory with the groups of daemons that may not have removed them. */
const NOTED = 'cgroups';

/**
 * Opens the best version that works here, tested by making and limiting a group; undefined if none works. In version 2 a group that
 * holds a process can't be divided, so this process must not have started others; those that it starts from here on are in its group.
 */
export function openCgroups(options: CgroupOptions, powers: Powers): Cgroups | undefined {
  const { force, own = ownGroups() } = options;
  const bases: OwnGroups = { ...own, ...(own.v2 && { v2: toDivide(own.v2) }) };
  removeLeftovers(options.stateDir, bases, powers);
  for (const version of ['v2', 'v1'] as const) {
    const [group, base] = [own[version], bases[version]];
    if (!group || !base || (force !== undefined && force !== version) || !isGiven(base)) continue;
    try {
      return new Cgroups(base, group, options, powers);
    } catch (error) {
      // EACCES, EROFS, ENOENT: not delegated; EBUSY: the group holds other processes.
      powers.log.debug({ version, error }, 'control groups can not be used');
    }
  }
  return undefined;
}

function ownGroups(): OwnGroups {
  if (!existsSync('/proc/self/cgroup')) return {};
  return parseOwnGroups(readFileSync('/proc/self/cgroup', 'utf8'), readFileSync('/proc/self/mountinfo', 'utf8'));
}

/** The group of version 2 to divide: a daemon that takes over starts in that of the daemon before, which divided the one above. */
function toDivide({ memory }: CgroupFolders): CgroupFolders {
  const at = memory.replace(new RegExp(`/${PREFIX}-\\d+-\\d+-\\d+\\.\\d+/daemon$`), '');
  return { version: 'v2', memory: at, pids: at, cpu: at };
}

/** How long a group may take to become empty; the kernel needs some milliseconds. */
const CLEAR = { everyMs: 20, times: 100 };

let opened = 0;

export class Cgroups implements AsyncDisposable {
  readonly version: CgroupVersion;
  /** Folders of the controllers: a stored proof is valid only for these. */
  readonly base: CgroupFolders;
  readonly #root: CgroupFolders;
  readonly #limits: Limits;
  readonly #powers: Powers;
  readonly #hosts = new Map<HostGroup, CgroupFolders>();
  readonly #clearing = new Set<Promise<void>>();
  #nextHost = 1;

  /** Throws if groups can't be made or limited below `base`; `own` is the group of this process. */
  constructor(base: CgroupFolders, own: CgroupFolders, { limits, stateDir }: CgroupOptions, powers: Powers) {
    this.version = base.version;
    this.base = base;
    this.#limits = limits;
    this.#powers = powers;
    opened += 1;
    this.#root = groupBelow(base, `${ownName()}.${opened}`);
    try {
      this.#build();
      note(stateDir, this.#root);
    } catch (error) {
      if (this.version === 'v2') leaveDaemonGroup(own);
      clearGroup(this.#root);
      throw error;
    }
  }

  /** Makes a group for a host that is about to start. */
  open({ runsCommands, bounds, uid, gid }: HostGroupRequest): HostGroup {
    const { hostMemoryMb, hostCommandsMax, hostCommandsMemoryMb, commandMax, commandThreadsMax } = this.#limits;
    const memoryBytes = (bounds?.memoryMb ?? hostMemoryMb) * MiB;
    for (const it of foldersOf(this.#root)) mkdirSync(it, { recursive: true });
    const hostGroup = groupBelow(this.#root, `host-${this.#nextHost++}`);
    const ownGroup = groupBelow(hostGroup, 'own');
    makeGroup(hostGroup);
    passOn(hostGroup);
    makeGroup(ownGroup);
    // Another user may need to reach their groups below, whatever our umask is.
    for (const it of [this.#root, hostGroup, ownGroup].flatMap(foldersOf)) chmodSync(it, 0o711);
    limitGroup(ownGroup, { memoryBytes, ...(bounds && { tasks: bounds.tasks }) });
    let host: HostGroup = { join: joinFilesOf(ownGroup) };
    if (runsCommands) {
      // A compromised host could lift the limits of its commands, but not this one.
      limitGroup(hostGroup, {
        memoryBytes: memoryBytes + Math.min(hostCommandsMax * commandMax.memoryMb, hostCommandsMemoryMb) * MiB,
        tasks: TASKS_OF_HOST + hostCommandsMax * (commandMax.processes * commandThreadsMax + TASKS_OF_SANDBOX),
      });
      const group = groupBelow(hostGroup, 'commands');
      makeGroup(group);
      passOn(group);
      const home = this.version === 'v1' ? joinFilesOf(ownGroup) : [];
      // In version 2, moving a process takes write access to the common ancestor of both groups.
      const above = this.version === 'v2' ? [join(hostGroup.memory, 'cgroup.procs')] : [];
      if (uid !== undefined && gid !== undefined)
        for (const it of [...foldersOf(group), ...home, ...above]) chownSync(it, uid, gid);
      host = { ...host, commands: { group, home } };
    }
    this.#hosts.set(host, hostGroup);
    return host;
  }

  /** Kills what is still in a host's group and removes the group, now or once it is empty. */
  close(host: HostGroup): void {
    const group = this.#hosts.get(host);
    if (!group) return;
    this.#hosts.delete(host);
    const clearing = clear(group, this.#powers).finally(() => {
      this.#clearing.delete(clearing);
      // In version 2 this process is in the group: the next start removes it, or whoever delegated it to us.
      if (this.version === 'v1' && this.#hosts.size === 0) removeGroup(this.#root);
    });
    this.#clearing.add(clearing);
  }

  /** Waits until the groups of all ended hosts are removed. */
  async [Symbol.asyncDispose](): Promise<void> {
    for (const host of [...this.#hosts.keys()]) this.close(host);
    // Timers of `powers` are unreferenced and would let the process exit early.
    const alive = setInterval(() => {}, 2 ** 30);
    await Promise.all(this.#clearing).finally(() => clearInterval(alive));
  }

  #build(): void {
    makeGroup(this.#root);
    if (this.version === 'v2') {
      const daemon = groupBelow(this.#root, 'daemon');
      makeGroup(daemon);
      writeFileSync(join(daemon.memory, 'cgroup.procs'), `${process.pid}`);
      passOn(this.base);
      passOn(this.#root);
    }
    const trial = groupBelow(this.#root, 'trial');
    makeGroup(trial);
    limitGroup(trial, { memoryBytes: MiB, tasks: 1 });
    removeGroup(trial);
    if (this.version === 'v1') removeGroup(this.#root);
  }
}

const MiB = 1024 * 1024;

/** Threads that an execute host and its launchers need. */
const TASKS_OF_HOST = 256;

/** Processes of bubblewrap itself for each command. */
export const TASKS_OF_SANDBOX = 2;

/** Moves the daemon back to its original group, for a machine whose version 2 turns out unusable. */
function leaveDaemonGroup(own: CgroupFolders): void {
  try {
    writeFileSync(join(own.memory, 'cgroup.procs'), `${process.pid}`);
  } catch {
    // EBUSY, EACCES: the daemon had not moved.
  }
}

async function clear(group: CgroupFolders, powers: Powers): Promise<void> {
  for (let turn = 0; turn < CLEAR.times; turn++) {
    if (clearGroup(group)) return;
    await pause(CLEAR.everyMs, powers);
  }
  powers.log.warn({ group }, 'a control group could not be removed: a process in it does not end');
}

const PREFIX = 'ringfence';

/** Adds start time and namespace to the pid, which is reused and means another process in another container. */
function ownName(): string {
  return `${PREFIX}-${pidNamespace()}-${process.pid}-${statOf(process.pid)?.startedAt}`;
}

const pidNamespace = (): string => /\d+/.exec(readlinkSync('/proc/self/ns/pid'))?.[0] ?? '';

/** Whether the folder is a group of a daemon that has ended. */
function isLeftover(folder: string): boolean {
  const [, namespace, pid, startedAt] = LEFTOVER.exec(basename(folder)) ?? [];
  return namespace === pidNamespace() && statOf(Number(pid))?.startedAt !== startedAt;
}
const LEFTOVER = new RegExp(`^${PREFIX}-(\\d+)-(\\d+)-(\\d+)\\.\\d+$`);

function note(stateDir: string, root: CgroupFolders): void {
  appendFileSync(
    join(stateDir, NOTED),
    foldersOf(root)
      .map((it) => `${it}\n`)
      .join(''),
    { mode: 0o600 },
  );
}

/** Removes leftovers beside our own group and those listed in this state directory: a daemon may have started in another group. */
function removeLeftovers(stateDir: string, own: OwnGroups, powers: Powers): void {
  const file = join(stateDir, NOTED);
  const noted = existsSync(file) ? readFileSync(file, 'utf8').split('\n').filter(Boolean) : [];
  const parents = [own.v1, own.v2].flatMap((it) => (it ? foldersOf(it) : []));
  const beside = parents
    .filter((it) => existsSync(it))
    .flatMap((parent) => readdirSync(parent).map((name) => join(parent, name)));
  const leftover = [...new Set([...noted, ...beside])].filter(isLeftover);
  // A folder is the group of one controller, or of all.
  for (const it of leftover) if (existsSync(it)) void clear({ version: 'v1', memory: it, pids: it, cpu: it }, powers);
  writeFileSync(
    file,
    noted
      .filter((it) => !leftover.includes(it) && existsSync(dirname(it)))
      .map((it) => `${it}\n`)
      .join(''),
    {
      mode: 0o600,
    },
  );
}
