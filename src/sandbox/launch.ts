/** How a confined process is started: as whom, within which bounds, in which group. */
import { existsSync, readFileSync, statSync } from 'node:fs';
import { release } from 'node:os';
import type { Limits } from '../limits.ts';
import type { HostGroup } from './cgroup/cgroup.ts';
import { findProgram } from './find-program.ts';
import type { HostBinds } from './host-binds.ts';
import { boundsPidsByNamespace } from './kernel.ts';
import { openFilesAllowed } from './proc.ts';

/** How the processes of one workspace are started. */
export interface Launch {
  readonly command: string;
  readonly args: readonly string[];
  readonly uid?: number;
  readonly gid?: number;
  /** Of a process that sees a workspace. */
  readonly binds?: HostBinds;
}

/** Uid shown inside when the real one is 0 and the workspace is root's. */
const SHOWN_ID = 1000;

const CAP_SYS_ADMIN = 1n << 21n;

/** Nodes of the machine's /dev that bubblewrap shows in each sandbox. */
const NODES = ['null', 'zero', 'full', 'random', 'urandom', 'tty'].map((it) => `/dev/${it}`);

/** What `mount` mounts them by: on themselves, read-only, which keeps nobody from writing to a device. */
export const devicesTable = (): string =>
  NODES.filter((it) => existsSync(it))
    .map((it) => `${it} ${it} none bind,ro 0 0\n`)
    .join('');

/** A table of mounts; what was opened for descriptors 0 and 1 outside is opened anew. */
const MOUNT_DEVICES =
  'mount -aT "$0" 2>/dev/null; [ -c /proc/self/fd/0 ] && exec </dev/null; [ -c /proc/self/fd/1 ] && exec >/dev/null; exec "$@"';

/**
 * Prefix after which the nodes of /dev can be used and not changed, in a namespace of mounts of its own. They are the real root's, so
 * that whatever runs as it, without any capability, could set their modes for the whole machine; bubblewrap binds them as they are.
 * None where mounts may not be made; the probe `shared-nodes` tells.
 */
export function readOnlyDevices(shownId: number | undefined, table: string): string[] {
  if (shownId === undefined || !mayMount()) return [];
  return ['unshare', '--mount', '--propagation', 'slave', '--', 'sh', '-c', MOUNT_DEVICES, table];
}

const mayMount = (): boolean => {
  const [, effective = '0'] = /^CapEff:\t(\w+)$/m.exec(readFileSync('/proc/self/status', 'utf8')) ?? [];
  return (BigInt(`0x${effective}`) & CAP_SYS_ADMIN) !== 0n;
};

/** The launcher of a host gets no more rights than the workspace's owner has, unless that is root. */
export function identity(workspace: string): { uid?: number; gid?: number; shownId?: number } {
  if (process.getuid?.() !== 0) return {};
  const { uid, gid } = statSync(workspace);
  return uid === 0 ? { shownId: SHOWN_ID } : { uid, gid };
}

/** It enters its control group as who we are, before it is anybody else, and never runs outside of it. */
export function toLaunch(
  program: readonly string[],
  { uid, gid, group }: ReturnType<typeof identity> & { group?: HostGroup },
): Launch {
  const ids = uid === undefined || gid === undefined ? undefined : { uid, gid };
  if (!group) {
    const [command, ...args] = program;
    return { command: command as string, args, ...ids };
  }
  const files = group.join;
  const enter = files.map((_, i) => `echo 0 >"$${i + 1}"`);
  const script = [...enter, `shift ${files.length}`, 'exec "$@"'].join(' && ');
  const become = ids ? ['setpriv', '--reuid', `${ids.uid}`, '--regid', `${ids.gid}`, '--clear-groups', '--'] : [];
  return { command: '/bin/sh', args: ['-c', script, 'sh', ...files, ...become, ...program] };
}

/** Prefix that bounds what bubblewrap can't: open files, core dumps, locked memory; inherited by all that a host starts. */
export function rlimits({ openFilesMax, commandOpenFilesMax }: Limits, runsCommands = false): string[] {
  const prlimit = findProgram('prlimit');
  // Where the person allows the daemon fewer, nobody may raise that.
  const files = Math.min(openFilesMax, openFilesAllowed());
  // Its commands raise it for themselves.
  const most = runsCommands ? Math.max(files, Math.min(commandOpenFilesMax, openFilesAllowed())) : files;
  const bounds = [`--nofile=${files}:${most}`, '--core=0:0', '--memlock=65536:65536'];
  return prlimit === undefined ? [] : [prlimit, ...bounds, '--'];
}

/** Prefix after which a process dies with the daemon's thread that started it, where bubblewrap doesn't see to that. */
export function dying(): string[] {
  const setpriv = findProgram('setpriv');
  return setpriv === undefined ? [] : [setpriv, '--pdeathsig', 'KILL', '--'];
}

/** Prefix that starts a pid namespace with an uncovered /proc; only the real root has to, and can. */
export function freshPidNamespace({ hostTasksMax }: Limits): string[] {
  const fresh = [...dying(), 'unshare', '--mount', '--pid', '--fork', '--mount-proc', '--kill-child=KILL', '--'];
  if (!boundsPidsByNamespace(release())) return fresh;
  // RLIMIT_NPROC, which bounds commands elsewhere, is nothing to root: a fork bomb would be faster than the watchdog.
  return [...fresh, 'sh', '-c', 'echo "$0" >/proc/sys/kernel/pid_max; exec "$@"', `${hostTasksMax}`];
}
