/** Reads what the kernel tells about processes in /proc, with few system calls, since thousands are read in a second. */
import { closeSync, openSync, readSync } from 'node:fs';
import { textAt } from '../base/quiet/reads.ts';

export interface ProcessStat {
  readonly parent: number;
  /** CPU time of the process and of its waited-for children. Ticks are 10 ms. */
  readonly cpuMs: number;
  /** CPU time of the process only. */
  readonly ownCpuMs: number;
  readonly threads: number;
  /** Ticks since boot, as text. */
  readonly startedAt: string;
}

/** Clock tick and page size of the kernel's interface on every supported architecture. */
const TICK_MS = 10;
const PAGE_BYTES = 4096;

/** Reads the stat of a process, or of a thread as `self/task/<id>`; undefined if it has ended. */
export function statOf(pid: number | string): ProcessStat | undefined {
  const text = textOf(`/proc/${pid}/stat`);
  return text === undefined ? undefined : parseStat(text);
}

/** Parses /proc/PID/stat. The process chose its name, which may hold anything, so the last bracket ends it. */
export function parseStat(text: string): ProcessStat {
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  const own = Number(fields[11]) + Number(fields[12]);
  const ticks = own + Number(fields[13]) + Number(fields[14]);
  return {
    parent: Number(fields[1]),
    cpuMs: ticks * TICK_MS,
    ownCpuMs: own * TICK_MS,
    threads: Number(fields[17]),
    startedAt: fields[19] ?? '',
  };
}

export interface ProcessMemory {
  readonly privateBytes: number;
  /** Bytes of mapped files and of shared memory; counted in each process that shares them. */
  readonly sharedBytes: number;
}

/** Memory of a process; zero if it has ended. */
export function statmOf(pid: number): ProcessMemory {
  const [, resident = 0, shared = 0] = (textOf(`/proc/${pid}/statm`) ?? '').split(' ').map(Number);
  return { privateBytes: (resident - shared) * PAGE_BYTES, sharedBytes: shared * PAGE_BYTES };
}

/** Bytes that a process, and children that it waited for, wrote to files on disks; zero if it has ended. */
export const bytesWrittenBy = (pid: number): number =>
  Number(/^write_bytes: (\d+)$/m.exec(textOf(`/proc/${pid}/io`) ?? '')?.[1] ?? 0);

/** Shared memory of a process that no file backs, in bytes. */
export function sharedMemoryOf(pid: number): number {
  const kibibytes = /^RssShmem:\s*(\d+) kB$/m.exec(textOf(`/proc/${pid}/status`) ?? '')?.[1];
  return Number(kibibytes ?? 0) * 1024;
}

/** A resource limit of a process, by its name in /proc/PID/limits; no limit if it has ended. */
export function limitOf(pid: string, name: string): { readonly soft: number; readonly hard: number } {
  const [, soft, hard] = new RegExp(`^${name} +(\\d+) +(\\d+)`, 'm').exec(textOf(`/proc/${pid}/limits`) ?? '') ?? [];
  return { soft: Number(soft ?? Infinity), hard: Number(hard ?? Infinity) };
}

/** The oldest child of a single-threaded process; undefined if it has none. */
export function firstChildOf(pid: number): number | undefined {
  const first = (textOf(`/proc/${pid}/task/${pid}/children`) ?? '').split(' ')[0];
  return first ? Number(first) : undefined;
}

/** One mount, from the kernel's mount table. */
export interface MountEntry {
  /** Ids of the mount itself and of the one below. */
  readonly id: string;
  readonly parent: string;
  /** Mount point, as the process sees it. */
  readonly point: string;
  /** Path, within its file system, of the folder or file that it shows. */
  readonly root: string;
  /** Device number of the file system. */
  readonly device: string;
  /** Type of the file system, such as `ext4`. */
  readonly type: string;
}

/** The mounts in a process's namespace, oldest first; undefined if it has ended. */
export function mountsOf(pid: number | 'self'): MountEntry[] | undefined {
  return textAt(`/proc/${pid}/mountinfo`)?.split('\n').flatMap(toMountEntry);
}

/** For example `36 35 98:0 / /mnt/a\040b rw,noatime master:1 - virtiofs mount0 rw`. */
export function toMountEntry(line: string): MountEntry[] {
  const [left = '', right = ''] = line.split(' - ');
  const [id = '', parent = '', device, root, point] = left.split(' ');
  const [type = ''] = right.split(' ');
  return device && root && point ? [{ id, parent, device, root: unescaped(root), point: unescaped(point), type }] : [];
}

/** Decodes the octal digits that the kernel writes for separators. */
export const unescaped = (path: string): string =>
  path.includes('\\')
    ? path.replace(/\\(\d{3})/g, (_, digits) => String.fromCharCode(Number.parseInt(digits, 8)))
    : path;

const buffer = Buffer.allocUnsafe(8192);

/** Reads the first 8 KiB of a file of /proc or /sys; undefined if its subject is gone. */
export function textOf(path: string): string | undefined {
  let fd: number;
  try {
    fd = openSync(path, 'r');
  } catch {
    return undefined; // ENOENT: already gone.
  }
  try {
    return buffer.toString('latin1', 0, readSync(fd, buffer, 0, buffer.length, null));
  } catch {
    return undefined; // ESRCH: ended meanwhile.
  } finally {
    closeSync(fd);
  }
}
