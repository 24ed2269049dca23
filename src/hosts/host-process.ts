/** The process of a host, as the kernel knows it. */
import { readFileSync, writeFileSync } from 'node:fs';

/**
 * Lets a session of processes run before others, or behind them. Each session gets its share of the processors, so that a fork bomb that
 * makes thousands of them would keep its host from ending it. Only root may go before; for others RLIMIT_NPROC bounds it first.
 */
export function prefer(pid: number, nice: number): void {
  try {
    writeFileSync(`/proc/${pid}/autogroup`, `${nice}`);
  } catch {
    // EPERM; ENOENT on a kernel without autogroups; ESRCH.
  }
}

export function killQuietly(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // ESRCH: it is gone.
  }
}

/** The innermost process below a chain of launchers, each of which has one child; the launcher itself where /proc doesn't say. */
export function leafOf(pid: number): number {
  for (let at = pid; ; ) {
    let children: string;
    try {
      children = readFileSync(`/proc/${at}/task/${at}/children`, 'utf8').trim();
    } catch {
      return at; // Gone meanwhile, or a kernel without this file.
    }
    if (children === '') return at;
    at = Number(children.split(' ')[0]);
  }
}
