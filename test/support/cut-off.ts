/** Ends a piece of work at one of its file system calls, as a kill -9 of its process would. */
import { constants } from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';

const STEPS = [
  ...['openSync', 'writeSync', 'renameSync', 'linkSync', 'unlinkSync', 'mkdirSync', 'rmdirSync', 'rmSync', 'fsyncSync'],
  ...['symlinkSync', 'copyFileSync', 'chmodSync', 'fchmodSync', 'ftruncateSync', 'readSync', 'closeSync'],
] as const;

const READS: ReadonlySet<string> = new Set(['readSync', 'closeSync']);

/** Whether a call may change what is on the disk. */
const changes = (name: string, [, flags]: readonly unknown[]): boolean =>
  name === 'openSync' ? (Number(flags) & constants.O_CREAT) !== 0 : !READS.has(name);

/**
 * Drops all file system calls from the n-th on, as after a kill -9: clean-up does not happen either. `ofChanges` counts only calls
 * that may change the disk: a kill at any other leaves the same as one at the next of these.
 */
export async function cutOffAt(
  n: number,
  work: () => Promise<unknown>,
  { ofChanges = false } = {},
): Promise<'cut' | 'whole'> {
  const real = process.getBuiltinModule('node:fs') as unknown as Record<string, (...args: unknown[]) => unknown>;
  const kept = Object.fromEntries(STEPS.map((it) => [it, real[it]]));
  const open: number[] = [];
  let calls = 0;
  for (const name of STEPS) {
    real[name] = (...args) => {
      if (!ofChanges || changes(name, args)) calls += 1;
      if (calls >= n && name !== 'closeSync') throw new Error('killed');
      const result = kept[name]?.(...args);
      if (name === 'openSync') open.push(result as number);
      return result;
    };
  }
  syncBuiltinESMExports();
  try {
    await work();
    return calls >= n ? 'cut' : 'whole';
  } catch {
    return 'cut'; // Expected.
  } finally {
    Object.assign(real, kept);
    syncBuiltinESMExports();
  }
}
