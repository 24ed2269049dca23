/** How a confined process is started: as which user, within which bounds, in which group. */

import { existsSync, readFileSync } from 'node:fs';
import { release } from 'node:os';
import type { Limits } from '../base/limits.ts';
import { nativeProgram } from '../base/native-programs.ts';
import type { HostGroup } from './cgroup/cgroup.ts';
import type { Gate } from './command/prologue.ts';
import type { UserIds } from './entry-rights.ts';
import { findProgram } from './find-program.ts';
import type { HostBinds } from './host-binds.ts';
import { boundsPidsByNamespace } from './kernel.ts';
import { limitOf } from './proc.ts';

/** How to start a process: program, arguments and user. */
export interface Launch {
  /** Words that enter its control group and become its user, before the program. */
  readonly before: readonly string[];
  readonly program: readonly string[];
  /** Whether it runs programs of others, which get the bounds of the user namespace around sandboxes. */
  readonly isForeign: boolean;
  /** Ours if absent. */
  readonly user?: { readonly uid: number; readonly gid: number };
  /** Files of ours that it gets as descriptors, since its user may not open them. */
  readonly files?: readonly string[];
  /** Mounts to check, for a process that sees a workspace. */
  readonly binds?: HostBinds | undefined;
}

const CAP_SYS_ADMIN = 1n << 21n;
const MIB = 1024 * 1024;

/** Device nodes of the machine that bubblewrap shows in each sandbox. */
const NODES = ['null', 'zero', 'full', 'random', 'urandom', 'tty'].map((it) => `/dev/${it}`);

/** Table for `mount`: binds each node onto itself, read-only, which still allows writes to the device. */
export const devicesTable = (): string =>
  NODES.filter((it) => existsSync(it))
    .map((it) => `${it} ${it} none bind,ro 0 0\n`)
    .join('');

/** Mounts the table, and reopens descriptors 0 and 1, which were opened outside. */
const MOUNT_DEVICES =
  'mount -aT "$0" 2>/dev/null; [ -c /proc/self/fd/0 ] && exec </dev/null; [ -c /proc/self/fd/1 ] && exec >/dev/null; exec "$@"';

/**
 * Command prefix that makes the nodes of /dev usable but unchangeable, in a mount namespace of its own. The real root owns them, so
 * a process that runs as root, even without capabilities, could set their modes for the whole machine; bubblewrap binds them unchanged.
 * Empty if mounts are not allowed; the probe `shared-nodes` reports that.
 */
export function readOnlyDevices(shownId: number | undefined, table: string): string[] {
  if (shownId === undefined || !mayMount()) return [];
  return ['unshare', '--mount', '--propagation', 'slave', '--', 'sh', '-c', MOUNT_DEVICES, table];
}

const mayMount = (): boolean => {
  const [, effective = '0'] = /^CapEff:\t(\w+)$/m.exec(readFileSync('/proc/self/status', 'utf8')) ?? [];
  return (BigInt(`0x${effective}`) & CAP_SYS_ADMIN) !== 0n;
};

/** Builds the launch. The process enters its control group as our user, before it changes user, and never runs outside the group. */
export function toLaunch(
  program: readonly string[],
  { uid, gid, group, isForeign = true }: UserIds & { group?: HostGroup | undefined; isForeign?: boolean },
): Launch {
  const user = uid === undefined || gid === undefined ? {} : { user: { uid, gid } };
  if (!group) return { before: [], program, isForeign, ...user };
  const files = group.join;
  const enter = files.map((_, i) => `echo 0 >"$${i + 1}"`);
  const script = [...enter, `shift ${files.length}`, 'exec "$@"'].join(' && ');
  const become = user.user ? ['setpriv', '--reuid', `${uid}`, '--regid', `${gid}`, '--clear-groups', '--'] : [];
  return { before: ['/bin/sh', '-c', script, 'sh', ...files, ...become], program, isForeign, ...user };
}

interface ProcessBounds {
  /** Open files that its programs may ask for beyond those of a host. */
  readonly openFiles?: number;
  /** Memory that each process may allocate for itself; unlike a control group, the kernel has it everywhere. */
  readonly dataMb?: number;
}

/**
 * Command prefix that bounds what bubblewrap can't: open files, core dumps, locked memory, allocated memory; everything
 * that a host starts inherits them.
 */
export function rlimits({ openFilesMax }: Limits, { openFiles = 0, dataMb }: ProcessBounds = {}): string[] {
  const prlimit = findProgram('prlimit');
  // If the daemon's own hard limit is lower, it can't be raised.
  const { hard } = limitOf('self', 'Max open files');
  const files = Math.min(openFilesMax, hard);
  const bounds = [
    `--nofile=${files}:${Math.min(hard, Math.max(files, openFiles))}`,
    '--core=0:0',
    '--memlock=65536:65536',
  ];
  if (dataMb !== undefined) bounds.push(`--data=${dataMb * MIB}:${dataMb * MIB}`);
  return prlimit === undefined ? [] : [prlimit, ...bounds, '--'];
}

/** Limits that native/enter.c sets, each for one process; absent ones stay as they are. */
interface EnterLimits {
  readonly fileBytes?: number | undefined;
  readonly openFiles?: number | undefined;
  readonly cpuSeconds?: number | undefined;
  readonly addressBytes?: number | undefined;
  /** Memory that it fills; runtimes reserve far more address space. */
  readonly dataBytes?: number | undefined;
  readonly processes?: number | undefined;
}

/**
 * Command prefix that sets limits which nothing can raise, and has a program die with the thread that starts it. With a
 * gate it says that it is there, and waits.
 */
export function entering(
  { fileBytes, openFiles, cpuSeconds, addressBytes, dataBytes, processes }: EnterLimits,
  { program = nativeProgram('enter'), gate }: { program?: string; gate?: Gate | undefined } = {},
): [string, ...string[]] {
  const words = [fileBytes, openFiles, cpuSeconds, addressBytes, dataBytes, processes, gate?.builtFd, gate?.fd];
  return [program, ...words.map((it) => `${it ?? '-'}`)];
}

/** Command prefix that makes a process die with the daemon's thread that started it, where bubblewrap does not ensure that. */
export function dying(): string[] {
  const setpriv = findProgram('setpriv');
  return setpriv === undefined ? [] : [setpriv, '--pdeathsig', 'KILL', '--'];
}

/** Command prefix that starts a pid namespace with an uncovered /proc; only the real root needs it, and can use it. */
export function freshPidNamespace({ hostTasksMax }: Limits): string[] {
  const fresh = [...dying(), 'unshare', '--mount', '--pid', '--fork', '--mount-proc', '--kill-child=KILL', '--'];
  if (!boundsPidsByNamespace(release())) return fresh;
  // RLIMIT_NPROC does not apply to root: a fork bomb would be faster than the watchdog.
  return [...fresh, 'sh', '-c', 'echo "$0" >/proc/sys/kernel/pid_max; exec "$@"', `${hostTasksMax}`];
}
