/** Images of file system entries, for undo to keep and compare: content, permissions, link targets; never times or owners. */
import { createHash } from 'node:crypto';
import * as fs from 'node:fs';
import { openFile } from '../../src/base/disk.ts';
import { ToolError } from '../../src/base/errors.ts';
import type { Limits } from '../../src/base/limits.ts';
import { below, codeOf, type OpenedName } from '../context/anchor.ts';
import { readAll } from '../context/files.ts';
import { makeDirectory, writeNew } from './changes.ts';
import type { Blob, BlobReader, Image, Leaf } from './spool.ts';

const { O_DIRECTORY, O_NOFOLLOW, O_NONBLOCK, O_RDONLY } = fs.constants;
const CHUNK_BYTES = 1024 * 1024;

export type ImageEntry = Pick<OpenedName, 'fd' | 'name'>;

/** Stores content. */
export interface BlobKeeper {
  keepSmall(bytes: Buffer): Blob;
  /** Stores a file that is too large for memory, by its descriptor; gives a path from which to read the copy. */
  large(fd: number, size: number): { blob: Blob; path: string };
}

/** Bytes up to which a file is held in memory while it is stored. */
export const SMALL_BYTES = 1024 * 1024;

export const NONE: Image = { type: 'none' };
export const UNKNOWN: Image = { type: 'unknown' };
/** The empty directory that holds a place for an entry to come. */
export const EMPTY: Image = { type: 'directory', mode: 0o700, hash: createHash('sha256').digest('hex') };

export interface ImageBounds {
  bytesLeft: number;
  entriesLeft: number;
}

/** `roomBytes` is the free space on the disk. */
export const boundsOf = (
  { journalCallBytesMax, journalTreeEntriesMax }: Limits,
  roomBytes = Number.POSITIVE_INFINITY,
): ImageBounds => ({
  bytesLeft: Math.min(journalCallBytesMax, roomBytes),
  entriesLeft: journalTreeEntriesMax,
});

class ImageBoundExceeded extends Error {}

/** The image of the present entry, without following links; `unknown` if it is too large, unreadable, or can't be made again. */
export function imageAt(spot: ImageEntry, bounds: ImageBounds, keeper?: BlobKeeper): Image {
  try {
    return new ImageReader(bounds, keeper).image(spot);
  } catch (error) {
    if (isUnreadable(error)) return UNKNOWN;
    throw error;
  }
}

/** Too large, no permission, or replaced during the look. */
const isUnreadable = (error: unknown): boolean =>
  error instanceof ImageBoundExceeded ||
  (error instanceof ToolError && error.code === 'FILE_LIMIT') ||
  ['EACCES', 'EPERM', 'ELOOP', 'ENOTDIR', 'ENXIO', 'ENOENT', 'EMFILE', 'EINVAL'].includes(codeOf(error) ?? '');

class ImageReader {
  readonly #bounds: ImageBounds;
  readonly #keeper: BlobKeeper | undefined;

  constructor(bounds: ImageBounds, keeper: BlobKeeper | undefined) {
    this.#bounds = bounds;
    this.#keeper = keeper;
  }

