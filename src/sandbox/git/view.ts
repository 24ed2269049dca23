/**
 * Makes git in a command see masked files that it tracks as unchanged, and others not at all. To git an ordinary mask
 * would be a change, on which `add -A` and `commit -a` fail or which they commit; docs/decisions/0016-masks-and-git.md.
 */
import { createHash } from 'node:crypto';
import {
  chmodSync,
  constants,
  fstatSync,
  lstatSync,
  lutimesSync,
  mkdtempSync,
  openSync,
  readFileSync,
  readlinkSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { closing } from '../../base/disk.ts';
import type { Limits } from '../../base/limits.ts';
import type { Powers } from '../../base/powers.ts';
import type { Masks } from '../masks.ts';
import type { CoveringMount } from '../mount.ts';
import { type IndexEntry, parseIndex } from './index-file.ts';

interface Repository {
  /** Relative to the workspace; '' for the workspace itself. */
  readonly root: string;
  readonly indexPath: string;
  readonly indexMtimeSec: number;
  readonly entries: ReadonlyMap<string, IndexEntry>;
}

/** Mounts over masked files for git's sake. */
export interface GitCovers {
  /** Mounts by the absolute path that each covers. */
  readonly covers: ReadonlyMap<string, CoveringMount>;
  /** Hidden files that git tracks. */
  readonly tracked: readonly string[];
}

const NOTHING: GitCovers = { covers: new Map(), tracked: [] };

/** Serves the commands of one workspace; not thread-safe. */
export class GitView {
  readonly #workspace: string;
  readonly #limits: Limits;
  readonly #powers: Powers;
  /** Repositories by the path of their index; `print` tells whether the index is unchanged. */
  readonly #indexes = new Map<string, { readonly print: string; readonly repository: Repository | undefined }>();
  readonly #made = new Set<string>();
  #folder: string | undefined;
  #excludes = 0;

  /** `workspace` is absolute. */
  constructor(workspace: string, limits: Limits, powers: Powers) {
    this.#workspace = workspace;
    this.#limits = limits;
    this.#powers = powers;
  }

  /**
   * Makes git trust its index about masked files. git does not trust an index that was written in the second of a file's last change:
   * it reads the file, which it can't. Once that second is over, and all such files match the
   * index, this dates the index after them. Undefined if there is nothing to wait for.
   */
  settle(masks: Masks): Promise<void> | undefined {
    const doubtful = new Set<Repository>();
    for (const { path } of masks.hidden) {
      const repository = this.#repositoryOf(path);
      const entry = repository?.entries.get(nameIn(repository, path));
      if (repository && entry && entry.mtimeSec >= repository.indexMtimeSec) doubtful.add(repository);
    }
    return doubtful.size === 0 ? undefined : this.#settleAll([...doubtful]);
  }

  /** Finds what to mount instead of the masks of hidden files, and over git's exclude lists. */
  coversOf(masks: Masks): GitCovers {
    const covers = new Map<string, CoveringMount>();
    const unseen = new Map<Repository, string[]>();
    const tracked: string[] = [];
    for (const { path, type, bytes } of masks.hidden) {
      const repository = bytes ? undefined : this.#repositoryOf(path);
      if (!repository) continue;
      const name = nameIn(repository, path);
      const entry = type === 'file' ? repository.entries.get(name) : undefined;
      if (entry) tracked.push(path);
      else unseen.set(repository, [...(unseen.get(repository) ?? []), type === 'file' ? name : `${name}/`]);
      const by = entry?.type === 'file' ? this.#standInOf(entry) : undefined;
      const at = join(this.#workspace, path);
      if (by !== undefined) covers.set(at, { kind: 'replaced', path: at, by });
    }
    for (const [{ root }, names] of unseen) {
      const at = join(this.#workspace, root, '.git/info/exclude');
      const by = this.#excludeOf(at, names);
      if (by !== undefined) covers.set(at, { kind: 'replaced', path: at, by });
    }
    return covers.size === 0 && tracked.length === 0 ? NOTHING : { covers, tracked };
  }

  /** The nearest repository above a path, if it has an index of its own. */
  #repositoryOf(path: string): Repository | undefined {
    for (let folder = dirname(path); ; folder = dirname(folder)) {
      const root = folder === '.' ? '' : folder;
      const git = lstatSync(join(this.#workspace, root, '.git'), { throwIfNoEntry: false });
      if (git) return git.isDirectory() ? this.#read(root) : undefined;
      if (root === '') return undefined;
    }
  }

  #read(root: string): Repository | undefined {
    const indexPath = join(this.#workspace, root, '.git/index');
    const stat = lstatSync(indexPath, { bigint: true, throwIfNoEntry: false });
    if (!stat?.isFile()) return undefined;
    const print = `${stat.ino} ${stat.ctimeNs} ${stat.size}`;
    const known = this.#indexes.get(indexPath);
    if (known?.print === print) return known.repository;
    const bytes = readRegular(indexPath, (size) => size <= this.#limits.gitIndexBytesMax);
    const entries = bytes && parseIndex(bytes);
    const indexMtimeSec = Number(stat.mtimeNs / 1_000_000_000n);
    const repository = entries && { root, indexPath, indexMtimeSec, entries };
    if (this.#indexes.size >= REPOSITORIES_MAX) this.#indexes.clear();
    this.#indexes.set(indexPath, { print, repository });
    return repository;
  }

  async #settleAll(repositories: readonly Repository[]): Promise<void> {
    for (const repository of repositories) {
      const racy = [...repository.entries].filter(([, it]) => it.mtimeSec >= repository.indexMtimeSec);
      const after = Math.max(...racy.map(([, it]) => it.mtimeSec)) + 1;
      const waitMs = after * 1000 - this.#powers.now();
      // A time in the future was set on purpose.
      if (waitMs > SECOND_MS) continue;
      if (waitMs > 0) await new Promise<void>((resolve) => void this.#powers.after(waitMs, resolve));
      if (this.#areUnchanged(repository, racy)) lutimesSync(repository.indexPath, after, after);
    }
  }

  /** Whether each file matches the index, or differs in what git checks first, so that redating the index hides no change. */
  #areUnchanged({ root }: Repository, entries: readonly (readonly [string, IndexEntry])[]): boolean {
    const bytes = entries.reduce((sum, [, { size }]) => sum + size, 0);
    if (bytes > this.#limits.gitIndexBytesMax) return false;
    return entries.every(([name, entry]) => {
      if (entry.type === 'other') return true;
      const path = join(this.#workspace, root, name);
      const stat = lstatSync(path, { throwIfNoEntry: false });
      if (!stat || stat.size !== entry.size || Math.floor(stat.mtimeMs / SECOND_MS) !== entry.mtimeSec) return true;
      const content = contentOf(path, entry);
      return content !== undefined && blobOf(content) === entry.blob;
    });
  }

  /** Makes an unreadable file with the attributes that git compares. */
  #standInOf({ size, mtimeSec, mtimeNsec, isExecutable }: IndexEntry): string | undefined {
    return this.#make(`${size}-${mtimeSec}-${mtimeNsec}-${isExecutable ? 'x' : ''}`, (path) => {
      writeFileSync(path, '');
      truncateSync(path, size);
      utimesSync(path, mtimeSec, mtimeSec);
      chmodSync(path, isExecutable ? 0o100 : 0);
    });
  }

  /** Makes a copy of the exclude list with more names; undefined if the repository has no list. */
  #excludeOf(at: string, names: readonly string[]): string | undefined {
    const before = readRegular(at, (size) => size <= EXCLUDE_BYTES_MAX);
    if (!before) return undefined;
    const own = names.filter((it) => !it.includes('\n')).map((it) => `/${it.replaceAll(/[\\*?[\] ]/g, '\\$&')}\n`);
    const text = `${before.toString()}\n${own.join('')}`;
    if (text.length > 4 * EXCLUDE_BYTES_MAX) return undefined;
    const name = createHash('sha256').update(text).digest('hex');
    if (!this.#made.has(name) && this.#excludes++ >= EXCLUDES_MAX) return undefined;
    return this.#make(name, (path) => writeFileSync(path, text, { mode: 0o644 }));
  }

  /** Writes a stand-in; undefined if there are too many, or it can't be written: whoever wrote the index chose its size. */
  #make(name: string, write: (path: string) => void): string | undefined {
    this.#folder ??= mkdtempSync(join(tmpdir(), 'ringfence-git-'));
    const path = join(this.#folder, name);
    if (this.#made.has(name)) return path;
    if (this.#made.size >= STAND_INS_MAX) return undefined;
    try {
      write(path);
    } catch {
      return undefined; // EFBIG, ENOSPC: the usual mask stays, which git sees as a change.
    }
    this.#made.add(name);
    return path;
  }
}

const SECOND_MS = 1000;
/** Repositories of one workspace whose indexes are cached. */
const REPOSITORIES_MAX = 16;
/** Stand-ins for masked files in a thread's lifetime; each takes an inode of the host's tmpfs. */
const STAND_INS_MAX = 5_000;
/** Largest exclude list that is copied, and copies in a thread's lifetime: each takes memory of the host, whose /tmp is small. */
const EXCLUDE_BYTES_MAX = 16 * 1024;
const EXCLUDES_MAX = 256;

const nameIn = ({ root }: Repository, path: string): string => (root === '' ? path : path.slice(root.length + 1));

const blobOf = (content: Buffer): string =>
  createHash('sha1').update(`blob ${content.length}\0`).update(content).digest('hex');

/** Reads the content that git would hash; undefined if type or size differ from the index. */
function contentOf(path: string, { type, size }: IndexEntry): Buffer | undefined {
  if (type === 'file') return readRegular(path, (bytes) => bytes === size);
  try {
    return readlinkSync(path, { encoding: 'buffer' });
  } catch {
    return undefined; // ENOENT, EINVAL: the file changed, which git notices.
  }
}

/** Reads a regular file; never a link that a command put in its place, nor a pipe that would block this thread. */
function readRegular(path: string, isWanted: (bytes: number) => boolean): Buffer | undefined {
  let fd: number;
  try {
    fd = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  } catch {
    return undefined; // ENOENT, ELOOP, EACCES: missing, a link, or not readable.
  }
  using _ = closing(fd);
  const stat = fstatSync(fd);
  return stat.isFile() && isWanted(stat.size) ? readFileSync(fd) : undefined;
}
