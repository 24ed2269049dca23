/**
 * Tells whether a terminal's foreground program waits for input, from what the kernel tells about its threads: the system
 * call that each sleeps in, and whether that call reads the terminal. A prompt's text does not matter.
 */
import { closeSync, openSync, readdirSync, readSync, statSync } from 'node:fs';
import { namesAt, textAt } from '../../base/quiet/reads.ts';
import { type Arch, type CallName, callNumbers } from '../syscalls.ts';

/** The file of a terminal's slave end, as this process sees it. */
export interface Tty {
  readonly dev: number;
  readonly ino: number;
}

/** Foreground process group of the terminal of `leader`; undefined if there is none. */
export function foregroundOf(leader: number): number | undefined {
  const group = Number(fieldsOf(leader)?.[TPGID]);
  return group > 0 ? group : undefined;
}

/**
 * Names a foreground thread that waits for the terminal's input, with its count of sleeps: after it has woken up
 * the name differs. Undefined if there is none.
 */
export function waiterOf(leader: number, tty: Tty): string | undefined {
  const group = foregroundOf(leader);
  if (group === undefined) return undefined;
  let left = THREADS_MAX;
  for (const name of readdirSync('/proc')) {
    const pid = Number(name);
    if (!Number.isInteger(pid) || Number(fieldsOf(pid)?.[PGRP]) !== group) continue;
    for (const thread of namesAt(`/proc/${pid}/task`)) {
      left -= 1;
      if (left < 0) return undefined;
      const call = textAt(`/proc/${pid}/task/${thread}/syscall`)?.trim().split(' ') ?? [];
      if (!waitsFor(pid, call, tty)) continue;
      const status = textAt(`/proc/${pid}/task/${thread}/status`) ?? '';
      if (!/^State:\tS/m.test(status)) continue;
      return `${thread} ${/^voluntary_ctxt_switches:\t(\d+)/m.exec(status)?.[1]}`;
    }
  }
  return undefined;
}

/** Fields of /proc/PID/stat after the name. */
const PGRP = 2;
const TPGID = 5;

function fieldsOf(pid: number): string[] | undefined {
  const text = textAt(`/proc/${pid}/stat`);
  return text?.slice(text.lastIndexOf(')') + 2).split(' ');
}

/** Threads checked in one foreground; with more, the others are ignored. */
const THREADS_MAX = 512;

/** Calls that wait for a file; other blocking calls (accept, futex …) do not wait for files. */
const numbers = (...names: CallName[]) => new Set(callNumbers(names, process.arch as Arch));
const READS = numbers('read', 'readv');
const POLLS = numbers('poll', 'ppoll');
const SELECTS = numbers('select', 'pselect6');
const EPOLLS = numbers('epoll_wait', 'epoll_pwait', 'epoll_pwait2');
const POLLIN = 1;
const FDS_MAX = 1024;

/** Whether a call waits for the terminal. `call` is a line of /proc/PID/syscall: the number, then its arguments. */
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
    // /dev/tty is the terminal of the process's session.
    return (found.dev === dev && found.ino === ino) || (found.isCharacterDevice() && found.rdev === DEV_TTY);
  } catch {
    return false; // ENOENT: closed, or the process has ended.
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

/** Descriptors of a `select` set. */
function selected(pid: number, count: number, address: number): number[] {
  const limit = Math.min(count, FDS_MAX);
  const bytes = memoryOf(pid, address, 8 * Math.ceil(limit / 64));
  const found: number[] = [];
  for (let fd = 0; fd < limit; fd++) if (((bytes[fd >> 3] ?? 0) & (1 << (fd & 7))) !== 0) found.push(fd);
  return found;
}

function watched(pid: number, fd: number): number[] {
  const text = textAt(`/proc/${pid}/fdinfo/${fd}`) ?? '';
  return [...text.matchAll(/^tfd:\s*(\d+) events:\s*([0-9a-f]+)/gm)]
    .filter(([, , events]) => (Number.parseInt(events as string, 16) & POLLIN) !== 0)
    .slice(0, FDS_MAX)
    .map(([, it]) => Number(it));
}

/** Reads another process's memory; fewer bytes if it has none there. */
function memoryOf(pid: number, address: number, length: number): Buffer {
  const bytes = Buffer.alloc(length);
  let fd: number | undefined;
  try {
    fd = openSync(`/proc/${pid}/mem`, 'r');
    return bytes.subarray(0, readSync(fd, bytes, 0, length, address));
  } catch {
    return Buffer.alloc(0); // EACCES, EIO, ESRCH: not readable.
  } finally {
    if (fd !== undefined) closeSync(fd);
  }
}
