/**
 * The control groups of a daemon: which version it may use here, one group for each host, and their removal. The kernel
 * counts and limits in them what a watchdog could only look at. docs/decisions/0006-cgroups.md
 *
 *     ringfence-<pid namespace>-<pid>-<start>.<n>     of this daemon
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
import type { Limits } from '../../limits.ts';
import type { Powers } from '../../powers.ts';
import { statOf } from '../proc.ts';
import {
  type CgroupVersion,
  clearGroup,
  foldersOf,
  type Group,
  groupBelow,
  isGiven,
  joinFilesOf,
  limitGroup,
  makeGroup,
  passOn,
  removeGroup,
} from './files.ts';

/** Arguments before a probe that put it into a group as a host does with a command: made, limited and entered from within. */
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

/** What a launch needs to put a host into its group. */
export interface HostGroup {
  /** Files to which its launcher writes 0 before anything else. */
  readonly join: readonly string[];
  /** Absent for hosts that run no commands. */
  readonly commands?: CommandPlace;
}

/** Where an execute host makes the groups of its commands; plain data. */
export interface CommandPlace {
  readonly group: Group;
  /** Files to which a thread that entered a command's group writes 0 to be back. */
  readonly home: readonly string[];
}

export interface HostGroupRequest {
  readonly runsCommands: boolean;
  /** Of a host with less, or more, than others. */
  readonly bounds?: { readonly memoryMb: number; readonly tasks: number };
  /** Who the host runs as. */
  readonly uid?: number;
  readonly gid?: number;
}

/** The group that this process is in, as the two files of /proc tell it; for each version that there is. */
export interface OwnGroups {
  readonly v1?: Group;
  readonly v2?: Group;
}

const CONTROLLERS = ['memory', 'pids', 'cpuacct'] as const;

/** From the texts of `/proc/self/cgroup` and `/proc/self/mountinfo`. */
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
    // A container is shown its own part of the tree only, under a name that counts from the top.
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

/** As mountinfo writes spaces and the like. */
const unescaped = (text: string): string =>
  text.replaceAll(/\\([0-7]{3})/g, (_, octal: string) => String.fromCharCode(Number.parseInt(octal, 8)));

export interface CgroupOptions {
  /** Where it is noted which groups there are, for the next start. */
  readonly stateDir: string;
  readonly limits: Limits;
  /** The only version to be tried, or none; the best one when absent. */
  readonly force?: CgroupVersion | 'none';
  /** Of this process; by tests also of a file system that is none. */
  readonly own?: OwnGroups;
}

/** File of the state directory with the groups of daemons that may not have removed them. */
const NOTED = 'cgroups';

/** The best version that can be used here, tried by making and limiting a group; undefined where there is none. */
export function openCgroups(options: CgroupOptions, powers: Powers): Cgroups | undefined {
  const { force, own = ownGroups() } = options;
  removeLeftovers(options.stateDir, own, powers);
  for (const version of ['v2', 'v1'] as const) {
    const base = own[version];
    if (!base || (force !== undefined && force !== version) || !isGiven(base)) continue;
    try {
      return new Cgroups(base, options, powers);
    } catch (error) {
      // EACCES, EROFS, ENOENT: not delegated; EBUSY: the group holds others' processes.
      powers.log.debug({ version, error }, 'control groups can not be used');
    }
  }
  return undefined;
}

function ownGroups(): OwnGroups {
  if (!existsSync('/proc/self/cgroup')) return {};
  return parseOwnGroups(readFileSync('/proc/self/cgroup', 'utf8'), readFileSync('/proc/self/mountinfo', 'utf8'));
}

/** How long what is in a group may take to be gone; the kernel takes some milliseconds. */
const CLEAR = { everyMs: 20, times: 100 };

let opened = 0;

export class Cgroups implements AsyncDisposable {
  readonly version: CgroupVersion;
  /** Which controllers, and where: what a proof of them rests on. */
  readonly base: Group;
  readonly #root: Group;
  readonly #limits: Limits;
  readonly #powers: Powers;
  readonly #hosts = new Map<HostGroup, Group>();
  readonly #clearing = new Set<Promise<void>>();
  #nextHost = 1;

  /** Throws when groups can't be made or limited below `base`. */
  constructor(base: Group, { limits, stateDir }: CgroupOptions, powers: Powers) {
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
      if (this.version === 'v2') leaveDaemonGroup(base);
      clearGroup(this.#root);
      throw error;
    }
  }

