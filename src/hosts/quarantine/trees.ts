/** Trees with few entries, in places where others may change them meanwhile: no link is followed. */
import * as fs from 'node:fs';
import { closing, openToRead } from '../../base/disk.ts';
import { below, namesIn, openFolder, partsOf } from './places.ts';

export interface Entry {
  readonly type: 'file' | 'link' | 'folder' | 'hidden';
  readonly mode: number;
  /** What tells whether the entry is as it was; a folder is, whatever is in it. */
  readonly print: string;
}

/** Entries by their names below the top; folders come before what is in them. */
export type Entries = ReadonlyMap<string, Entry>;

export interface TreeBounds {
  readonly entries: number;
  readonly bytes: number;
  /** Names of entries that are not looked at. */
  readonly skipped: ReadonlyMap<string, unknown>;
}

const DEPTH_MAX = 32;

/** The entries of the folder at a path, '' for the root itself; undefined if it is none, is too large, or holds what is no file, link or folder. */
export function entriesOf(root: string, path: string, bounds: TreeBounds): Entries | undefined {
  const found = new Map<string, Entry>();
  let bytes = 0;
  const left = [''];
  try {
    for (let name = left.shift(); name !== undefined; name = left.shift()) {
      const parts = [path, name].filter((it) => it !== '').flatMap((it) => partsOf(Buffer.from(it)));
      if (parts.length > DEPTH_MAX) return undefined;
      using opened = closing(openFolder(root, parts));
      const names = namesIn(`/proc/self/fd/${opened.fd}`, bounds.entries - found.size);
      if (!names) return undefined;
      for (const inner of names) {
        const at = name === '' ? inner : `${name}/${inner}`;
        const stat = fs.lstatSync(`/proc/self/fd/${opened.fd}/${inner}`, { bigint: true });
        const entry = bounds.skipped.has(at) ? HIDDEN : toEntry(stat);
        if (!entry) return undefined;
        bytes += entry.type === 'file' ? Number(stat.size) : 0;
        if (bytes > bounds.bytes) return undefined;
        found.set(at, entry);
        if (entry.type === 'folder') left.push(at);
      }
    }
    return found;
  } catch {
    return undefined; // ENOENT, ENOTDIR, ELOOP, EACCES: it went, is none, or is closed to us; or a name is no text.
  }
}

const HIDDEN: Entry = { type: 'hidden', mode: 0, print: 'hidden' };

function toEntry(stat: fs.BigIntStats): Entry | undefined {
  const mode = Number(stat.mode) & 0o777;
  if (stat.isDirectory()) return { type: 'folder', mode, print: `folder ${mode}` };
  const type = stat.isFile() ? 'file' : stat.isSymbolicLink() ? 'link' : undefined;
  return type && { type, mode, print: [stat.ino, stat.size, stat.mtimeNs, stat.ctimeNs, stat.mode].join(' ') };
}

export const isSameTree = (a: Entries, b: Entries): boolean =>
  a.size === b.size && [...a].every(([name, { print }]) => b.get(name)?.print === print);

/** What tells whether an entry is as it was; undefined if there is none. */
export function printOf(at: string | Buffer): string | undefined {
  const stat = fs.lstatSync(at, { bigint: true, throwIfNoEntry: false });
  return stat && (toEntry(stat)?.print ?? 'other');
}

/** Whether something is at a path that is as `isIt` says. */
export function isThere(root: string, path: string, isIt: (at: string) => boolean = () => true): boolean {
  try {
    return atEntry(root, path, (at) => printOf(at) !== undefined && isIt(at));
  } catch {
    return false; // ENOENT, ENOTDIR, ELOOP: its folder is gone, or is none.
  }
}

/** Calls `work` with the open folder of a path and the entry in it. Throws ENOENT, ENOTDIR, ELOOP. */
export function atEntry<T>(root: string, path: string, work: (at: string, folder: string) => T, make = false): T {
  const parts = partsOf(Buffer.from(path));
  const name = parts.pop() as Buffer;
  using opened = closing(openFolder(root, parts, { make }));
  return work(below(opened.fd, name).toString(), `/proc/self/fd/${opened.fd}`);
}

/** Copies a file or a link; `to` must not exist. */
export function copyEntry(from: string, to: string): void {
  const stat = fs.lstatSync(from);
  if (stat.isSymbolicLink()) return fs.symlinkSync(fs.readlinkSync(from, 'buffer'), to);
  using held = openToRead(from);
  fs.copyFileSync(`/proc/self/fd/${held.fd}`, to, fs.constants.COPYFILE_EXCL | fs.constants.COPYFILE_FICLONE);
  fs.chmodSync(to, stat.mode & 0o777);
  fs.utimesSync(to, stat.atimeMs / 1000, stat.mtimeMs / 1000);
}

/** Puts a copy of an entry in the place of another one, or where none is. */
export function replaceEntry(from: string, to: string, tmp: string): void {
  try {
    copyEntry(from, tmp);
    fs.renameSync(tmp, to);
  } catch (error) {
    fs.rmSync(tmp, { force: true });
    throw error;
  }
}

/** Whether two entries are files with the same bytes and permissions, or links to the same. */
export function isSameEntry(a: string, b: string): boolean {
  const [one, other] = [a, b].map((it) => fs.lstatSync(it, { throwIfNoEntry: false }));
  if (!one || !other || one.mode !== other.mode || one.size !== other.size) return false;
  if (one.isSymbolicLink()) return fs.readlinkSync(a) === fs.readlinkSync(b);
  return one.isFile() && bytesOf(a).equals(bytesOf(b));
}

function bytesOf(at: string): Buffer {
  using held = openToRead(at);
  return fs.readFileSync(held.fd);
}
