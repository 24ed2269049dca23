/**
 * What the kernel counted in a command's network namespace: packets for which there was no route, and those to a port of its
 * own loopback at which nobody listens, as names are looked up where there is no resolver. No program can change the counts.
 */
import { closeSync, openSync, readSync } from 'node:fs';
import type { Denial } from '../../call.ts';

export interface NetworkEvidence extends Disposable {
  /** What was tried so far and could not work. */
  denied(): Denial[];
}

const NOTHING: NetworkEvidence = { denied: () => [], [Symbol.dispose]() {} };

/** Of the namespace of process `pid`, which stays as long as this is held, the process or not. */
export function openNetworkEvidence(pid: number): NetworkEvidence {
  const fds: number[] = [];
  try {
    for (const name of ['snmp', 'snmp6']) fds.push(openSync(`/proc/${pid}/net/${name}`, 'r'));
  } catch {
    // ENOENT: it is gone, or the kernel has no IPv6.
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

/** From the texts of /proc/net/snmp and snmp6. Pure. */
export function toDenials(text: string): Denial[] {
  const unroutable = column(text, 'Ip', 'OutNoRoutes') + line(text, 'Ip6OutNoRoutes');
  const lookups = column(text, 'Udp', 'NoPorts') + line(text, 'Udp6NoPorts');
  const by = { kind: 'connect', layer: 'sandbox' } as const;
  return [
    ...(unroutable > 0
      ? [{ ...by, target: 'network', reason: 'there is no way out of its sandbox', count: unroutable }]
      : []),
    ...(lookups > 0
      ? [{ ...by, target: 'resolver', reason: 'nobody in its sandbox looks up names', count: lookups }]
      : []),
  ];
}

/** In snmp, a line of names is followed by one of values. */
function column(text: string, protocol: string, name: string): number {
  const [names = [], values = []] = text
    .split('\n')
    .filter((it) => it.startsWith(`${protocol}: `))
    .map((it) => it.split(' '));
  return Number(values[names.indexOf(name)] ?? 0) || 0;
}

const line = (text: string, name: string): number =>
  Number(new RegExp(`^${name}\\s+(\\d+)$`, 'm').exec(text)?.[1] ?? 0);
