/**
 * Writes a command's permitted changes of its copy of a config into the repository's config. Writes the file in place: a
 * rename over it would remove, in all other commands' sandboxes, the mount that keeps them from writing it.
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
import { closing } from '../../../base/disk.ts';
import type { Powers } from '../../../base/powers.ts';
import { type Merged, merge, readsWorktreeConfig, refuseAll } from './changes.ts';

/** Outcome of the changes of one config. */
export interface TakenOver extends Pick<Merged, 'taken' | 'refused' | 'isFolded'> {
  /** The config's path, relative to the workspace. */
  readonly path: string;
}

interface Change {
  readonly workspace: string;
  readonly path: string;
  readonly given: string;
  /** Text of the copy; undefined if it can't be read. */
  readonly left: string | undefined;
  /** The copy of the `config.worktree` beside it; absent if there was none, so that one on the disk is the command's. */
  readonly worktree?: { readonly left: string | undefined };
  readonly isRunning: boolean;
}

/** Settings of one work tree, which lie beside the config, and which git reads if the config says so. */
export const WORKTREE_CONFIG = 'config.worktree';

const { O_DIRECTORY, O_NOFOLLOW, O_NONBLOCK, O_RDONLY, O_RDWR, O_WRONLY, O_CREAT, O_EXCL } = constants;
/** Largest size of a repository's config. */
const CONFIG_BYTES_MAX = 128 * 1024;
/** git and Ringfence hold a config's lock for some milliseconds. */
const LOCK_TRIES = 10;
const LOCK_WAIT_MS = 20;

export async function takeOver(change: Change, powers: Powers): Promise<TakenOver> {
  const { path, left } = change;
  if (left === undefined) return { path, ...refuseAll('what it left is no file, or is too large') };
  for (let tries = 0; ; tries++) {
    const merged = mergeLocked({ ...change, left });
    if (merged) {
      const { taken, refused, isFolded } = merged;
      return { path, taken, refused, isFolded };
    }
    if (tries >= LOCK_TRIES) return { path, ...refuseAll('`config.lock` beside it is held by another program') };
    await new Promise<void>((resolve) => void powers.after(LOCK_WAIT_MS, resolve));
  }
}

/** Merges under the config's lock; undefined if another program holds it. */
function mergeLocked(change: Readable): Merged | undefined {
  const { workspace, path } = change;
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
    remove(lockPath);
  });
  try {
    return mergeIn(folder, change, lock);
  } catch (error) {
    return refuseAll(`it could not be written (${(error as NodeJS.ErrnoException).code})`);
  }
}

/** Removes a file. A command that runs at the same time may have removed or replaced it. */
function remove(path: string): void {
  try {
    unlinkSync(path);
  } catch {
    // ENOENT, EISDIR: removed or replaced.
  }
}

type Readable = Change & { readonly left: string };

function mergeIn(folder: number, { path, given, left, worktree, isRunning }: Readable, lock: number): Merged {
  const name = basename(path);
  const fd = openRegular(folder, name, O_RDWR, CONFIG_BYTES_MAX);
  if (fd === undefined) return refuseAll('it is gone, or is no file of its own');
  try {
    const before = readFileSync(fd);
    const isOfWorktree = name === WORKTREE_CONFIG;
    // Under the config's lock nobody else can have git begin to read a `config.worktree`.
    const isUnread = !isOfWorktree && !isRunning && !readsWorktreeConfig(before.toString());
    const unread = worktree ? worktree.left : isUnread ? readIn(folder, WORKTREE_CONFIG, CONFIG_BYTES_MAX) : undefined;
    const options = { isOfWorktree, isRunning, ...(isUnread && { worktree: unread }) };
    const merged = merge(given, left, before.toString(), options);
    // Left behind, its settings would count as soon as the person has git read such files.
    if (isUnread && (!worktree || merged.isFolded)) remove(`/proc/self/fd/${folder}/${WORKTREE_CONFIG}`);
    if (merged.text === undefined) return merged;
    const after = Buffer.from(merged.text);
    if (after.length > CONFIG_BYTES_MAX) return refuseAll('it would become too large');
    // If this process is killed while it writes the config, the lock file holds the whole text.
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
 * Writes a text over another one so that a concurrent reader, even in the middle of a write, finds no line that is in neither text: the
 * old lines become comments, one byte each, the last one first; comments replace comments; then the new lines lose their `#`.
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

/** Reserves disk space first: a full disk then fails before anything has changed. */
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

/** Offset of the first line that differs. */
function firstDifference(before: Buffer, after: Buffer): number {
  let [line, at] = [0, 0];
  for (; at < before.length && at < after.length && before[at] === after[at]; at++)
    if (before[at] === NEWLINE) line = at + 1;
  return at === before.length && (at === 0 || before[at - 1] === NEWLINE) ? at : line;
}

/** Offsets of non-empty lines from `from` on. */
function linesOf(text: Buffer, from: number): number[] {
  const starts: number[] = [];
  for (let at = from; at < text.length; at = text.indexOf(NEWLINE, at) + 1) {
    if (text[at] !== NEWLINE) starts.push(at);
    if (!text.includes(NEWLINE, at)) break;
  }
  return starts;
}

const NEWLINE = 0x0a;

/** Whether there is anything at a path below a folder, without following any link. */
export function isThere(root: string, path: string): boolean {
  const folder = openFolder(root, dirname(path));
  if (folder === undefined) return false;
  using _ = closing(folder);
  return lstatSync(`/proc/self/fd/${folder}/${basename(path)}`, { throwIfNoEntry: false }) !== undefined;
}

/** Reads a file below a folder without following any link; undefined if it is missing, not regular, too large or not UTF-8. */
export function readBelow(root: string, path: string, bytesMax: number): string | undefined {
  const folder = openFolder(root, dirname(path));
  if (folder === undefined) return undefined;
  using _ = closing(folder);
  return readIn(folder, basename(path), bytesMax);
}

/** Reads the same in an opened folder. */
export function readIn(folder: number, name: string, bytesMax: number): string | undefined {
  const fd = openRegular(folder, name, O_RDONLY, bytesMax);
  if (fd === undefined) return undefined;
  using _ = closing(fd);
  const bytes = readFileSync(fd);
  const text = bytes.toString();
  return bytes.length <= bytesMax && Buffer.from(text).equals(bytes) ? text : undefined;
}

/** Opens a regular file without other hard links: another link may be visible elsewhere. */
function openRegular(folder: number, name: string, access: number, bytesMax: number): number | undefined {
  const path = `/proc/self/fd/${folder}/${name}`;
  let fd: number;
  try {
    if (!lstatSync(path).isFile()) return undefined;
    fd = openSync(path, access | O_NOFOLLOW | O_NONBLOCK);
  } catch {
    return undefined; // ENOENT, ELOOP, EACCES: missing, a link, or not readable.
  }
  const stat = fstatSync(fd);
  if (stat.isFile() && stat.nlink === 1 && stat.size <= bytesMax) return fd;
  closeSync(fd);
  return undefined;
}

/** Opens each name relative to the folder before it, so that a link in between is not followed. */
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
    return undefined; // ENOENT, ENOTDIR, ELOOP, EACCES: missing, replaced, or not readable.
  }
}
