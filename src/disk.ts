/** Room on a disk, and how much of it is kept for the daemon's own record. */
import { statfsSync } from 'node:fs';
import type { Limits } from './limits.ts';

export interface Disk {
  /** For us: what is kept for root counts only where we are root. */
  readonly freeBytes: number;
  readonly totalBytes: number;
}

/** The disk that holds `path`. Throws the system's error. */
export function diskOf(path: string): Disk {
  const { bavail, bfree, blocks, bsize } = statfsSync(path);
  return { freeBytes: (process.getuid?.() === 0 ? bfree : bavail) * bsize, totalBytes: blocks * bsize };
}

/** Bytes that stay free for the record: on a small disk a quarter of it. */
export const reserveOf = ({ totalBytes }: Disk, { stateReserveBytes }: Pick<Limits, 'stateReserveBytes'>): number =>
  Math.min(stateReserveBytes, Math.floor(totalBytes / 4));

/** Bytes that may be kept beside the record on the disk of `path`; none where it can't be told. */
export function roomIn(path: string, limits: Pick<Limits, 'stateReserveBytes'>): number {
  try {
    const disk = diskOf(path);
    return Math.max(0, disk.freeBytes - reserveOf(disk, limits));
  } catch {
    return 0; // ENOENT: what would be kept there can't be, either.
  }
}
