/** Places in a workspace that others change meanwhile: each folder on the way is opened, and none through a link. */
import { closeSync, constants, lstatSync, mkdirSync, opendirSync, openSync, rmdirSync } from 'node:fs';
import { closing } from '../../base/disk.ts';
import { protectedPart } from '../../base/protected-names.ts';

const O_PATH = 0x200000;
const SLASH = '/';

/** The names of a path. */
export const partsOf = (path: Buffer): Buffer[] =>
  path
    .toString('latin1')
    .split(SLASH)
    .map((it) => Buffer.from(it, 'latin1'));

/** The bytes of a path; see `QuarantinedItem.isNameless`. */
export const toBytes = ({ path, isNameless }: { readonly path: string; readonly isNameless?: boolean }): Buffer =>
  Buffer.from(path, isNameless ? 'latin1' : 'utf8');

/** An entry of an open folder. Names that are UTF-8 give a text. */
export function below(fd: number, name: Buffer): string | Buffer {
  const text = name.toString('utf8');
  if (!text.includes('\ufffd')) return `/proc/self/fd/${fd}/${text}`;
  return Buffer.concat([Buffer.from(`/proc/self/fd/${fd}/`), name]);
}

/** Opens a folder of a workspace; the caller closes it. `make` makes those that are missing. Throws ENOENT, ENOTDIR, ELOOP. */
export function openFolder(workspace: string, parts: readonly Buffer[], { make = false } = {}): number {
  const flags = O_PATH | constants.O_DIRECTORY | constants.O_NOFOLLOW;
  let fd = openSync(workspace, flags);
  for (const part of parts) {
    try {
      if (make) makeFolder(below(fd, part));
      const next = openSync(below(fd, part), flags);
      closeSync(fd);
      fd = next;
    } catch (error) {
      closeSync(fd);
      throw error;
    }
  }
  return fd;
}

function makeFolder(path: string | Buffer): void {
  try {
    mkdirSync(path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  }
}

/** The path that is moved as one: a protected name, or an entry of a protected folder with all in it. */
export function unitOf(path: string, part: string): string {
  const names = path.split('/');
  return names.slice(0, part.split('/').length + 1).join('/');
}

/** Names in a protected folder that are looked at one by one; one with more is moved as a whole. */
const INNER_MAX = 2_000;

/** The names in a folder; undefined if there are more, of which a command may have made a million. */
export function namesIn(folder: string, most: number): string[] | undefined {
  using dir = opendirSync(folder);
  const names: string[] = [];
  for (let it = dir.readSync(); it !== null; it = dir.readSync()) {
    if (names.length >= most) return undefined;
    names.push(it.name);
  }
  return names;
}

/** The names in a protected name that is a folder; undefined for anything else, and for entries of such a folder. */
export function innerOf(workspace: string, path: string): string[] | undefined {
  if (protectedPart(path) !== path) return undefined;
  const parts = partsOf(Buffer.from(path));
  const name = parts.pop() as Buffer;
  let fd: number;
  try {
    fd = openFolder(workspace, parts);
  } catch {
    return undefined; // ENOENT, ENOTDIR, ELOOP: it went, or somebody put something else there.
  }
  try {
    if (!lstatSync(below(fd, name), { throwIfNoEntry: false })?.isDirectory()) return undefined;
    using inner = closing(openFolder(workspace, [...parts, name]));
    return namesIn(`/proc/self/fd/${inner.fd}`, INNER_MAX);
  } catch {
    return undefined; // EACCES: it is moved as a whole. ENOENT and others: it went.
  } finally {
    closeSync(fd);
  }
}

/** Removes a protected folder of which all was moved; the next command would see it read-only. */
export function removeEmpty(workspace: string, folder: string): void {
  const parts = partsOf(Buffer.from(folder));
  const name = parts.pop() as Buffer;
  try {
    using parent = closing(openFolder(workspace, parts));
    rmdirSync(below(parent.fd, name));
  } catch {
    // ENOTEMPTY: something in it stayed. ENOENT, ENOTDIR: it was moved itself, or is gone.
  }
}
