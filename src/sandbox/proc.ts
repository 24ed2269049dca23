/** What the kernel says of a process in /proc: few system calls, since thousands are asked in a second. */
import { closeSync, openSync, readFileSync, readSync } from 'node:fs';

export interface Stat {
  readonly parent: number;
  /** Its own and that of the children that it waited for. Ticks are 10 ms. */
  readonly cpuMs: number;
  /** Its own only. */
  readonly ownCpuMs: number;
  readonly threads: number;
  /** Ticks since boot, as text. */
  readonly startedAt: string;
}

/** Clock ticks and pages of the kernel's interface on every machine that has a seccomp table here. */
const TICK_MS = 10;
const PAGE_BYTES = 4096;

/** Of a process, or of a thread as `self/task/<id>`; undefined when there is none any more. */
export function statOf(pid: number | string): Stat | undefined {
  const text = textOf(`/proc/${pid}/stat`);
  return text === undefined ? undefined : parseStat(text);
}

/** A line of /proc/PID/stat. The name, which the process chose, may hold anything, so that the last bracket ends it. */
export function parseStat(text: string): Stat {
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

export interface Memory {
  readonly privateBytes: number;
  /** Of files and of memory shared with others; in each of them. */
  readonly sharedBytes: number;
}

/** Zero when there is no such process any more. */
export function statmOf(pid: number): Memory {
  const [, resident = 0, shared = 0] = (textOf(`/proc/${pid}/statm`) ?? '').split(' ').map(Number);
  return { privateBytes: (resident - shared) * PAGE_BYTES, sharedBytes: shared * PAGE_BYTES };
}

/** Memory that it shares with others and that no file holds, in bytes. */
export function sharedMemoryOf(pid: number): number {
  const kibibytes = /^RssShmem:\s*(\d+) kB$/m.exec(textOf(`/proc/${pid}/status`) ?? '')?.[1];
  return Number(kibibytes ?? 0) * 1024;
}

/** How many descriptors this process, and what it starts, may have. */
export function openFilesAllowed(): number {
  const hard = /^Max open files\s+\S+\s+(\d+)/m.exec(textOf('/proc/self/limits') ?? '')?.[1];
  return hard === undefined ? Infinity : Number(hard);
}

/** The oldest child of a process, which must have one thread; undefined when it has none. */
export function firstChildOf(pid: number): number | undefined {
  const first = (textOf(`/proc/${pid}/task/${pid}/children`) ?? '').split(' ')[0];
  return first ? Number(first) : undefined;
}

/** One mount, as the kernel tells of it. */
export interface Mounted {
  /** Of the mount itself, and of the one that it was mounted on. */
  readonly id: string;
  readonly parent: string;
  /** Where it is, as the process sees it. */
  readonly point: string;
  /** Which folder or file of its file system it shows, by the path that this has there now. */
  readonly root: string;
  /** Which file system that is. */
  readonly device: string;
}

/** The mounts in the namespace of a process, the oldest first; undefined when there is no such process any more. */
export function mountsOf(pid: number | 'self'): Mounted[] | undefined {
  let text: string;
  try {
    text = readFileSync(`/proc/${pid}/mountinfo`, 'utf8');
  } catch {
    return undefined; // ENOENT, ESRCH, EINVAL: it is a zombie.
  }
  return text.split('\n').flatMap((line) => {
    const [id = '', parent = '', device, root, point] = line.split(' ');
    return device && root && point ? [{ id, parent, device, root: unescaped(root), point: unescaped(point) }] : [];
  });
}

/** The kernel writes what separates words as octal digits. */
const unescaped = (path: string): string =>
  path.includes('\\')
    ? path.replace(/\\(\d{3})/g, (_, digits) => String.fromCharCode(Number.parseInt(digits, 8)))
    : path;

const buffer = Buffer.allocUnsafe(8192);

/** The first 8 KiB of a file that the kernel makes up; undefined when what it tells of is gone. */
export function textOf(path: string): string | undefined {
  let fd: number;
  try {
    fd = openSync(path, 'r');
  } catch {
    return undefined; // ENOENT.
  }
  try {
    return buffer.toString('latin1', 0, readSync(fd, buffer, 0, buffer.length, null));
  } catch {
    return undefined; // ESRCH: it ended meanwhile.
  } finally {
    closeSync(fd);
  }
}