  image(spot: ImageEntry): Image {
    const stat = fs.lstatSync(below(spot.fd, spot.name), { throwIfNoEntry: false });
    if (!stat) return NONE;
    if (!stat.isDirectory()) return this.#leaf(spot, stat);
    const entries: [string, Leaf][] = [];
    this.#walk(spot, '', entries);
    const { mode } = stat;
    return { type: 'directory', mode: mode & 0o777, hash: hashOfTree(entries), entries: this.#keeper && entries };
  }

  #walk(spot: ImageEntry, path: string, entries: [string, Leaf][]): void {
    using folder = openFile(below(spot.fd, spot.name), O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    for (const name of fs.readdirSync(`/proc/self/fd/${folder.fd}`).toSorted()) {
      const at = path === '' ? name : `${path}/${name}`;
      if (name.includes('\ufffd')) throw new ImageBoundExceeded();
      const stat = fs.lstatSync(below(folder.fd, name));
      if (stat.isDirectory()) {
        this.#count();
        entries.push([at, { type: 'directory', mode: stat.mode & 0o777 }]);
        this.#walk({ fd: folder.fd, name }, at, entries);
      } else entries.push([at, this.#leaf({ fd: folder.fd, name }, stat)]);
    }
  }

  #leaf(spot: ImageEntry, stat: fs.Stats): Exclude<Leaf, { type: 'directory' }> {
    this.#count();
    if (stat.isSymbolicLink()) {
      const target = fs.readlinkSync(below(spot.fd, spot.name), { encoding: 'buffer' });
      return { type: 'symlink', target: target.toString('latin1') };
    }
    if (!stat.isFile()) throw new ImageBoundExceeded();
    return this.#file(spot);
  }

  #file(spot: ImageEntry): Extract<Leaf, { type: 'file' }> {
    const fd = fs.openSync(below(spot.fd, spot.name), O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    try {
      const { size, mode } = fs.fstatSync(fd);
      this.#bounds.bytesLeft -= size;
      if (this.#bounds.bytesLeft < 0) throw new ImageBoundExceeded();
      const base = { type: 'file', mode: mode & 0o777 } as const;
      if (size <= SMALL_BYTES) {
        const bytes = readAll({ fd, path: spot.name, size }, SMALL_BYTES * 2);
        const smallBlob = this.#keeper && { blob: this.#keeper.keepSmall(bytes) };
        return { ...base, bytes: bytes.length, hash: sha256(bytes), ...smallBlob };
      }
      const keptCopy = this.#keeper?.large(fd, size);
      const hash = keptCopy ? hashOfFile(keptCopy.path) : hashOfFd(fd);
      return { ...base, bytes: size, hash, blob: keptCopy?.blob };
    } finally {
      fs.closeSync(fd);
    }
  }

  #count(): void {
    this.#bounds.entriesLeft -= 1;
    if (this.#bounds.entriesLeft < 0) throw new ImageBoundExceeded();
  }
}

export const sha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');

function hashOfFile(path: string): string {
  using opened = openFile(path, O_RDONLY | O_NOFOLLOW);
  return hashOfFd(opened.fd);
}

function hashOfFd(fd: number): string {
  const hash = createHash('sha256');
  const chunk = Buffer.allocUnsafe(CHUNK_BYTES);
  for (let at = 0; ; ) {
    const got = fs.readSync(fd, chunk, 0, chunk.length, at);
    if (got === 0) return hash.digest('hex');
    hash.update(chunk.subarray(0, got));
    at += got;
  }
}

export function hashOfTree(entries: readonly [string, Leaf][]): string {
  const hash = createHash('sha256');
  for (const [path, leaf] of entries) hash.update(`${path}\0${signature(leaf)}\n`);
  return hash.digest('hex');
}

function signature(leaf: Leaf): string {
  if (leaf.type === 'symlink') return `symlink\0${leaf.target}`;
  return leaf.type === 'file' ? `file\0${leaf.mode}\0${leaf.hash}` : `directory\0${leaf.mode}`;
}

/** Whether two images are equal; an unknown image equals none. */
export function isSameImage(a: Image, b: Image): boolean {
  if (a.type === 'none' || a.type === 'unknown') return a.type === 'none' && b.type === 'none';
  if (a.type === 'directory') return b.type === 'directory' && a.mode === b.mode && a.hash === b.hash;
  return b.type === a.type && signature(a) === signature(b);
}

/** Whether the entry can be restored from what was kept. */
export function isKept(image: Image): boolean {
  if (image.type === 'file') return image.blob !== undefined;
  if (image.type === 'directory') return image.entries !== undefined;
  return image.type !== 'unknown';
}

/** Makes the entry of an image under a free name, and flushes it to disk. Throws the file system's error. */
export async function build(
  image: Image,
  to: ImageEntry,
  { read, breathe, flushes = true }: { read: BlobReader; breathe(): Promise<void>; flushes?: boolean },
): Promise<void> {
  if (image.type === 'none' || image.type === 'unknown') throw new Error('nothing to make');
  if (image.type !== 'directory') return buildLeaf(image, below(to.fd, to.name), read, flushes);
  const { entries = [], mode } = image;
  using tree = new TreeBuilder(to, mode);
  for (const [index, [path, leaf]] of entries.entries()) {
    const spot = tree.spotOf(path);
    if (leaf.type === 'directory') tree.enter(spot, path, leaf.mode);
    else buildLeaf(leaf, below(spot.fd, spot.name), read);
    if (index % 100 === 0) await breathe();
  }
}

/** A tree under construction. Each directory stays open below its parent: commands see the tree meanwhile, and could swap in a link. */
class TreeBuilder implements Disposable {
  readonly #open: { path: string; fd: number; mode: number }[] = [];

  constructor(top: ImageEntry, mode: number) {
    this.enter(top, '', mode);
  }

  /** The place for the entry at `path`; its parent is the directory entered last, or one above it. */
  spotOf(path: string): ImageEntry {
    const cut = path.lastIndexOf('/');
    const [parent, name] = [cut < 0 ? '' : path.slice(0, cut), path.slice(cut + 1)];
    while (this.#open.length > 1 && this.#open.at(-1)?.path !== parent) this.#leave();
    const { fd, path: found } = this.#open.at(-1) as { fd: number; path: string };
    if (found !== parent || cut === 0 || name === '' || name === '.' || name === '..')
      throw new ToolError('CONFLICT', `\`${path}\` is not a path in a directory tree`);
    return { fd, name };
  }

  enter({ fd, name }: ImageEntry, path: string, mode: number): void {
    makeDirectory(below(fd, name), 0o700);
    this.#open.push({ path, mode, fd: fs.openSync(below(fd, name), O_RDONLY | O_DIRECTORY | O_NOFOLLOW) });
  }

  /** Sets permissions at the end: they may forbid writing. */
  #leave(): void {
    const { fd, mode } = this.#open.pop() as { fd: number; mode: number };
    fs.fchmodSync(fd, mode);
    fs.closeSync(fd);
  }

  [Symbol.dispose](): void {
    while (this.#open.length > 0) this.#leave();
  }
}

function buildLeaf(leaf: Exclude<Leaf, { type: 'directory' }>, at: string, read: BlobReader, flushes = true): void {
  if (leaf.type === 'symlink') return fs.symlinkSync(Buffer.from(leaf.target, 'latin1'), at);
  const { blob } = leaf;
  if (!blob) throw new Error('the content was not kept');
  writeNew(at, leaf.mode, read(blob), flushes);
}
