/**
 * The user namespace around all sandboxes of a daemon, one for each user that they run as. The kernel counts inotify, fanotify, pending
 * signals and message queues by user, over all processes. A namespace has bounds of its own for them, which hold for it together with
 * all namespaces below, so that sandboxes leave the rest to the person's programs.
 */
import type { ChildProcess } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import type { Socket } from 'node:net';
import type { Powers } from '../base/powers.ts';
import { findProgram } from './find-program.ts';
import { limitOf, textOf } from './proc.ts';

/** Names below /proc/sys/user, each with the file that bounds one user of the machine, and the share of it for sandboxes. */
const COUNTERS = [
  { name: 'max_inotify_instances', machine: '/proc/sys/fs/inotify/max_user_instances', share: 1 / 2 },
  // What follows a workspace for undo takes up to half.
  { name: 'max_inotify_watches', machine: '/proc/sys/fs/inotify/max_user_watches', share: 1 / 4 },
  { name: 'max_fanotify_groups', machine: '/proc/sys/fs/fanotify/max_user_groups', share: 1 / 2 },
  { name: 'max_fanotify_marks', machine: '/proc/sys/fs/fanotify/max_user_marks', share: 1 / 4 },
] as const;

/** Limits that a namespace takes from the process that makes it, by their names in /proc/self/limits. */
const RLIMITS = [
  { option: '--sigpending', line: 'Max pending signals' },
  { option: '--msgqueue', line: 'Max msgqueue size' },
] as const;
const RLIMIT_SHARE = 1 / 2;

/** Sets the bounds, and stays in the namespace for others to enter it by, until its input ends with this process. */
const HOLD =
  'cd /proc/sys/user && for it; do echo "${it#*=}" >"${it%%=*}" || exit; done && exec cat >/dev/null 2>/dev/null';
/** Name of the process once the bounds are set. */
const HOLDER = 'cat\n';

/** Longest wait for the bounds, in naps of a millisecond: three programs start one after the other. */
const NAPS_MAX = 5_000;
/** Never notified: used only as a timed sleep. */
const nap = new Int32Array(new SharedArrayBuffer(4));

interface User {
  readonly uid?: number;
  readonly gid?: number;
}

export class OuterNamespaces implements Disposable {
  readonly #powers: Powers;
  /** Processes that hold the namespaces, by user id; undefined for users who may not make such a namespace on this machine. */
  readonly #holders = new Map<number | undefined, ChildProcess | undefined>();

  constructor(powers: Powers) {
    this.#powers = powers;
  }

  /** Begins to make the namespace of a user, so that the first sandbox waits for less of it. */
  prepare(user: User): void {
    if (!this.#holders.has(user.uid)) this.#holders.set(user.uid, this.#hold(user));
  }

  /** Command prefix that enters the user's namespace, to be run as that user; empty if there can be none. */
  joinOf(user: User): string[] {
    this.prepare(user);
    const holder = this.#holders.get(user.uid);
    const nsenter = findProgram('nsenter');
    if (nsenter === undefined || holder?.pid === undefined || !isReady(holder.pid)) {
      if (holder) this.#powers.log.warn({ ...user }, 'sandboxes of this user have no bounds of inotify and its kin');
      this.#holders.set(user.uid, undefined);
      return [];
    }
    return [nsenter, '--user', '--preserve-credentials', '--target', `${holder.pid}`, '--'];
  }

  [Symbol.dispose](): void {
    for (const it of this.#holders.values()) it?.stdin?.destroy();
    this.#holders.clear();
  }

  #hold({ uid, gid }: User): ChildProcess | undefined {
    const [prlimit, unshare] = [findProgram('prlimit'), findProgram('unshare')];
    if (prlimit === undefined || unshare === undefined) return undefined;
    const make = [unshare, '--user', '--map-current-user', '--keep-caps', '--'];
    const words = [...rlimitsOfAll(), '--', ...make, '/bin/sh', '-c', HOLD, 'sh', ...boundsOfAll()];
    const ids = uid === undefined ? {} : { uid, gid };
    const stdio = ['pipe', 'ignore', 'ignore'] as const;
    const child = this.#powers.spawn(prlimit, words, { stdio: [...stdio], env: {}, cwd: '/', ...ids });
    // EPIPE: it has ended.
    child.stdin?.on('error', () => {});
    // Neither keeps the daemon from ending.
    (child.stdin as Socket | null)?.unref();
    child.unref();
    const lose = () => {
      if (this.#holders.get(uid) !== child) return;
      // The next sandbox makes another one.
      this.#holders.delete(uid);
      this.#powers.log.warn({ uid }, 'the user namespace around sandboxes has ended');
    };
    for (const event of ['exit', 'error']) child.once(event, lose);
    return child;
  }
}

/** The bounds as `name=value`. A namespace above this one may have less than the machine. */
const boundsOfAll = (): string[] =>
  COUNTERS.flatMap(({ name, machine, share }) => {
    const own = `/proc/sys/user/${name}`;
    if (!existsSync(own) || !existsSync(machine)) return []; // fanotify has these since Linux 5.13.
    const most = Math.min(...[own, machine].map((it) => Number(readFileSync(it, 'latin1'))));
    return [`${name}=${Math.floor(most * share)}`];
  });

const rlimitsOfAll = (): string[] =>
  RLIMITS.flatMap(({ option, line }) => {
    const { soft } = limitOf('self', line);
    return Number.isFinite(soft) ? [`${option}=${Math.floor(soft * RLIMIT_SHARE)}:`] : [];
  });

/** Waits until the process has set the bounds; false if it has ended. */
function isReady(pid: number): boolean {
  for (let naps = 0; naps < NAPS_MAX; naps++) {
    if (textOf(`/proc/${pid}/comm`) === HOLDER) return true;
    if (!/\) [^ZX] /.test(textOf(`/proc/${pid}/stat`) ?? '')) return false;
    Atomics.wait(nap, 0, 0, 1);
  }
  return false;
}