  /** A group for a host that is about to start. */
  open({ runsCommands, bounds, uid, gid }: HostGroupRequest): HostGroup {
    const { hostMemoryMb, hostCommandsMax, hostCommandsMemoryMb, commandMax, commandThreadsMax } = this.#limits;
    const memoryBytes = (bounds?.memoryMb ?? hostMemoryMb) * MiB;
    for (const it of foldersOf(this.#root)) mkdirSync(it, { recursive: true });
    const whole = groupBelow(this.#root, `host-${this.#nextHost++}`);
    const own = groupBelow(whole, 'own');
    makeGroup(whole);
    passOn(whole);
    makeGroup(own);
    // Somebody else may have to find what is theirs below, whatever our umask is.
    for (const it of [this.#root, whole, own].flatMap(foldersOf)) chmodSync(it, 0o711);
    limitGroup(own, { memoryBytes, ...(bounds && { tasks: bounds.tasks }) });
    let host: HostGroup = { join: joinFilesOf(own) };
    if (runsCommands) {
      // A host that was taken over could lift the limits of its commands, but not this.
      limitGroup(whole, {
        memoryBytes: memoryBytes + Math.min(hostCommandsMax * commandMax.memoryMb, hostCommandsMemoryMb) * MiB,
        tasks: TASKS_OF_HOST + hostCommandsMax * (commandMax.processes * commandThreadsMax + TASKS_OF_SANDBOX),
      });
      const group = groupBelow(whole, 'commands');
      makeGroup(group);
      passOn(group);
      const home = this.version === 'v1' ? joinFilesOf(own) : [];
      // In version 2 whoever moves a process must be allowed to in the group above both.
      const above = this.version === 'v2' ? [join(whole.memory, 'cgroup.procs')] : [];
      if (uid !== undefined && gid !== undefined)
        for (const it of [...foldersOf(group), ...home, ...above]) chownSync(it, uid, gid);
      host = { ...host, commands: { group, home } };
    }
    this.#hosts.set(host, whole);
    return host;
  }

  /** Ends what is still in a host's group and removes it, now or as soon as it is empty. */
  close(host: HostGroup): void {
    const group = this.#hosts.get(host);
    if (!group) return;
    this.#hosts.delete(host);
    const clearing = clear(group, this.#powers).finally(() => {
      this.#clearing.delete(clearing);
      // In version 2 this process is in it: the next start removes it, or whoever gave us the group.
      if (this.version === 'v1' && this.#hosts.size === 0) removeGroup(this.#root);
    });
    this.#clearing.add(clearing);
  }

  /** Waits until all groups are removed whose hosts have ended. */
  async [Symbol.asyncDispose](): Promise<void> {
    for (const host of [...this.#hosts.keys()]) this.close(host);
    // Timers of powers keep no process alive, and nothing else may.
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

/** Threads of an execute host and its launchers. */
const TASKS_OF_HOST = 256;

/** bubblewrap's own two processes of a command. */
export const TASKS_OF_SANDBOX = 2;

/** Back to where the daemon came from, for a machine whose version 2 can't be used after all. */
function leaveDaemonGroup(base: Group): void {
  try {
    writeFileSync(join(base.memory, 'cgroup.procs'), `${process.pid}`);
  } catch {
    // EBUSY, EACCES: it had not moved.
  }
}

async function clear(group: Group, powers: Powers): Promise<void> {
  for (let turn = 0; turn < CLEAR.times; turn++) {
    if (clearGroup(group)) return;
    await new Promise<void>((resolve) => powers.after(CLEAR.everyMs, resolve));
  }
  powers.log.warn({ group }, 'a control group could not be removed: something in it does not end');
}

const PREFIX = 'ringfence';

/** A pid is used again, and means another process in another container; with its start and namespace it does not. */
function ownName(): string {
  return `${PREFIX}-${pidNamespace()}-${process.pid}-${statOf(process.pid)?.startedAt}`;
}

const pidNamespace = (): string => /\d+/.exec(readlinkSync('/proc/self/ns/pid'))?.[0] ?? '';

/** Whether it is a group of a daemon that is no more. */
function isLeftover(folder: string): boolean {
  const [, namespace, pid, startedAt] = LEFTOVER.exec(basename(folder)) ?? [];
  return namespace === pidNamespace() && statOf(Number(pid))?.startedAt !== startedAt;
}
const LEFTOVER = new RegExp(`^${PREFIX}-(\\d+)-(\\d+)-(\\d+)\\.\\d+$`);

function note(stateDir: string, root: Group): void {
  appendFileSync(
    join(stateDir, NOTED),
    foldersOf(root)
      .map((it) => `${it}\n`)
      .join(''),
    { mode: 0o600 },
  );
}

/** Those beside our own, and those that this state directory knows of: a daemon may have been started somewhere else. */
function removeLeftovers(stateDir: string, own: OwnGroups, powers: Powers): void {
  const file = join(stateDir, NOTED);
  const noted = existsSync(file) ? readFileSync(file, 'utf8').split('\n').filter(Boolean) : [];
  const parents = [own.v1, own.v2].flatMap((it) => (it ? foldersOf(it) : []));
  const beside = parents
    .filter((it) => existsSync(it))
    .flatMap((parent) => readdirSync(parent).map((name) => join(parent, name)));
  const leftover = [...new Set([...noted, ...beside])].filter(isLeftover);
  // One folder is a group of one controller, or of all.
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
