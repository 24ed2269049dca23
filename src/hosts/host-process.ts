/** The process of a host: what it is started with, and operations on it. */
import type { ChildProcess } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import type { Socket } from 'node:net';
import { basename } from 'node:path';
import type { ChildStatus, HostStatus, HostTier } from '../base/call.ts';
import type { Limits } from '../base/limits.ts';
import type { Log, Powers } from '../base/powers.ts';
import { namesAt, textAt } from '../base/quiet/reads.ts';
import type { ConfinedProcess } from '../sandbox/confined-process.ts';
import type { Stdio } from '../sandbox/launcher.ts';
import { statmOf, textOf } from '../sandbox/proc.ts';
import type { Follower } from './follower/follower.ts';
import type { HostSetup } from './job.ts';

export interface HostOptions {
  readonly tier: HostTier;
  /** Absolute path. */
  readonly workspace: string;
  /** Everything that the host may know; `threads` and `groups` are completed when it starts. */
  readonly setup: Omit<HostSetup, 'threads' | 'groups' | 'shadow'>;
  /** The threads of a tier host; absent for a host that takes its jobs on its only socket. */
  readonly threads?: Omit<NonNullable<HostSetup['threads']>, 'firstFd'>;
  /** The workspace's spool, if the host keeps what commands change. */
  readonly spool?: string | undefined;
  /** Gives the changes of the workspace to such a host. */
  readonly follower?: Follower | undefined;
  /** Starts the process with these descriptors. Throws SANDBOX_UNAVAILABLE if this machine can't confine it. */
  start(stdio: Stdio): ConfinedProcess;
  /** The connection to the egress proxy, for an execute host whose commands may connect. */
  readonly egress?: Socket | undefined;
  /** Receives what a provider host reports of its server; if it throws, the host is ended. */
  readonly onTold?: (told: unknown) => void;
  readonly limits: Limits;
  readonly powers: Powers;
}

/** Logs how a child ended: one that the kernel killed says nothing itself. */
export function logEnd(child: ChildProcess, log: Log, about: object): void {
  child.once('exit', (code, signal) => log.info({ ...about, pid: child.pid, code, signal }, 'child process ended'));
}

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

/** The innermost process below a chain of launchers with one child each; the launcher itself if /proc does not list children. */
export function leafOf(pid: number): number {
  for (let at = pid; ; ) {
    // No text: gone meanwhile, or a kernel without this file.
    const children = textAt(`/proc/${at}/task/${at}/children`)?.trim() ?? '';
    if (children === '') return at;
    at = Number(children.split(' ')[0]);
  }
}

/** Processes below a host that are looked at; a page may make a browser start any number. */
const CHILDREN_MAX = 64;
const PROGRAM_CHARS_MAX = 40;

/** The status of a host that has one thread. */
export function singleStatus(
  { pid, jobs }: { readonly pid: number; readonly jobs: number },
  { tier, workspace, restarts = 0 }: Pick<HostStatus, 'tier' | 'workspace'> & { readonly restarts?: number },
): HostStatus {
  return { tier, workspace, pid, threads: 1, busy: jobs, rssBytes: rssOf(pid), cpuMs: 0, restarts };
}

function rssOf(pid: number): number {
  const { privateBytes, sharedBytes } = statmOf(pid);
  return privateBytes + sharedBytes;
}

/** The processes that a host keeps, the largest first. */
export function childrenOf(hostPid: number): ChildStatus[] {
  const pids = namesAt(`/proc/${hostPid}/task`).flatMap((it) => childrenOfThread(hostPid, Number(it)));
  // Any thread of a host starts programs, but a program starts its own from its first thread, so only that one is read.
  for (let at = 0; at < pids.length && pids.length < CHILDREN_MAX; at++)
    pids.push(...childrenOfThread(pids[at] as number, pids[at] as number));
  return pids
    .slice(0, CHILDREN_MAX)
    .map((pid) => ({ program: programOf(pid), pid, rssBytes: rssOf(pid) }))
    .filter(({ rssBytes }) => rssBytes > 0)
    .sort((a, b) => b.rssBytes - a.rssBytes);
}

const childrenOfThread = (pid: number, thread: number): number[] =>
  (textOf(`/proc/${pid}/task/${thread}/children`) ?? '')
    .split(' ')
    .filter((it) => it !== '')
    .map(Number);

/** The name of a program; of a script that Node runs, the script's. Some programs write their words with spaces between them. */
function programOf(pid: number): string {
  const [program = '', ...words] = (textOf(`/proc/${pid}/cmdline`) ?? '').split(/[\0 ]/);
  const script = /(^|\/)node$/.test(program) ? words.find((it) => /\.[cm]?[jt]s$/.test(it)) : undefined;
  return basename(script ?? program)
    .replace(/\.[cm]?[jt]s$/, '')
    .slice(0, PROGRAM_CHARS_MAX);
}

/** What to do about the last words of bubblewrap, which makes the mounts as the owner of the workspace. */
export function adviceOn(last: string): { suggestion?: string } {
  if (!/Can't find source path .*: Permission denied/.test(last)) return {};
  return {
    suggestion:
      'The owner of the workspace may not enter that folder. Install Ringfence where every user may enter, such as ' +
      'below /opt, or run the daemon as the owner of the workspace.',
  };
}
