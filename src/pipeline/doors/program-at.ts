/** Finds the program that connected to the egress proxy, by the kernel's tables: what a program says of itself proves nothing. */
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { EGRESS_PORT } from '../../sandbox/door.ts';

/** Column of the table, counted from the colon behind a line's number. */
const INODE = 9;
const PROXY = EGRESS_PORT.toString(16).toUpperCase().padStart(4, '0');

/** Processes that are looked at; more make the program unknown. */
const PROCESSES_MAX = 8_192;

/**
 * The executable's path of the one process with a connection from that port of a command's loopback to the proxy; undefined if it has
 * gone, or if commands at the same time have such a connection.
 */
export function programAt(port: number): string | undefined {
  const pids = readdirSync('/proc').filter((it) => /^\d+$/.test(it));
  if (pids.length > PROCESSES_MAX) return undefined;
  const networks = new Map<string, string | undefined>();
  const programs = new Set<string>();
  for (const pid of pids) {
    try {
      const network = readlinkSync(`/proc/${pid}/ns/net`);
      if (!networks.has(network)) networks.set(network, socketIn(pid, port));
      const socket = networks.get(network);
      if (socket !== undefined && holds(pid, socket)) programs.add(readlinkSync(`/proc/${pid}/exe`));
    } catch {
      // ENOENT, EACCES: it has ended, or is another user's.
    }
  }
  const [program] = programs;
  return programs.size === 1 ? program : undefined;
}

/** The socket of a connection from that port to the proxy in the network of a process, as links to descriptors name it. */
function socketIn(pid: string, port: number): string | undefined {
  const own = port.toString(16).toUpperCase().padStart(4, '0');
  const line = new RegExp(`: 0100007F:${own} 0100007F:${PROXY} 01 .*`);
  const inode = line
    .exec(readFileSync(`/proc/${pid}/net/tcp`, 'latin1'))?.[0]
    .trim()
    .split(/\s+/)[INODE];
  return inode === undefined ? undefined : `socket:[${inode}]`;
}

const holds = (pid: string, socket: string): boolean =>
  readdirSync(`/proc/${pid}/fd`).some((fd) => readlinkSync(`/proc/${pid}/fd/${fd}`) === socket);
