/** Operations on the process of a host. */
import { readFileSync, writeFileSync } from 'node:fs';

/**
 * Raises or lowers the scheduling priority of a session of processes. The kernel gives each session an equal share of
 * the processors, so a fork bomb that makes thousands of sessions would keep its host from ending it. Only root may
 * raise a priority; for others RLIMIT_NPROC bounds the bomb first.
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
    // ESRCH: already gone.
  }
}

/** The innermost process below a chain of launchers with one child each; the launcher itself if /proc does not list children. */
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
