/** Bounds the log of a daemon in the background, which anybody who opens sessions makes longer. */
import { copyFileSync, fstatSync, ftruncateSync, statSync } from 'node:fs';

const STANDARD_ERROR = 2;

export interface BoundedFile {
  /** Told of each line that is about to be appended. */
  wrote(bytes: number): void;
}

/**
 * Bounds the file at `path` where it is what standard error is appended to; undefined where it isn't, as in the foreground.
 * Over `bytesMax` its text moves to `<path>.1`, in place of the text that moved before.
 */
export function boundLogFile(path: string, bytesMax: number): BoundedFile | undefined {
  if (!isStandardError(path)) return undefined;
  let size = fstatSync(STANDARD_ERROR).size;
  return {
    wrote(bytes) {
      size += bytes;
      if (size <= bytesMax) return;
      try {
        copyFileSync(path, `${path}.1`);
      } catch {} // The disk is full, or the file was removed: the bound holds all the same.
      ftruncateSync(STANDARD_ERROR, 0);
      size = bytes;
    },
  };
}

function isStandardError(path: string): boolean {
  const own = fstatSync(STANDARD_ERROR);
  const there = statSync(path, { throwIfNoEntry: false });
  return there !== undefined && own.isFile() && own.dev === there.dev && own.ino === there.ino;
}
