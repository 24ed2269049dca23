/**
 * How git in a command sees files that are masked: those that it tracks as unchanged, the others not at all. A mask of its
 * own would be a change to git, which `add -A` and `commit -a` fail at or commit; docs/decisions/0016-masks-and-git.md.
 */
import { createHash } from 'node:crypto';
import {
  chmodSync,
  closeSync,
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
import type { Limits } from '../../limits.ts';
import type { Powers } from '../../powers.ts';
import type { Cover } from '../bubblewrap.ts';
import type { Masks } from '../masks.ts';
import { type IndexEntry, parseIndex } from './index-file.ts';

interface Repository {
  /** Relative to the workspace, '' for itself. */
  readonly root: string;
  readonly indexPath: string;
  readonly indexMtimeSec: number;
  readonly entries: ReadonlyMap<string, IndexEntry>;
}

/** What stands over masked files for git's sake. */
export interface GitCovers {
  /** By the absolute path that each lies over. */
  readonly covers: ReadonlyMap<string, Cover>;
  /** Files among them that git tracks. */
  readonly tracked: number;
}

const NOTHING: GitCovers = { covers: new Map(), tracked: 0 };

/** For the commands of one workspace; not for other threads. */
export class GitView {
  readonly #workspace: string;
  readonly #limits: Limits;
  readonly #powers: Powers;
  /** By the path of its index; `print` tells whether that is the same still. */
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
   * Has git believe what its index says of masked files. An index that was written in the second of a file's last change is
   * not believed: git reads the file, which it can't. Once that second is over, and all such files were found to be what the
   * index says, the index is dated after them. Undefined where there is nothing to wait for.
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

  /** What to mount instead of the masks of hidden files, and over the lists of what git does not look at. */
  coversOf(masks: Masks): GitCovers {
    const covers = new Map<string, Cover>();
    const unseen = new Map<Repository, string[]>();
    let tracked = 0;
    for (const { path, type, bytes } of masks.hidden) {
      const repository = bytes ? undefined : this.#repositoryOf(path);
      if (!repository) continue;
      const name = nameIn(repository, path);
      const entry = type === 'file' ? repository.entries.get(name) : undefined;
      if (entry) tracked += 1;
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
    return covers.size === 0 && tracked === 0 ? NOTHING : { covers, tracked };
  }

  /** The nearest one above a path, if that has an index of its own. */
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
      // Times of the future are somebody's choice.
      if (waitMs > SECOND_MS) continue;
      if (waitMs > 0) await new Promise<void>((resolve) => void this.#powers.after(waitMs, resolve));
      if (this.#areUnchanged(repository, racy)) lutimesSync(repository.indexPath, after, after);
    }
  }

  /** Whether each is what the index says, or differs from it by what git looks at first, so that no date of the index hides it. */
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

  /** A file that nobody can read, with what git compares. */
  #standInOf({ size, mtimeSec, mtimeNsec, isExecutable }: IndexEntry): string | undefined {
    return this.#make(`${size}-${mtimeSec}-${mtimeNsec}-${isExecutable ? 'x' : ''}`, (path) => {
      writeFileSync(path, '');
      truncateSync(path, size);
      utimesSync(path, mtimeSec, mtimeSec);
      chmodSync(path, isExecutable ? 0o100 : 0);
    });
  }

  /** The list with more names in it; undefined where the repository has none. */
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

  /** Undefined when there are too many, or it can't be: its size is by whoever wrote the index. */
  #make(name: string, write: (path: string) => void): string | undefined {
    this.#folder ??= mkdtempSync(join(tmpdir(), 'ringfence-git-'));
    const path = join(this.#folder, name);
    if (this.#made.has(name)) return path;
    if (this.#made.size >= STAND_INS_MAX) return undefined;
    try {
      write(path);
    } catch {
      return undefined; // EFBIG, ENOSPC: the usual mask stays, which git takes for a change.
    }
    this.#made.add(name);
    return path;
  }
}

const SECOND_MS = 1000;
/** Repositories of one workspace whose indexes are remembered. */
const REPOSITORIES_MAX = 16;
/** Files that stand for masked ones, of one thread's life; each is an inode of its host's memory. */
const STAND_INS_MAX = 5_000;
/** A list of exclusions that a copy is made of, and copies in one thread's life: each takes memory of the host, whose /tmp is small. */
const EXCLUDE_BYTES_MAX = 16 * 1024;
const EXCLUDES_MAX = 256;

const nameIn = ({ root }: Repository, path: string): string => (root === '' ? path : path.slice(root.length + 1));

const blobOf = (content: Buffer): string =>
  createHash('sha1').update(`blob ${content.length}\0`).update(content).digest('hex');

/** What git would hash of it; undefined where it is not what the index says by type and size. */
function contentOf(path: string, { type, size }: IndexEntry): Buffer | undefined {
  if (type === 'file') return readRegular(path, (bytes) => bytes === size);
  try {
    return readlinkSync(path, { encoding: 'buffer' });
  } catch {
    return undefined; // ENOENT, EINVAL: it changed, which git finds out.
  }
}

/** A file's content, never of what a command put in its place: a link, or a pipe that this thread would wait for. */
function readRegular(path: string, isWanted: (bytes: number) => boolean): Buffer | undefined {
  let fd: number;
  try {
    fd = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  } catch {
    return undefined; // ENOENT, ELOOP, EACCES.
  }
  try {
    const stat = fstatSync(fd);
    return stat.isFile() && isWanted(stat.size) ? readFileSync(fd) : undefined;
  } finally {
    closeSync(fd);
  }
}
