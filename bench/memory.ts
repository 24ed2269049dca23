/** Memory of processes in MiB, as the kernel counts it. */
import { readFileSync } from 'node:fs';
import { type TestDaemon, until } from '../test/support/daemon.ts';

/** `Rss` counts shared memory fully for each process, `Pss` in equal parts. */
export function memoryOf(pid: number, field: 'Rss' | 'Pss'): number {
  const line = new RegExp(`^${field}:\\s+(\\d+)`, 'm').exec(readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8'));
  return Number(line?.[1]) / 1024;
}

export const memoryOfAll = (pids: readonly number[], field: 'Rss' | 'Pss'): number =>
  pids.reduce((sum, pid) => sum + memoryOf(pid, field), 0);

/** Pids of the daemon and its hosts, once there are at least `hostsMin` hosts. */
export async function processesOf(daemon: TestDaemon, hostsMin: number): Promise<number[]> {
  await using operator = await daemon.connect({ role: 'operator' });
  const hosts = async () => ((await operator.request('status', {})) as { hosts: { pid: number }[] }).hosts;
  await until(async () => (await hosts()).length >= hostsMin);
  return [daemon.pid, ...(await hosts()).map(({ pid }) => pid)];
}
