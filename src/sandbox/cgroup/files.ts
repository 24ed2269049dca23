/**
 * A control group as the files that the kernel shows of it. What differs between version 1 (one folder for each controller)
 * and version 2 (one for all) is known here and nowhere else.
 */
import { existsSync, mkdirSync, readdirSync, rmdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { textOf } from '../proc.ts';

export type CgroupVersion = 'v1' | 'v2';

/** Where a group lies, by what is counted there; plain data. In version 2 the three are one. */
export interface Group {
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

/** What the kernel counted in a group since it was made. */
export interface GroupUse {
  readonly cpuMs: number;
  /** Most memory at once; pages of files that were read count, as long as nothing else wanted the room. */
  readonly peakBytes?: number;
  /** Most processes and threads at once; on an older kernel how many there are. */
  readonly tasks: number;
  /** Whether a process was killed because the group had no more memory for it. */
  readonly outOfMemory: boolean;
  /** Whether a process or thread could not be started because the group had too many. */
  readonly outOfTasks: boolean;
}

export const foldersOf = ({ memory, pids, cpu }: Group): string[] => [...new Set([memory, pids, cpu])];

export const groupBelow = ({ version, memory, pids, cpu }: Group, name: string): Group => ({
  version,
  memory: join(memory, name),
  pids: join(pids, name),
  cpu: join(cpu, name),
});

/**
 * Files to which a process writes 0 to enter. In version 1 those of single threads: the kernel lets a thread move itself
 * at once, while a process that is moved waits some milliseconds for all processors.
 */
export const joinFilesOf = (group: Group): string[] =>
  foldersOf(group).map((it) => join(it, group.version === 'v1' ? 'tasks' : 'cgroup.procs'));

/**
 * Whether the kernel has given it what limits take; where it does not say, that is found out by trying. To try costs some
 * milliseconds in version 2, since the daemon moves for it.
 */
export function isGiven({ version, memory }: Group): boolean {
  const given = version === 'v2' ? textOf(join(memory, 'cgroup.controllers'))?.split(/\s+/) : undefined;
  return given === undefined || ['memory', 'pids'].every((it) => given.includes(it));
}

/** Makes it. Throws where that is not allowed. */
export function makeGroup(group: Group): void {
  for (const folder of foldersOf(group)) mkdirSync(folder);
}

/** Lets groups be made within that are limited. */
export function passOn(group: Group): void {
  if (group.version === 'v2') write(join(group.memory, 'cgroup.subtree_control'), '+memory +pids');
}

/** Throws where a limit is not taken. Swap counts as memory, or there is none. */
export function limitGroup(group: Group, { memoryBytes, tasks }: GroupLimits): void {
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
 * A figure that the kernel does not give is absent, or 0. What can't have happened by the others is not asked: each file
 * takes 20 µs, of each command. A process that was killed because the whole machine had no memory is not the group's.
 */
export function useOf({ version, memory, pids, cpu }: Group, { memoryBytes, tasks = 0 }: GroupLimits): GroupUse {
  const isV1 = version === 'v1';
  const peakBytes = numberOf(join(memory, isV1 ? 'memory.max_usage_in_bytes' : 'memory.peak'));
  const most = numberOf(join(pids, 'pids.peak'));
  const cpuMs = isV1
    ? (numberOf(join(cpu, 'cpuacct.usage')) ?? 0) / 1e6
    : (rowOf(join(cpu, 'cpu.stat'), 'usage_usec') ?? 0) / 1e3;
  const counted = (file: string, row: string) => (rowOf(file, row) ?? 0) > 0;
  // A huge page is refused when there is room for small ones, and the processors hold some of it in advance.
  const isNear = peakBytes === undefined || peakBytes > memoryBytes / 2;
  return {
    cpuMs: Math.round(cpuMs),
    ...(peakBytes !== undefined && { peakBytes }),
    tasks: most ?? numberOf(join(pids, 'pids.current')) ?? 0,
    outOfMemory: isNear && counted(join(memory, isV1 ? 'memory.oom_control' : 'memory.events'), 'oom_kill'),
    outOfTasks: (most === undefined || most >= tasks) && counted(join(pids, 'pids.events'), 'max'),
  };
}

/** Memory of a group that the kernel can't take back, and how often it has read pages of files again that it had taken back; since it was made. */
export function heldIn({ version, memory }: Group): { readonly bytes: number; readonly refaults: number } {
  const file = join(memory, 'memory.stat');
  const rows =
    version === 'v1' ? ['rss', 'shmem'] : ['anon', 'shmem', 'kernel_stack', 'pagetables', 'slab_unreclaimable'];
  const all = rowsOf(file);
  const bytes = rows.reduce((sum, row) => sum + (all.get(row) ?? 0), 0);
  return { bytes, refaults: all.get('workingset_refault_file') ?? 0 };
}

/** Pids of the processes in it, not in groups within, as our namespace numbers them. */
export const processesOf = ({ pids }: Group): number[] => pidsIn(pids);

const pidsIn = (folder: string): number[] =>
  (textOf(join(folder, 'cgroup.procs')) ?? '').split('\n').filter(Boolean).map(Number);

/** Removes it; false while something is in it. */
export function removeGroup(group: Group): boolean {
  return foldersOf(group).map(removeFolder).every(Boolean);
}

/** Ends everything in a group and in those within it, and removes them; false while something is left. */
export function clearGroup(group: Group): boolean {
  return foldersOf(group)
    .map((it) => clearFolder(it))
    .every(Boolean);
}

function clearFolder(folder: string): boolean {
  writeIfThere(join(folder, 'cgroup.kill'), '1');
  const inner = foldersIn(folder)
    .map((name) => clearFolder(join(folder, name)))
    .every(Boolean);
  for (const pid of pidsIn(folder)) kill(pid);
  return inner && removeFolder(folder);
}

function foldersIn(folder: string): string[] {
  try {
    return readdirSync(folder, { withFileTypes: true })
      .filter((it) => it.isDirectory())
      .map((it) => it.name);
  } catch {
    return []; // ENOENT: it is gone.
  }
}

function removeFolder(folder: string): boolean {
  try {
    rmdirSync(folder);
  } catch {
    return !existsSync(folder); // EBUSY, ENOENT.
  }
  return true;
}

function kill(pid: number): void {
  try {
    // 0 is a process of another namespace, and would be our own group.
    if (pid > 0 && pid !== process.pid) process.kill(pid, 'SIGKILL');
  } catch {
    // ESRCH: it is gone.
  }
}

const write = (file: string, text: string): void => writeFileSync(file, text);

/** False where the kernel has no such file. */
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

/** Of a file whose lines are names and numbers. */
function rowOf(file: string, name: string): number | undefined {
  const row = (textOf(file) ?? '').split('\n').find((it) => it.startsWith(`${name} `));
  return row === undefined ? undefined : Number(row.slice(name.length + 1));
}
