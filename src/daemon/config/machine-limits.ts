/** Default memory limits of commands, by the memory of this machine. */
import { totalmem } from 'node:os';
import { isRecord } from '../../text/values.ts';

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
  if (!isRecord(said)) return said;
  const given = ['limits', 'internalLimits'].map((name) => [name, said[name]] as const);
  const added = given.flatMap(([name, it]) => (isRecord(it) ? [[name, withMachineMemory(it)] as const] : []));
  return { ...said, ...Object.fromEntries(added) };
}
