/** The index's record of a workspace's directories, and functions that read their names. */
import type { Dirent, PathLike } from 'node:fs';
import { opendir, readdir } from 'node:fs/promises';
import type { Limits } from '../base/limits.ts';

/** The entries of a directory other than directories; replaced as a whole when it changes. */
export interface Listing {
  /** Without symbolic links. */
  readonly files: readonly string[];
  /** Symbolic links, which no mask is about. */
  readonly links: readonly string[];
  /** Names that are not UTF-8, decoded as Latin-1; no mount can name them. */
  readonly odd: readonly string[];
  /** The Unix sockets among `files` and `odd`. */
  readonly sockets: readonly string[];
  /** The files whose names may mean secrets but that hold no credential. */
  readonly ordinary?: readonly string[];
}

export interface Directory {
  /** Relative to the workspace; '' for the workspace itself. */
  readonly path: string;
  /** Key of the directory in its parent's `directories`. */
  readonly key: string;
  /** Absolute path; bytes if a name in it is not UTF-8. */
  readonly at: Name;
  readonly parent: Directory | undefined;
  listing: Listing;
  readonly directories: Map<string, Directory>;
  /** Whether neither the daemon nor a command can look into it. */
  unreadable: boolean;
  /** Whether it holds a directory whose path is too long or too deep to mask; the content of that is unknown. */
  deep: boolean;
  inode: bigint;
  changedNs: bigint;
}

export const EMPTY: Listing = { files: [], links: [], odd: [], sockets: [] };

/** Larger directories are read in parts: one with 300 000 names would block the event loop for 200 ms. */
const WHOLE_BYTES_MAX = 128 * 1024;
const PART_ENTRIES = 1024;

type DirectoryPath = Pick<Directory, 'path' | 'key' | 'at' | 'parent'>;

const unread = (at: DirectoryPath): Directory => ({
  ...at,
  listing: EMPTY,
  directories: new Map(),
  unreadable: false,
  deep: false,
  inode: 0n,
  changedNs: 0n,
});

/** The root directory of a workspace, not read yet. */
export const rootOf = (workspace: string): Directory => unread({ path: '', key: '', at: workspace, parent: undefined });

/** A subdirectory, not read yet. */
export function childOf(parent: Directory, name: Name): Directory {
  const shown = typeof name === 'string' ? name : name.toString('latin1');
  const path = parent.path === '' ? shown : `${parent.path}/${shown}`;
  const plain = typeof name === 'string' && typeof parent.at === 'string';
  const at = plain ? `${parent.at}/${name}` : Buffer.concat([toBytes(parent.at), SLASH, toBytes(name)]);
  return unread({ path, key: keyOf(name), at, parent });
}

const SLASH = Buffer.from('/');
const toBytes = (it: Name): Buffer => (typeof it === 'string' ? Buffer.from(it) : it);
/** The key of a name; one that is not UTF-8 gets a key that no other name has. */
export const keyOf = (name: Name): string => (typeof name === 'string' ? name : `/${name.toString('hex')}`);
export const countOf = ({ files, odd }: Listing): number => files.length + odd.length;
export const countWithLinks = (it: Listing): number => countOf(it) + it.links.length;

const isSame = (a: readonly string[] = [], b: readonly string[] = []): boolean =>
  a.length === b.length && a.every((name, at) => name === b[at]);

/** Whether two listings are equal in what masks are about, in the same order. */
export const sameNames = (a: Listing, b: Listing): boolean =>
  isSame(a.sockets, b.sockets) && isSame(a.files, b.files) && isSame(a.odd, b.odd) && isSame(a.ordinary, b.ordinary);

export const sameLinks = (a: Listing, b: Listing): boolean => isSame(a.links, b.links);

/**
 * Paths of the Unix sockets in directories, relative to the workspace; undefined if there are too many, or no mount
 * can name one of them.
 */
