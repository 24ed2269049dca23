/**
 * Reads the kernel's counters of a command's network namespace: packets without a route, and packets to a loopback port on
 * which nothing listens, which name lookups without a resolver send. No program can change the counters.
 */
import { closeSync, openSync, readSync } from 'node:fs';
import type { Denial } from '../../base/call.ts';

export interface NetworkEvidence extends Disposable {
  /** Attempts so far that could not succeed. */
  denied(): Denial[];
}

const NOTHING: NetworkEvidence = { denied: () => [], [Symbol.dispose]() {} };

/** Opens the counters of the namespace of process `pid`; they stay readable after the process has ended. */
export function openNetworkEvidence(pid: number): NetworkEvidence {
  const fds: number[] = [];
  try {
    for (const name of ['snmp', 'snmp6']) fds.push(openSync(`/proc/${pid}/net/${name}`, 'r'));
  } catch {
    // ENOENT: the process has ended, or the kernel has no IPv6.
    if (fds.length === 0) return NOTHING;
  }
  return {
    denied: () => toDenials(fds.map(read).join('\n')),
    [Symbol.dispose]() {
      for (const fd of fds) closeSync(fd);
    },
  };
}

const buffer = Buffer.allocUnsafe(16 * 1024);
const read = (fd: number): string => buffer.toString('latin1', 0, readSync(fd, buffer, 0, buffer.length, 0));

/** Parses the texts of /proc/net/snmp and snmp6. Pure. */
export function toDenials(text: string): Denial[] {
  const unroutable = column(text, 'Ip', 'OutNoRoutes') + line(text, 'Ip6OutNoRoutes');
  const lookups = column(text, 'Udp', 'NoPorts') + line(text, 'Udp6NoPorts');
  const by = { kind: 'connect', layer: 'sandbox' } as const;
  return [
    ...(unroutable > 0
      ? [{ ...by, target: 'network', reason: 'there is no way out of its sandbox', count: unroutable }]
      : []),
    ...(lookups > 0
      ? [{ ...by, target: 'resolver', reason: 'its sandbox has no name resolution', count: lookups }]
      : []),
  ];
}

/** Reads a value of snmp, where a line of names precedes a line of values. */
function column(text: string, protocol: string, name: string): number {
  const [names = [], values = []] = text
    .split('\n')
    .filter((it) => it.startsWith(`${protocol}: `))
    .map((it) => it.split(' '));
  return Number(values[names.indexOf(name)] ?? 0) || 0;
}

const line = (text: string, name: string): number =>
  Number(new RegExp(`^${name}\\s+(\\d+)$`, 'm').exec(text)?.[1] ?? 0);
