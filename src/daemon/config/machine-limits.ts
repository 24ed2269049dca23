/** Default memory limits of commands, by the memory of this machine. */
import { totalmem } from 'node:os';

/** The most memory that a command gets by default, in MiB. */
const MEMORY_MB_MAX = 8192;

/** Adds default memory limits of commands: a part of the memory of the machine or of the daemon's control group. */
export function withMachineMemory(said: object): object {
  const bound = process.constrainedMemory() || Infinity;
  const machineMb = Math.floor(Math.min(totalmem(), bound) / (1024 * 1024));
  const { commandMax = {} } = said as { commandMax?: object };
  const memoryMb = Math.min(Math.floor(machineMb / 2), MEMORY_MB_MAX);
  return {
    hostCommandsMemoryMb: Math.floor((machineMb * 3) / 4),
    ...said,
    commandMax: typeof commandMax === 'object' ? { memoryMb, ...commandMax } : commandMax,
  };
}

/** Adds the machine's limits to a file's settings, before each limit's own default applies. */
export function withMachineLimits(said: unknown): unknown {
  const { limits } = said as { limits?: unknown };
  return typeof limits === 'object' && limits !== null
    ? { ...(said as object), limits: withMachineMemory(limits) }
    : said;
}