export function socketsIn(
  directories: Iterable<Directory>,
  { socketMasksMax, maskPathBytesMax }: Limits,
): string[] | undefined {
  const found: string[] = [];
  for (const { path, at, listing } of directories) {
    if (typeof at !== 'string' || listing.sockets.some((it) => listing.odd.includes(it))) return undefined;
    found.push(...listing.sockets.map((it) => (path === '' ? it : `${path}/${it}`)));
    if (found.length > socketMasksMax || Buffer.byteLength(at) > maskPathBytesMax - NAME_BYTES_MAX) return undefined;
  }
  return found;
}

/** Yields all directories of a tree, parents before children. */
export function* everyDirectory(root: Directory): Generator<Directory> {
  const stack = [root];
  for (let it = stack.pop(); it; it = stack.pop()) {
    yield it;
    stack.push(...it.directories.values());
  }
}

const nameSets = new WeakMap<Listing, ReadonlySet<string>>();

/** Whether a directory holds an entry of this name that is no directory; false for a name that is not UTF-8. */
export function hasName({ listing }: Directory, name: string): boolean {
  if (countWithLinks(listing) < FEW_NAMES) return listing.files.includes(name) || listing.links.includes(name);
  const known = nameSets.get(listing) ?? new Set([...listing.files, ...listing.links]);
  nameSets.set(listing, known);
  return known.has(name);
}

/** Up to here a set of the names is not worth its memory. */
const FEW_NAMES = 64;

/** Bytes of the longest file name. */
const NAME_BYTES_MAX = 256;

/** A file name; bytes if it is not UTF-8. */
export type Name = string | Buffer;

interface NamesRead {
  readonly listing: Listing;
  readonly directories: Name[];
}

/** Reads the names in a directory, at most about `entriesMax`. Throws the file system's error. */
export async function readNames(at: Name, bytes: number, entriesMax: number): Promise<NamesRead> {
  const found = await readWith(at, { bytes, entriesMax, encoding: typeof at === 'string' ? 'utf8' : 'buffer' });
  // Node replaces invalid bytes by this character, which a valid name may hold, too.
  const doubtful = [...found.listing.files, ...found.directories].some(
    (it) => typeof it === 'string' && it.includes('\ufffd'),
  );
  return doubtful ? readWith(at, { bytes, entriesMax, encoding: 'buffer' }) : found;
}

interface ReadOptions {
  readonly bytes: number;
  readonly entriesMax: number;
  readonly encoding: 'utf8' | 'buffer';
}

async function readWith(at: Name, { bytes, entriesMax, encoding }: ReadOptions): Promise<NamesRead> {
  const files: string[] = [];
  const links: string[] = [];
  const odd: string[] = [];
  const sockets: string[] = [];
  const directories: Name[] = [];
  const take = (entry: Dirent<Name>) => {
    const name = plainName(entry.name);
    if (entry.isDirectory()) directories.push(name);
    else {
      const shown = typeof name === 'string' ? name : name.toString('latin1');
      if (entry.isSymbolicLink()) return void links.push(shown);
      (typeof name === 'string' ? files : odd).push(shown);
      if (entry.isSocket()) sockets.push(shown);
    }
  };
  if (bytes <= WHOLE_BYTES_MAX) {
    const entries = await readdir(at, { withFileTypes: true, encoding: encoding as 'buffer' });
    for (const entry of entries) take(entry);
    return { listing: { files, links, odd, sockets }, directories };
  }
  const handle = await opendir(at as PathLike as string, { bufferSize: PART_ENTRIES, encoding: encoding as never });
  let count = 0;
  for await (const entry of handle) {
    take(entry);
    if (++count > entriesMax) break;
  }
  return { listing: { files, links, odd, sockets }, directories };
}

/** The name as text, if its bytes are UTF-8. */
export function plainName(name: Name): Name {
  if (typeof name === 'string') return name;
  const text = name.toString('utf8');
  return Buffer.from(text, 'utf8').equals(name) ? text : name;
}
