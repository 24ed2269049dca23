/**
 * Whether the program in the foreground of a terminal waits for input, by what the kernel says of its threads: the system
 * call that each sleeps in, and whether that is about the terminal. What a prompt says is not looked at.
 */
import { closeSync, openSync, readdirSync, readFileSync, readSync, statSync } from 'node:fs';
import { type Arch, type CallName, callNumbers } from '../syscalls.ts';

/** Where a terminal's other end lies: its file, as this process sees it. */
export interface Tty {
  readonly dev: number;
  readonly ino: number;
}

/** Process group in the foreground of the terminal of `leader`; undefined when there is none. */
export function foregroundOf(leader: number): number | undefined {
  const group = Number(fieldsOf(leader)?.[TPGID]);
  return group > 0 ? group : undefined;
}

/**
 * Names a thread of the foreground that sleeps until the terminal gives it input, and how often it slept: once it was woken
 * it is another name. Undefined where there is none.
 */
export function waiterOf(leader: number, tty: Tty): string | undefined {
  const group = foregroundOf(leader);
  if (group === undefined) return undefined;
  let left = THREADS_MAX;
  for (const name of readdirSync('/proc')) {
    const pid = Number(name);
    if (!Number.isInteger(pid) || Number(fieldsOf(pid)?.[PGRP]) !== group) continue;
    for (const thread of threadsOf(pid)) {
      left -= 1;
      if (left < 0) return undefined;
      const call = readQuietly(`/proc/${pid}/task/${thread}/syscall`)?.trim().split(' ') ?? [];
      if (!waitsFor(pid, call, tty)) continue;
      const status = readQuietly(`/proc/${pid}/task/${thread}/status`) ?? '';
      if (!/^State:\tS/m.test(status)) continue;
      return `${thread} ${/^voluntary_ctxt_switches:\t(\d+)/m.exec(status)?.[1]}`;
    }
  }
  return undefined;
}

/** Fields of /proc/PID/stat behind the name. */
const PGRP = 2;
const TPGID = 5;

function fieldsOf(pid: number): string[] | undefined {
  const text = readQuietly(`/proc/${pid}/stat`);
  return text?.slice(text.lastIndexOf(')') + 2).split(' ');
}

/** Threads looked at in one foreground; with more, whether one of them reads is not found out. */
const THREADS_MAX = 512;

function threadsOf(pid: number): string[] {
  try {
    return readdirSync(`/proc/${pid}/task`);
  } catch {
    return []; // ENOENT: it is gone.
  }
}

/** The calls that wait for a file; others that wait (accept, futex …) are not about files. */
const numbers = (...names: CallName[]) => new Set(callNumbers(names, process.arch as Arch));
const READS = numbers('read', 'readv');
const POLLS = numbers('poll', 'ppoll');
const SELECTS = numbers('select', 'pselect6');
const EPOLLS = numbers('epoll_wait', 'epoll_pwait', 'epoll_pwait2');
const POLLIN = 1;
const FDS_MAX = 1024;

/** `call` is a line of /proc/PID/syscall: the number, then its arguments. */
function waitsFor(pid: number, call: readonly string[], tty: Tty): boolean {
  const number = Number(call[0] === undefined || call[0] === '' ? Number.NaN : call[0]);
  const [first, second] = [Number(call[1]), Number(call[2])];
  if (READS.has(number)) return isTty(pid, first, tty);
  if (POLLS.has(number)) return polled(pid, first, second).some((fd) => isTty(pid, fd, tty));
  if (SELECTS.has(number)) return selected(pid, first, second).some((fd) => isTty(pid, fd, tty));
  if (EPOLLS.has(number)) return watched(pid, first).some((fd) => isTty(pid, fd, tty));
  return false;
}

function isTty(pid: number, fd: number, { dev, ino }: Tty): boolean {
  try {
    const found = statSync(`/proc/${pid}/fd/${fd}`);
    // /dev/tty is whatever terminal its session has.
    return (found.dev === dev && found.ino === ino) || (found.isCharacterDevice() && found.rdev === DEV_TTY);
  } catch {
    return false; // ENOENT: closed, or gone.
  }
}

const DEV_TTY = 5 << 8;

/** Descriptors of an array of pollfd that wait for input. */
function polled(pid: number, address: number, count: number): number[] {
  const bytes = memoryOf(pid, address, 8 * Math.min(count, FDS_MAX));
  const found: number[] = [];
  for (let at = 0; at + 8 <= bytes.length; at += 8)
    if ((bytes.readInt16LE(at + 4) & POLLIN) !== 0) found.push(bytes.readInt32LE(at));
  return found;
}

/** Descriptors of a set that `select` looks at. */
function selected(pid: number, count: number, address: number): number[] {
  const limit = Math.min(count, FDS_MAX);
  const bytes = memoryOf(pid, address, 8 * Math.ceil(limit / 64));
  const found: number[] = [];
  for (let fd = 0; fd < limit; fd++) if (((bytes[fd >> 3] ?? 0) & (1 << (fd & 7))) !== 0) found.push(fd);
  return found;
}

function watched(pid: number, fd: number): number[] {
  const text = readQuietly(`/proc/${pid}/fdinfo/${fd}`) ?? '';
  return [...text.matchAll(/^tfd:\s*(\d+) events:\s*([0-9a-f]+)/gm)]
    .filter(([, , events]) => (Number.parseInt(events as string, 16) & POLLIN) !== 0)
    .slice(0, FDS_MAX)
    .map(([, it]) => Number(it));
}

/** Bytes of another process's memory; fewer where it has none there. */
function memoryOf(pid: number, address: number, length: number): Buffer {
  const bytes = Buffer.alloc(length);
  let fd: number | undefined;
  try {
    fd = openSync(`/proc/${pid}/mem`, 'r');
    return bytes.subarray(0, readSync(fd, bytes, 0, length, address));
  } catch {
    return Buffer.alloc(0); // EACCES, EIO, ESRCH: it can't be known.
  } finally {
    if (fd !== undefined) closeSync(fd);
  }
}

function readQuietly(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return undefined; // ENOENT, ESRCH: it is gone. EACCES: it can't be known.
  }
}
