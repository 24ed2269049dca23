/** Reads of files and folders that may be gone meanwhile, or closed to us. */
import { readdirSync, readFileSync, realpathSync } from 'node:fs';

/** The text of a file; undefined if it can't be read. */
export const textAt = (path: string): string | undefined => orNothing(() => readFileSync(path, 'utf8'));

/** The names in a folder; none if it can't be read. */
export const namesAt = (folder: string): string[] => orNothing(() => readdirSync(folder)) ?? [];

/** The path without links; undefined if it leads to nothing that we may see. */
export const realOf = (path: string): string | undefined => orNothing(() => realpathSync.native(path));

function orNothing<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch {
    return undefined; // ENOENT, EACCES, ELOOP; ESRCH: the process of the file has ended; EINVAL: what it tells is off.
  }
}
