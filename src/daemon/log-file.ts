/** Bounds the log file of a background daemon; anyone who opens sessions makes it longer. */
import { copyFileSync, fstatSync, ftruncateSync, statSync } from 'node:fs';

const STANDARD_ERROR = 2;

export interface BoundedFile {
  /** Called for each line before it is appended. */
  wrote(bytes: number): void;
}

/**
 * Bounds the file at `path` if standard error appends to it; undefined otherwise, as in the foreground. Over
 * `bytesMax` the text moves to `<path>.1` and replaces the text there.
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
      } catch {} // The disk is full, or the file was removed: truncate it anyway.
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
