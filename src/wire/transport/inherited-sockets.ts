/** Sockets that were passed on: by a service manager that opened them (systemd's socket activation), or by the daemon before. */
import { fstatSync, lstatSync, readFileSync } from 'node:fs';
import { SocketError } from './socket-error.ts';

/** What a listening socket is for. */
export type SocketName = 'control' | 'mcp' | 'http' | 'websocket' | 'panel';

/** The descriptors of the sockets by their names. */
export interface InheritedSockets extends Partial<Readonly<Record<SocketName, number>>> {
  /** Names of the sockets that a service manager keeps when the daemon ends. */
  readonly kept: readonly SocketName[];
}

/** Nothing was passed on. */
export const NO_SOCKETS: InheritedSockets = { kept: [] };

type Environment = Readonly<Record<string, string | undefined>>;

/** The protocol's first descriptor. */
const FIRST_FD = 3;
const NAMES = ['control', 'mcp'] as const;
const ALL_NAMES = [...NAMES, 'http', 'websocket', 'panel'] as const satisfies readonly SocketName[];

/** How many sockets were passed to this process; variables with another pid were meant for a parent. */
function countOf({ LISTEN_PID, LISTEN_FDS }: Environment, pid: number): number {
  return LISTEN_PID === String(pid) && /^[1-9]\d{0,2}$/.test(LISTEN_FDS ?? '') ? Number(LISTEN_FDS) : 0;
}

/** The last inherited descriptor that the process needs: a socket, or standard error if no sockets were passed. */
export const lastInheritedFd = (env: Environment, pid: number): number => FIRST_FD - 1 + countOf(env, pid);

/** Finds the passed sockets; a single one needs no name. Throws SocketError for unknown or repeated names. */
export function inheritedSockets(env: Environment, pid: number): InheritedSockets {
  const count = countOf(env, pid);
  const names = (env.LISTEN_FDNAMES ?? '').split(':');
  const found: { control?: number; mcp?: number } = {};
  for (let at = 0; at < count; at++) {
    const name = count === 1 && names[0] !== 'mcp' ? 'control' : NAMES.find((it) => it === names[at]);
    if (name === undefined || found[name] !== undefined)
      throw new SocketError(
        `the service manager passed sockets named ${names.join(', ')}; the names must be ${NAMES.join(' and ')} (FileDescriptorName= in the socket unit)`,
      );
    found[name] = FIRST_FD + at;
  }
  return { ...found, kept: NAMES.filter((it) => found[it] !== undefined) };
}

/** The sockets that the daemon before passed on from descriptor `first`, in the order of their names. Throws SocketError. */
export function handedSockets(names: readonly string[], first: number, kept: readonly string[]): InheritedSockets {
  const found = names.map(toName);
  return { ...Object.fromEntries(found.map((it, at) => [it, first + at])), kept: kept.map(toName) };
}

function toName(text: string): SocketName {
  const name = ALL_NAMES.find((it) => it === text);
  if (name) return name;
  throw new SocketError(`a socket named ${text} was handed over; its name must be one of ${ALL_NAMES.join(', ')}`);
}

/**
 * Checks that an inherited descriptor is the Unix socket at `path` and that only its owner may connect to it: the
 * daemon takes each client of this socket for its user. Throws SocketError.
 */
export function assertInherited(fd: number, path: string): void {
  const refuse = (why: string) =>
    new SocketError(
      `the service manager passed a socket that ${why}; correct the socket unit, or run \`ringfence service install\` again`,
    );
  const bound = unixPathOf(fstatSync(fd).ino);
  if (bound === undefined) throw refuse('is no Unix socket with a path');
  if (bound !== path) throw refuse(`listens at ${bound}, but clients look for ${path}`);
  const stat = lstatSync(path, { throwIfNoEntry: false });
  if (!stat?.isSocket()) throw refuse(`is gone from ${path}`);
  if (stat.uid !== process.getuid?.()) throw refuse(`belongs to user ${stat.uid}`);
  if ((stat.mode & 0o022) !== 0) throw refuse(`is open to others (mode ${(stat.mode & 0o777).toString(8)})`);
}

/** The path that the kernel reports for a Unix socket; undefined for other sockets and abstract names. */
function unixPathOf(inode: number): string | undefined {
  // For example `000000: 00000002 00000000 00010000 0001 01 11266041 /run/user/1000/ringfence/ringfence.sock`.
  for (const line of readFileSync('/proc/self/net/unix', 'utf8').split('\n')) {
    const [, found, path] = /^\S+ \S+ \S+ \S+ \S+ \S+ +(\d+) (\/.*)$/.exec(line) ?? [];
    if (found === String(inode)) return path;
  }
  return undefined;
}
