/**
 * Inspects, copies and removes whole trees. Each directory is opened below its parent, so that a link swapped in
 * meanwhile is itself copied or removed, never its target.
 */
import { createHash } from 'node:crypto';
import * as fs from 'node:fs';
import { closing } from '../../src/base/disk.ts';
import { ToolError } from '../../src/base/errors.ts';
import type { Limits } from '../../src/base/limits.ts';
import type { EntryType } from '../../src/tools/tool.ts';
import { below, codeOf, toAccessError } from '../context/anchor.ts';
import { typeOf } from '../context/targets.ts';
import { chunksOf, type DirEntry, makeDirectory, writingNew } from './changes.ts';

const { O_DIRECTORY, O_NOFOLLOW, O_NONBLOCK, O_RDONLY } = fs.constants;

/** Entries between two checks of the abort signal; about 10 ms of work. */
const ENTRIES_PER_BREATH = 500;
/** Attempts to empty a directory that somebody keeps filling. */
const ROUNDS_MAX = 8;

export interface TreeEntry {
  /** Path from the top of the tree; '' for the top itself. */
  readonly below: string;
  readonly type: EntryType;
}

export interface TreeOptions {
  /** Path of the tree as the caller named it. */
  readonly path: string;
  readonly limits: Limits;
  breathe(): Promise<void>;
  /** Called for each entry first; throwing refuses the whole operation. */
  visit?(entry: TreeEntry): void;
}

/** One traversal of a tree: its counts, bounds and error messages. */
export class TreeTraversal {
  entries = 0;
  bytes = 0;
  readonly #options: TreeOptions;

  constructor(options: TreeOptions) {
    this.#options = options;
  }

  async enter(entry: TreeEntry, depth: number): Promise<void> {
    const { path, limits, breathe, visit } = this.#options;
    if (++this.entries > limits.treeEntriesMax)
      throw tooLarge(`\`${path}\` holds more than ${limits.treeEntriesMax} entries`, limits.treeEntriesMax);
    if (depth > limits.treeDepthMax)
      throw tooLarge(`\`${path}\` is more than ${limits.treeDepthMax} directories deep`, limits.treeDepthMax);
    if (this.entries % ENTRIES_PER_BREATH === 0) await breathe();
    visit?.(entry);
  }

  async countBytes(bytes: number): Promise<void> {
    const { path, limits, breathe } = this.#options;
    this.bytes += bytes;
    if (this.bytes > limits.changeBytesMax)
      throw tooLarge(`\`${path}\` holds more than ${limits.changeBytesMax} bytes`, limits.changeBytesMax);
    await breathe();
  }

  breathe(): Promise<void> {
    return this.#options.breathe();
  }

  name(entry: TreeEntry): string {
    return join(this.#options.path, entry.below);
  }
}

const tooLarge = (what: string, limit: number) =>
  new ToolError('FILE_LIMIT', `${what}, which is the maximum for one call; nothing was changed`, {
    suggestion: 'Split the work into parts, or use a command.',
    details: { limit, enforcedBy: 'tool' },
  });

/** An open directory, closed at the end of its block. */
export class OpenDirectory implements Disposable {
  readonly fd: number;

