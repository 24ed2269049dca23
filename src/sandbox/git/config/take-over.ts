/**
 * Writes what a command changed in its copy of a config into the repository's own, as far as it may. The file is written in place: a
 * rename over it would take away, in the sandboxes of all other commands, the mount that keeps them from writing it.
 */
import {
  closeSync,
  constants,
  fstatSync,
  fsyncSync,
  ftruncateSync,
  lstatSync,
  openSync,
  readFileSync,
  unlinkSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { basename, dirname } from 'node:path';
import type { Powers } from '../../../powers.ts';
import { type Merged, merge, refuseAll } from './changes.ts';

/** What became of the changes of one config. */
export interface TakenOver extends Pick<Merged, 'taken' | 'refused'> {
  /** Of the config, relative to the workspace. */
  readonly path: string;
}

interface Change {
  readonly workspace: string;
  readonly path: string;
  readonly given: string;
  /** Undefined where the copy can't be read. */
  readonly left: string | undefined;
}

const { O_DIRECTORY, O_NOFOLLOW, O_NONBLOCK, O_RDONLY, O_RDWR, O_WRONLY, O_CREAT, O_EXCL } = constants;
/** As large as a repository's config may become. */
const CONFIG_BYTES_MAX = 128 * 1024;
/** git, and we, hold the lock of a config for some milliseconds. */
const LOCK_TRIES = 10;
const LOCK_WAIT_MS = 20;

export async function takeOver({ workspace, path, given, left }: Change, powers: Powers): Promise<TakenOver> {
  if (left === undefined) return { path, ...refuseAll('what it left is no file, or is too large') };
  for (let tries = 0; ; tries++) {
    const merged = mergeLocked({ workspace, path, given, left });
    if (merged) return { path, taken: merged.taken, refused: merged.refused };
    if (tries >= LOCK_TRIES) return { path, ...refuseAll('`config.lock` beside it is held by another program') };
    await new Promise<void>((resolve) => void powers.after(LOCK_WAIT_MS, resolve));
  }
}

/** Undefined where somebody else holds the lock. */
function mergeLocked({
  workspace,
  path,
  given,
  left,
}: Required<Change> & { readonly left: string }): Merged | undefined {
  using open = new DisposableStack();
  const folder = openFolder(workspace, dirname(path));
  if (folder === undefined) return refuseAll('its folder is gone');
  open.defer(() => closeSync(folder));
  const lockPath = `/proc/self/fd/${folder}/${basename(path)}.lock`;
  let lock: number;
  try {
    lock = openSync(lockPath, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0o644);
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException;
    return code === 'EEXIST' ? undefined : refuseAll(`it could not be locked (${code})`);
  }
  open.defer(() => {
    closeSync(lock);
    unlock(lockPath);
  });
  try {
    return mergeIn(folder, basename(path), { given, left, lock });
  } catch (error) {
    return refuseAll(`it could not be written (${(error as NodeJS.ErrnoException).code})`);
  }
}

/** A command that runs beside may have removed it, or put something else in its place. */
function unlock(path: string): void {
  try {
    unlinkSync(path);
  } catch {
    // ENOENT, EISDIR.
  }
}

function mergeIn(
  folder: number,
  name: string,
  { given, left, lock }: { given: string; left: string; lock: number },
): Merged {
  const fd = openRegular(folder, name, O_RDWR, CONFIG_BYTES_MAX);
  if (fd === undefined) return refuseAll('it is gone, or is no file of its own');
  try {
    const before = readFileSync(fd);
    const merged = merge(given, left, before.toString());
    if (merged.text === undefined) return merged;
    const after = Buffer.from(merged.text);
    if (after.length > CONFIG_BYTES_MAX) return refuseAll('it would become too large');
    // Where this process is killed while it writes, all of it is here.
    writeFileSync(lock, after);
    fsyncSync(lock);
    rewrite(fd, before, after);
    return merged;
  } finally {
    closeSync(fd);
  }
}

const HASH = Buffer.from('#');

/**
 * Writes a text over another one so that whoever reads meanwhile, even in the middle of a write, finds no line that is in neither: the
 * old lines become comments, one byte each, the last one first; comments are replaced by comments; then the new lines are made lines.
 */
export function rewrite(fd: number, before: Buffer, after: Buffer, write: typeof writeSync = writeSync): void {
  const from = firstDifference(before, after);
  const room = Buffer.alloc(Math.max(before.length, after.length) - from, HASH);
  const grown = Buffer.concat([before, room.subarray(before.length - from)]);
  grow(fd, before, grown, write);
  const newLines = linesOf(after, from);
  for (const at of linesOf(grown, from).toReversed()) write(fd, HASH, 0, 1, at);
  if (room.length > 0) write(fd, room, 0, room.length, from);
  const silent = Buffer.from(after.subarray(from));
  for (const at of newLines) HASH.copy(silent, at - from);
  if (silent.length > 0) write(fd, silent, 0, silent.length, from);
  if (after.length < before.length) ftruncateSync(fd, after.length);
  for (const at of newLines) write(fd, after, at, 1, at);
  fsyncSync(fd);
}

/** Room on the disk first: what is full is met before anything has changed. */
function grow(fd: number, before: Buffer, grown: Buffer, write: typeof writeSync): void {
  const more = grown.length - before.length;
  if (more === 0) return;
  try {
    if (write(fd, grown, before.length, more, before.length) < more)
      throw Object.assign(new Error(), { code: 'ENOSPC' });
  } catch (error) {
    ftruncateSync(fd, before.length);
    throw error;
  }
}

/** Where the first line begins that is not the same. */
function firstDifference(before: Buffer, after: Buffer): number {
  let [line, at] = [0, 0];
  for (; at < before.length && at < after.length && before[at] === after[at]; at++)
    if (before[at] === NEWLINE) line = at + 1;
  return at === before.length && (at === 0 || before[at - 1] === NEWLINE) ? at : line;
}

/** Where lines begin, from there on, but for empty ones. */
function linesOf(text: Buffer, from: number): number[] {
  const starts: number[] = [];
  for (let at = from; at < text.length; at = text.indexOf(NEWLINE, at) + 1) {
    if (text[at] !== NEWLINE) starts.push(at);
    if (!text.includes(NEWLINE, at)) break;
  }
  return starts;
}

const NEWLINE = 0x0a;

/** The text of a file below a folder, on whose way no link is followed; undefined where it is none, is too large, or is not UTF-8. */
export function readBelow(root: string, path: string, bytesMax: number): string | undefined {
  const folder = openFolder(root, dirname(path));
  if (folder === undefined) return undefined;
  try {
    return readIn(folder, basename(path), bytesMax);
  } finally {
    closeSync(folder);
  }
}

/** The same in an opened folder. */
export function readIn(folder: number, name: string, bytesMax: number): string | undefined {
  const fd = openRegular(folder, name, O_RDONLY, bytesMax);
  if (fd === undefined) return undefined;
  try {
    const bytes = readFileSync(fd);
    const text = bytes.toString();
    return bytes.length <= bytesMax && Buffer.from(text).equals(bytes) ? text : undefined;
  } finally {
    closeSync(fd);
  }
}

/** A regular file of one name only: another name of it may be shown elsewhere. */
function openRegular(folder: number, name: string, access: number, bytesMax: number): number | undefined {
  const path = `/proc/self/fd/${folder}/${name}`;
  let fd: number;
  try {
    if (!lstatSync(path).isFile()) return undefined;
    fd = openSync(path, access | O_NOFOLLOW | O_NONBLOCK);
  } catch {
    return undefined; // ENOENT, ELOOP, EACCES.
  }
  const stat = fstatSync(fd);
  if (stat.isFile() && stat.nlink === 1 && stat.size <= bytesMax) return fd;
  closeSync(fd);
  return undefined;
}

/** Each name is opened below the folder before it, so that a link in the place of one leads nowhere. */
function openFolder(root: string, path: string): number | undefined {
  let fd: number | undefined;
  try {
    fd = openSync(root, O_RDONLY | O_DIRECTORY);
    for (const name of path.split('/').filter((it) => it !== '.' && it !== '')) {
      const inner = openSync(`/proc/self/fd/${fd}/${name}`, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
      closeSync(fd);
      fd = inner;
    }
    return fd;
  } catch {
    if (fd !== undefined) closeSync(fd);
    return undefined; // ENOENT, ENOTDIR, ELOOP, EACCES.
  }
}
