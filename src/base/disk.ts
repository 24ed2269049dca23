/** Free space of a disk, how much of it is reserved for the daemon's records, files that are open or replaced in one step. */
import { closeSync, constants, mkdirSync, openSync, renameSync, rmSync, statfsSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import type { Limits } from './limits.ts';

export interface Disk {
  /** Bytes free for this process; root's reserve counts only if we are root. */
  readonly freeBytes: number;
  readonly totalBytes: number;
}

/** Free and total bytes of the disk that holds `path`. Throws the system's error. */
export function diskOf(path: string): Disk {
  const { bavail, bfree, blocks, bsize } = statfsSync(path);
  return { freeBytes: (process.getuid?.() === 0 ? bfree : bavail) * bsize, totalBytes: blocks * bsize };
}

/** Bytes that stay free for the records; on a small disk a quarter of it. */
export const reserveOf = ({ totalBytes }: Disk, { stateReserveBytes }: Pick<Limits, 'stateReserveBytes'>): number =>
  Math.min(stateReserveBytes, Math.floor(totalBytes / 4));

/** Bytes that undo may fill: a tenth of the free disk, or on a small one what it had before ignored files were kept. */
export const journalRoom = (freeBytes: number, { journalBytesMax }: Pick<Limits, 'journalBytesMax'>): number =>
  Math.min(journalBytesMax, Math.max(JOURNAL_BYTES_LEAST, freeBytes / 10));
const JOURNAL_BYTES_LEAST = 1024 ** 3;

/** Bytes available on the disk of `path` beside the reserve; 0 if unknown. */
export function roomIn(path: string, limits: Pick<Limits, 'stateReserveBytes'>): number {
  try {
    const disk = diskOf(path);
    return Math.max(0, disk.freeBytes - reserveOf(disk, limits));
  } catch {
    return 0; // ENOENT: nothing can be stored there.
  }
}

/** Writes a file as a whole, closed to others: it is on the disk then, and a crash leaves the old or the new one. Throws file system errors. */
export function replaceFile(path: string, text: string): void {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  rmSync(`${path}.new`, { force: true });
  writeFileSync(`${path}.new`, text, { mode: 0o600, flag: 'wx', flush: true });
  renameSync(`${path}.new`, path);
}

/** A descriptor that is closed where the block ends that holds it. */
export const closing = (fd: number): { readonly fd: number } & Disposable => ({
  fd,
  [Symbol.dispose]: () => closeSync(fd),
});

/** Opens a file or folder until the end of the block. Throws file system errors. */
export const openFile = (...given: Parameters<typeof openSync>) => closing(openSync(...given));

const { O_NOFOLLOW, O_NONBLOCK, O_RDONLY } = constants;

/** The same to read it: no link is followed at its last name, and no pipe waited for. */
export const openToRead = (path: string | Buffer) => openFile(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