  constructor(fd: number, name: string) {
    this.fd = fs.openSync(below(fd, name), O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  }

  names(): string[] {
    return fs.readdirSync(`/proc/self/fd/${this.fd}`).toSorted();
  }

  /** Facts of an entry; undefined if it is gone. Throws UNSUPPORTED for a name that can't be used. */
  stat(name: string, shown: string): fs.BigIntStats | undefined {
    const stat = fs.lstatSync(below(this.fd, name), { bigint: true, throwIfNoEntry: false });
    if (stat || !name.includes('\ufffd')) return stat;
    throw new ToolError('UNSUPPORTED', `\`${shown}\` has a name that is not UTF-8`, { suggestion: 'Use a command.' });
  }

  [Symbol.dispose](): void {
    fs.closeSync(this.fd);
  }
}

export interface TreeFacts {
  readonly entries: number;
  /** Equal as long as nothing in the tree is made, changed, removed or replaced. */
  readonly print: string;
  /** The newest change time of an entry, in nanoseconds. */
  readonly newestNs: bigint;
}

/**
 * Inspects every entry at `spot`, without following links. Throws NOT_FOUND, FILE_LIMIT, UNSUPPORTED, ACCESS_DENIED
 * for a directory that can't be read or, with `empties`, emptied.
 */
export async function lookOver(spot: DirEntry, options: TreeOptions & { empties?: boolean }): Promise<TreeFacts> {
  const pass = new TreeTraversal(options);
  const print = createHash('sha256');
  let newestNs = 0n;
  const look = async (fd: number, name: string, stat: fs.BigIntStats, at: string, depth: number): Promise<void> => {
    const entry = { below: at, type: typeOf(stat) };
    await pass.enter(entry, depth);
    const { ino, mode, size, mtimeNs, ctimeNs } = stat;
    if (ctimeNs > newestNs) newestNs = ctimeNs;
    print.update(`${at}\0${[ino, mode, size, mtimeNs, ctimeNs].join(':')}\n`);
    if (entry.type !== 'directory') return;
    using directory = openOrSay(fd, name, pass.name(entry));
    const names = directory.names();
    if (options.empties && names.length > 0) assertWritable(directory, pass.name(entry));
    for (const child of names) {
      const below = join(at, child);
      const found = directory.stat(child, join(options.path, below));
      if (found) await look(directory.fd, child, found, below, depth + 1);
    }
  };
  const top = fs.lstatSync(below(spot.fd, spot.name), { bigint: true, throwIfNoEntry: false });
  if (!top) throw toAccessError({ code: 'ENOENT' }, spot.path);
  await look(spot.fd, spot.name, top, '', 0);
  return { entries: pass.entries, print: `tree:${print.digest('hex')}`, newestNs };
}

function openOrSay(fd: number, name: string, shown: string): OpenDirectory {
  try {
    return new OpenDirectory(fd, name);
  } catch (error) {
    throw isSwapped(error) ? toAccessError({ code: 'ESTALE' }, shown) : toAccessError(error, shown);
  }
}

function assertWritable({ fd }: OpenDirectory, shown: string): void {
  try {
    fs.accessSync(below(fd, '.'), fs.constants.W_OK | fs.constants.X_OK);
  } catch (error) {
    throw toAccessError(error, shown);
  }
}

/** Whether a link or a file has replaced a directory. */
const isSwapped = (error: unknown): boolean => ['ELOOP', 'ENOTDIR'].includes(codeOf(error) ?? '');

/** Removes the entry `name` of an open directory; links themselves. Throws CONFLICT if somebody keeps filling it. */
export async function removeTree(fd: number, name: string, options: TreeOptions): Promise<void> {
  const pass = new TreeTraversal({ ...options, limits: { ...options.limits, treeEntriesMax: Infinity } });
  const remove = async (parent: number, child: string, at: string, depth: number): Promise<void> => {
    let directory: OpenDirectory;
    try {
      directory = new OpenDirectory(parent, child);
    } catch (error) {
      if (codeOf(error) === 'ENOENT') return;
      if (!isSwapped(error)) throw toAccessError(error, join(options.path, at));
      return unlink(parent, child, join(options.path, at));
    }
    using opened = directory;
    await pass.enter({ below: at, type: 'directory' }, depth);
    for (let round = 0; ; round++) {
      for (const entry of readEntries(opened.fd)) {
        const below = join(at, entry.name);
        if (entry.isDirectory()) await remove(opened.fd, entry.name, below, depth + 1);
        else if (!unlinked(opened.fd, entry.name)) await remove(opened.fd, entry.name, below, depth + 1);
      }
      await options.breathe();
      if (removedDirectory(parent, child, join(options.path, at), round)) return;
    }
  };
  await remove(fd, name, '', 0);
}

const readEntries = (fd: number): fs.Dirent[] => fs.readdirSync(`/proc/self/fd/${fd}`, { withFileTypes: true });

/** Removes an entry that was listed as a file; false if it is a directory now. */
function unlinked(fd: number, name: string): boolean {
  try {
    fs.unlinkSync(below(fd, name));
  } catch (error) {
    const code = codeOf(error);
    if (code === 'EISDIR' || code === 'EPERM') return false;
    if (code !== 'ENOENT') throw toAccessError(error, name);
  }
  return true;
}

function unlink(fd: number, name: string, shown: string): void {
  try {
    fs.unlinkSync(below(fd, name));
  } catch (error) {
    if (codeOf(error) !== 'ENOENT') throw toAccessError(error, shown);
  }
}

/** Removes a directory; false if it has new content or was replaced, so that another attempt may help. */
function removedDirectory(fd: number, name: string, shown: string, round: number): boolean {
  try {
    fs.rmdirSync(below(fd, name));
    return true;
  } catch (error) {
    const code = codeOf(error);
    if (code === 'ENOENT') return true;
    if (code === 'ENOTDIR') return unlinked(fd, name);
    if (code !== 'ENOTEMPTY' && code !== 'EEXIST') throw toAccessError(error, shown);
    if (round < ROUNDS_MAX) return false;
    throw new ToolError('CONFLICT', `\`${shown}\` got new entries while it was being deleted`);
  }
}

/** Target of a copy: a new name in an open directory. */
export interface CopyTo {
  readonly fd: number;
  readonly name: string;
}

/** The position of a copied part in the traversal of a larger tree. */
export interface TreePosition {
  readonly pass: TreeTraversal;
  readonly at: string;
  readonly depth: number;
}

/**
 * Copies the entry at `from`: files with content and permissions, links as links. Returns the number of entries.
 * Throws UNSUPPORTED for anything but files, directories and links, FILE_LIMIT, ACCESS_DENIED.
 */
export async function copyTree(from: DirEntry, to: CopyTo, options: TreeOptions, part?: TreePosition): Promise<number> {
  const { pass, at: top, depth: topDepth } = part ?? { pass: new TreeTraversal(options), at: '', depth: 0 };
  const copy = async (source: DirEntry, target: CopyTo, at: string, depth: number): Promise<void> => {
    const stat = fs.lstatSync(below(source.fd, source.name), { throwIfNoEntry: false });
    if (!stat) {
      if (at === top) throw toAccessError({ code: 'ENOENT' }, from.path);
      return;
    }
    const entry = { below: at, type: typeOf(stat) };
    const shown = pass.name(entry);
    await pass.enter(entry, depth);
    const place = below(target.fd, target.name);
    switch (entry.type) {
      case 'file':
        return copyFile(source, place, shown, pass);
      case 'symlink':
        // Read as bytes, since a link's target need not be UTF-8.
        return fs.symlinkSync(fs.readlinkSync(below(source.fd, source.name), { encoding: 'buffer' }), place);
      case 'directory': {
        using directory = openOrSay(source.fd, source.name, shown);
        const { mode } = fs.fstatSync(directory.fd);
        // Set the directory's permissions after its content, since they may forbid writing.
        makeDirectory(place, 0o700);
        using copied = new OpenDirectory(target.fd, target.name);
        for (const name of directory.names()) {
          directory.stat(name, join(shown, name));
          const inner = { fd: directory.fd, name, path: join(shown, name), realPath: '' };
          await copy(inner, { fd: copied.fd, name }, join(at, name), depth + 1);
        }
        return fs.fchmodSync(copied.fd, mode & 0o777);
      }
      case 'other':
        throw new ToolError(
          'UNSUPPORTED',
          `\`${shown}\` is neither a file, a directory nor a link, and can't be copied`,
        );
      default:
        return entry.type satisfies never;
    }
  };
  try {
    await copy(from, to, top, topDepth);
  } catch (error) {
    // EINVAL: no longer a link.
    throw toAccessError(codeOf(error) === 'EINVAL' ? { code: 'ESTALE' } : error, from.path);
  }
  return pass.entries;
}

async function copyFile({ fd, name }: DirEntry, place: string, shown: string, pass: TreeTraversal): Promise<void> {
  let source: number;
  try {
    source = fs.openSync(below(fd, name), O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  } catch (error) {
    throw isSwapped(error) ? toAccessError({ code: 'ESTALE' }, shown) : toAccessError(error, shown);
  }
  using _ = closing(source);
  const stat = fs.fstatSync(source);
  if (!stat.isFile()) throw toAccessError({ code: 'ESTALE' }, shown);
  await pass.countBytes(stat.size);
  // Copies no more than its size at the start: a growing file would never end.
  for (const _ of writingNew(place, stat.mode & 0o777, chunksOf(source, stat.size))) await pass.breathe();
}

export const join = (folder: string, name: string): string =>
  folder === '' ? name : name === '' ? folder : `${folder}/${name}`;
