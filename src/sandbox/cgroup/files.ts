/**
 * Reads and writes the kernel's files of a control group. Only this file knows what differs between version 1 (one folder for each
 * controller) and version 2 (one folder for all).
 */
import { existsSync, mkdirSync, readdirSync, rmdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { signalQuietly } from '../../base/quiet/signals.ts';
import { textOf } from '../proc.ts';

export type CgroupVersion = 'v1' | 'v2';

/** The folders of a group, one for each controller; plain data. In version 2 all three are the same. */
export interface CgroupFolders {
  readonly version: CgroupVersion;
  readonly memory: string;
  readonly pids: string;
  readonly cpu: string;
}

export interface GroupLimits {
  readonly memoryBytes: number;
  /** Processes and threads. */
  readonly tasks?: number;
}

/** What the kernel has counted in a group since its creation. */
export interface GroupUse {
  readonly cpuMs: number;
  /** Peak memory, bytes; cached file pages count as long as nothing else needed the memory. */
  readonly peakBytes?: number | undefined;
  /** Peak number of processes and threads; on an older kernel the current number. */
  readonly tasks: number;
  /** Whether the kernel killed a process because the group ran out of memory. */
  readonly outOfMemory: boolean;
  /** Whether a process or thread could not start because the group was at its limit. */
  readonly outOfTasks: boolean;
}

export const foldersOf = ({ memory, pids, cpu }: CgroupFolders): string[] => [...new Set([memory, pids, cpu])];

export const groupBelow = ({ version, memory, pids, cpu }: CgroupFolders, name: string): CgroupFolders => ({
  version,
  memory: join(memory, name),
  pids: join(pids, name),
  cpu: join(cpu, name),
});

/**
 * Files to which a process writes 0 to enter the group. In version 1 the ones for single threads: a thread can move itself
 * at once, while moving a process waits some milliseconds for all processors.
 */
export const joinFilesOf = (group: CgroupFolders): string[] =>
  foldersOf(group).map((it) => join(it, group.version === 'v1' ? 'tasks' : 'cgroup.procs'));

/**
 * Whether the group has the controllers that limits need; true if the kernel does not say, and the caller tries. Trying costs some
 * milliseconds in version 2, since the daemon has to change its group.
 */
export function isGiven({ version, memory }: CgroupFolders): boolean {
  const controllers = version === 'v2' ? textOf(join(memory, 'cgroup.controllers'))?.split(/\s+/) : undefined;
  return controllers === undefined || ['memory', 'pids'].every((it) => controllers.includes(it));
}

/** Creates the group's folders. Throws if that is not allowed. */
export function makeGroup(group: CgroupFolders): void {
  for (const folder of foldersOf(group)) mkdirSync(folder);
}

/** Lets the groups inside this one have limits. */
export function passOn(group: CgroupFolders): void {
  if (group.version === 'v2') write(join(group.memory, 'cgroup.subtree_control'), '+memory +pids');
}

/** Sets the group's limits. Throws if the kernel rejects one. Swap counts as memory or is off. */
export function limitGroup(group: CgroupFolders, { memoryBytes, tasks }: GroupLimits): void {
  const { version, memory, pids } = group;
  if (tasks !== undefined) write(join(pids, 'pids.max'), `${tasks}`);
  if (version === 'v2') {
    write(join(memory, 'memory.max'), `${memoryBytes}`);
    write(join(memory, 'memory.oom.group'), '1');
    writeIfThere(join(memory, 'memory.swap.max'), '0');
    return;
  }
  write(join(memory, 'memory.limit_in_bytes'), `${memoryBytes}`);
  if (!writeIfThere(join(memory, 'memory.memsw.limit_in_bytes'), `${memoryBytes}`))
    writeIfThere(join(memory, 'memory.swappiness'), '0');
}

/**
 * Reads what the group has used. A figure that the kernel does not give is absent, or 0. Events that the other figures rule out are
 * not read: each file costs each command 20 µs. A process killed because the whole machine ran out of memory does not count.
 */
export function useOf(
  { version, memory, pids, cpu }: CgroupFolders,
  { memoryBytes, tasks = 0 }: GroupLimits,
): GroupUse {
  const isV1 = version === 'v1';
  const peakBytes = numberOf(join(memory, isV1 ? 'memory.max_usage_in_bytes' : 'memory.peak'));
  const most = numberOf(join(pids, 'pids.peak'));
  const cpuMs = isV1
    ? (numberOf(join(cpu, 'cpuacct.usage')) ?? 0) / 1e6
    : (rowOf(join(cpu, 'cpu.stat'), 'usage_usec') ?? 0) / 1e3;
  const counted = (file: string, row: string) => (rowOf(file, row) ?? 0) > 0;
  // The kernel refuses a huge page while small ones still fit, and each processor reserves some memory in advance.
  const isNear = peakBytes === undefined || peakBytes > memoryBytes / 2;
  return {
    cpuMs: Math.round(cpuMs),
    peakBytes,
    tasks: most ?? numberOf(join(pids, 'pids.current')) ?? 0,
    outOfMemory: isNear && counted(join(memory, isV1 ? 'memory.oom_control' : 'memory.events'), 'oom_kill'),
    outOfTasks: (most === undefined || most >= tasks) && counted(join(pids, 'pids.events'), 'max'),
  };
}

/**
 * Memory of a group that the kernel can't reclaim, in bytes, and the number of reclaimed file pages that were read
 * again; since its creation.
 */
export function heldIn({ version, memory }: CgroupFolders): { readonly bytes: number; readonly refaults: number } {
  const file = join(memory, 'memory.stat');
  const rows =
    version === 'v1' ? ['rss', 'shmem'] : ['anon', 'shmem', 'kernel_stack', 'pagetables', 'slab_unreclaimable'];
  const all = rowsOf(file);
  const bytes = rows.reduce((sum, row) => sum + (all.get(row) ?? 0), 0);
  return { bytes, refaults: all.get('workingset_refault_file') ?? 0 };
}

/** Pids of the processes in the group itself, not in its subgroups, in our pid namespace. */
export const processesOf = ({ pids }: CgroupFolders): number[] => pidsIn(pids);

const pidsIn = (folder: string): number[] =>
  (textOf(join(folder, 'cgroup.procs')) ?? '').split('\n').filter(Boolean).map(Number);

/** Removes the group; false while it holds anything. */
export function removeGroup(group: CgroupFolders): boolean {
  return foldersOf(group).map(removeFolder).every(Boolean);
}

/** Kills everything in a group and its subgroups and removes them; false while anything is left. */
export function clearGroup(group: CgroupFolders): boolean {
  return foldersOf(group)
    .map((it) => clearFolder(it))
    .every(Boolean);
}

function clearFolder(folder: string): boolean {
  writeIfThere(join(folder, 'cgroup.kill'), '1');
  const inner = foldersIn(folder)
    .map((name) => clearFolder(join(folder, name)))
    .every(Boolean);
  // The kernel shows a process of another pid namespace as 0; kill(0) would signal our own process group.
  for (const pid of pidsIn(folder)) if (pid > 0 && pid !== process.pid) signalQuietly(pid, 'SIGKILL');
  return inner && removeFolder(folder);
}

function foldersIn(folder: string): string[] {
  try {
    return readdirSync(folder, { withFileTypes: true })
      .filter((it) => it.isDirectory())
      .map((it) => it.name);
  } catch {
    return []; // ENOENT: already gone.
  }
}

function removeFolder(folder: string): boolean {
  try {
    rmdirSync(folder);
  } catch {
    return !existsSync(folder); // EBUSY: still in use; ENOENT: already gone.
  }
  return true;
}

const write = (file: string, text: string): void => writeFileSync(file, text);

/** False if the kernel has no such file. */
function writeIfThere(file: string, text: string): boolean {
  if (!existsSync(file)) return false;
  write(file, text);
  return true;
}

function numberOf(file: string): number | undefined {
  const number = Number.parseInt(textOf(file) ?? '', 10);
  return Number.isNaN(number) ? undefined : number;
}

function rowsOf(file: string): ReadonlyMap<string, number> {
  const lines = (textOf(file) ?? '').split('\n').map((line) => line.split(' '));
  return new Map(lines.map(([name = '', number]): [string, number] => [name, Number(number)]));
}

/** Reads one number from a file whose lines are names and numbers. */
function rowOf(file: string, name: string): number | undefined {
  const row = (textOf(file) ?? '').split('\n').find((it) => it.startsWith(`${name} `));
  return row === undefined ? undefined : Number(row.slice(name.length + 1));
}
