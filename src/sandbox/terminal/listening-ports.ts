/** Tells on which TCP ports the programs of a sandbox listen, by the tables of its network namespace. */
import { closeSync, openSync, readSync } from 'node:fs';
import { EGRESS_PORT } from '../door.ts';

/** Ports told of one sandbox, the lowest first; a program could listen on all of them. */
const PORTS_TOLD_MAX = 32;
/** Bytes read of each table; the kernel lists listening sockets before connections. */
const TABLE_BYTES = 64 * 1024;

/** The ports in the network namespace of process `pid`; none if it has ended. */
export function listeningPorts(pid: number): number[] {
  const tables = ['tcp', 'tcp6'].map((it) => startOf(`/proc/${pid}/net/${it}`));
  // The egress proxy listens beside the command's programs.
  const ports = new Set(tables.flatMap(toListening).filter((it) => it !== EGRESS_PORT));
  return [...ports].toSorted((a, b) => a - b).slice(0, PORTS_TOLD_MAX);
}

function startOf(path: string): string {
  let fd: number;
  try {
    fd = openSync(path, 'r');
  } catch {
    return ''; // ENOENT: the process has ended, or the kernel has no IPv6.
  }
  try {
    const buffer = Buffer.alloc(TABLE_BYTES);
    let length = 0;
    for (;;) {
      const read = readSync(fd, buffer, length, TABLE_BYTES - length, null);
      length += read;
      if (read === 0 || length === TABLE_BYTES) return buffer.toString('latin1', 0, length);
    }
  } catch {
    return ''; // EINVAL, ESRCH: the process has ended.
  } finally {
    closeSync(fd);
  }
}

/** The local ports of the lines in state LISTEN (0A). Pure. */
export function toListening(table: string): number[] {
  const lines = table.matchAll(/^ *\d+: [0-9A-F]+:([0-9A-F]{4}) [0-9A-F]+:0000 0A /gm);
  return [...lines].map(([, port = '']) => Number.parseInt(port, 16));
}
