/** Measures what all processes of this sandbox use. They are those of one browser, and of the host that drives it. */
import { readdirSync, statfsSync } from 'node:fs';
import { ToolError } from '../../src/base/errors.ts';
import type { Limits } from '../../src/base/limits.ts';
import { statmOf, statOf } from '../../src/sandbox/proc.ts';

const MIB = 1024 * 1024;

export interface BrowserUse {
  /** Memory that processes have allocated for themselves, and files in memory. */
  readonly bytes: number;
  readonly cpuMs: number;
  /** Processes and threads. */
  readonly tasks: number;
}

export function measuredUse(): BrowserUse {
  const pids = readdirSync('/proc').map(Number).filter(Number.isInteger);
  const stats = pids.map((pid) => ({ memory: statmOf(pid), stat: statOf(pid) }));
  const files = ['/tmp', '/dev/shm'].reduce((sum, path) => sum + bytesIn(path), 0);
  return {
    // Shared memory lies in the files.
    bytes: stats.reduce((sum, { memory }) => sum + memory.privateBytes, files),
    cpuMs: stats.reduce((sum, { stat }) => sum + (stat?.ownCpuMs ?? 0), 0),
    tasks: stats.reduce((sum, { stat }) => sum + (stat?.threads ?? 0), 0),
  };
}

function bytesIn(path: string): number {
  const { blocks, bfree, bsize } = statfsSync(path);
  return (blocks - bfree) * bsize;
}

/** The error of the first bound that is passed; undefined if none is. */
export function overUse(
  { bytes, cpuMs, tasks }: BrowserUse,
  { browserMemoryMb, browserCpuMs, browserTasksMax }: Limits,
): ToolError | undefined {
  const of = (limit: number, used: number) => ({ details: { limit, used, enforcedBy: 'browser host' } });
  if (bytes > browserMemoryMb * MIB)
    return new ToolError(
      'MEMORY_LIMIT',
      `the page took more than ${browserMemoryMb} MiB of memory`,
      of(browserMemoryMb * MIB, bytes),
    );
  if (cpuMs > browserCpuMs)
    return new ToolError(
      'CPU_LIMIT',
      `the page took more than ${browserCpuMs} ms of CPU time`,
      of(browserCpuMs, cpuMs),
    );
  if (tasks > browserTasksMax)
    return new ToolError(
      'PROCESS_LIMIT',
      `the page had more than ${browserTasksMax} processes and threads`,
      of(browserTasksMax, tasks),
    );
  return undefined;
}
