/**
 * Keeps the names in a workspace up to date: one walk, then the changes that the follower reports. Reads names only and
 * follows no links. All work is done on demand, in steps that leave the event loop free.
 *
 * If a workspace is not wholly followed, all of its directories are checked every `indexUnwatchedMs`: a directory's ctime
 * changes with its names. Followed directories are checked every `indexSweepMs`, because inotify does not report changes
 * that other machines make on a shared disk, and a missed change would show a secret.
 */
import type { BigIntStats } from 'node:fs';
import { access, constants, lstat } from 'node:fs/promises';
import { ToolError } from '../base/errors.ts';
import type { Limits } from '../base/limits.ts';
import type { Powers } from '../base/powers.ts';
import { mayEnter, ownerOf } from '../sandbox/entry-rights.ts';
import {
  childOf,
  countWithLinks,
  type Directory,
  EMPTY,
  everyDirectory,
  hasName,
  keyOf,
  type Listing,
  type Name,
  readNames,
  rootOf,
  sameLinks,
  sameNames,
} from './directory.ts';
import { DirtyFolders, joined, nearest } from './follower/dirty-folders.ts';
import type { Follower } from './follower/follower.ts';
import { type Change, KIND } from './follower/records.ts';
import { inParallel } from './in-parallel.ts';
import { SettingsFiles } from './settings-files.ts';

/** Reads and stats in parallel; more would only wait for the thread pool. */
const READERS = 8;
const LOOKERS = 32;
/** A directory that changed less than this before it was read may have changed again in the same tick of the kernel's clock. */
const RACY_MS = 100;

/** Called with each name that came, went or changed, and whether it was there before. Never a directory. */
export type OnName = (path: string, wasThere: boolean) => void;

export class WorkspaceTree implements AsyncDisposable {
  readonly #workspace: string;
  readonly #follower: Follower;
  readonly #unlisten: () => void;
  readonly #limits: Limits;
  readonly #powers: Powers;
  #root: Directory;
  #version = 0;
  #reads = 0;
  #entries = 0;
  readonly #dirty = new DirtyFolders();
  /** Directories with Unix sockets. */
  readonly withSockets = new Set<Directory>();
  readonly #racy = new Set<Directory>();
  readonly #settings: SettingsFiles;
  #walked = false;
  #sweptAt = -Infinity;
  #failure: { readonly error: ToolError; readonly at: number } | undefined;
  #running: Promise<void> = Promise.resolve();
  #queued: Promise<void> | undefined;
  #closed = false;
  /** Set while somebody wants to know which names change. */
  onName: OnName | undefined;

  /** `workspace` is absolute and without links; nothing is read before `current`. */
  constructor(workspace: string, follower: Follower, limits: Limits, powers: Powers) {
    this.#workspace = workspace;
    this.#follower = follower;
    this.#unlisten = follower.listen({
      onChanges: (changes) => this.#takeChanges(changes),
      onLost: () => this.#sweepSoon(),
      onReady: () => this.#sweepSoon(),
    });
    this.#limits = limits;
    this.#settings = new SettingsFiles(workspace, limits);
    this.#powers = powers;
    this.#root = rootOf(workspace);
  }

  get root(): Directory {
    return this.#root;
  }

  /** Changes whenever names come or go. */
  get version(): number {
    return this.#version;
  }

  /** Changes whenever something may have come, gone, or been replaced under the same name. */
  get reads(): number {
    return this.#reads;
  }

  /** Whether the tree was read once and not lost since. */
  get walked(): boolean {
    return this.#walked;
  }

  /** Whether the kernel reports changes; otherwise the tree is swept. */
  get watched(): boolean {
    return this.#follower.state === 'following';
  }

  /** Whether `current` may find changes, as far as known without looking. */
  get behind(): boolean {
    return this.#dirty.size > 0 || this.#racy.size > 0 || this.#sweepDue;
  }

  /**
   * Resolves when every change known at the time of the call is in the tree. Throws SANDBOX_UNAVAILABLE for a
   * workspace that has more than `indexEntriesMax` names or can't be read.
   */
  current(): Promise<void> {
    if (this.#queued) return this.#queued;
    const before = this.#running.catch(() => {}); // Its own callers get the error.
    this.#queued = before.then(() => {
      this.#queued = undefined;
      this.#running = this.#update();
      return this.#running;
    });
    return this.#queued;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed = true;
    this.#unlisten();
    await this.#running.catch(() => {});
  }

  get #sweepDue(): boolean {
    const { indexSweepMs, indexUnwatchedMs } = this.#limits;
    return this.#powers.monotonicMs() - this.#sweptAt >= (this.watched ? indexSweepMs : indexUnwatchedMs);
  }

  async #update(): Promise<void> {
    const { indexSweepMs } = this.#limits;
    if (this.#failure && this.#powers.monotonicMs() - this.#failure.at < indexSweepMs) throw this.#failure.error;
    this.#failure = undefined;
    try {
      if (!this.#walked) await this.#walk();
      else await this.#follow();
    } catch (thrown) {
      const error = thrown instanceof ToolError ? thrown : unreadable(thrown);
      this.#failure = { error, at: this.#powers.monotonicMs() };
      this.#forget();
      throw error;
    }
  }

  async #walk(): Promise<void> {
    const startedAt = this.#powers.monotonicMs();
    // Followed before the walk, so that changes during the walk are reported.
    await this.#follower.start();
    this.#dirty.take();
    const sweptAt = this.#powers.monotonicMs();
    await lstat(this.#workspace);
    await this.#refresh([this.#root]);
    this.#follower.endWalk();
    this.#sweptAt = sweptAt;
    this.#walked = true;
    const ms = Math.round(this.#powers.monotonicMs() - startedAt);
    this.#powers.log.info(
      { workspace: this.#workspace, entries: this.#entries, watched: this.watched, ms },
      'workspace indexed',
    );
  }

  async #follow(): Promise<void> {
    // A follower that is too slow to answer may have changes that are missing here.
    if (!(await this.#follower.settled()) && this.watched) this.#sweepSoon();
    const dirty = this.#dirty.take();
    // The root is always checked: what a person puts there must be hidden from commands at once.
    const doubtful = new Set([this.#root, ...this.#racy]);
    this.#racy.clear();
    if (this.#sweepDue || !dirty) {
      const sweptAt = this.#powers.monotonicMs();
      for (const it of everyDirectory(this.#root)) doubtful.add(it);
      this.#sweptAt = sweptAt;
    }
    const changed = new Set([...this.#settings.changed(), ...(await this.#changedOf(doubtful))]);
    for (const path of dirty ?? []) changed.add(this.#nearest(path));
    await this.#refresh([...changed].sort((a, b) => a.path.length - b.path.length));
  }

  /** The directories whose names may have changed since they were read. */
  async #changedOf(directories: Iterable<Directory>): Promise<Directory[]> {
    const changed: Directory[] = [];
    await inParallel(LOOKERS, [...directories], async (it) => {
      const stat = await lstat(it.at, { bigint: true }).catch(() => undefined);
      if (stat && stat.ino === it.inode && stat.ctimeNs === it.changedNs) this.#noteRacy(it);
      else changed.push(it);
    });
    return changed;
  }

  /** Reads directories again, and any that are new in them. */
  async #refresh(directories: readonly Directory[]): Promise<void> {
    const queue = [...directories];
    await inParallel(READERS, queue, async (it) => {
      if (this.#closed) throw new ToolError('SHUTTING_DOWN', 'the daemon is shutting down');
      if (!this.#holds(it)) return;
      for (const fresh of await this.#read(it)) queue.push(fresh);
      if (this.#entries <= this.#limits.indexEntriesMax) return;
      const { indexEntriesMax } = this.#limits;
      throw new ToolError(
        'SANDBOX_UNAVAILABLE',
        `the workspace has more than ${indexEntriesMax} files and directories`,
        {
          suggestion: 'Work in a smaller folder of it, or raise limits.indexEntriesMax.',
          details: { limit: indexEntriesMax },
        },
      );
    });
  }

  /** Reads one directory; gives its subdirectories that are new or changed since they were read. */
  async #read(it: Directory): Promise<Directory[]> {
    this.#reads += 1;
    try {
      const stat = await lstat(it.at, { bigint: true });
      if (!stat.isDirectory()) return this.#drop(it);
      const isSameDirectory = stat.ino === it.inode || it.inode === 0n;
      if (!isSameDirectory) for (const child of [...it.directories.values()]) this.#drop(child);
      it.inode = stat.ino;
      // The ctime from before the read: a change during the read shows at the next look.
      it.changedNs = stat.ctimeNs;
      this.#noteRacy(it);
      // A directory with read but no search permission (r--) must be masked whole: no mount can reach its content.
      if ((Number(stat.mode) & 0o111) !== 0o111) await this.#assertEnterable(it, stat);
      const { listing, directories } = await readNames(it.at, Number(stat.size), this.#limits.indexEntriesMax);
      it.unreadable = false;
      const before = [...it.directories.values()];
      const fresh = this.#replace(it, this.#settings.judged(it, listing), directories);
      // If names came or went, a subdirectory may have been replaced, which only the follower reports.
      if (this.watched) return fresh;
      const known = before.filter((child) => it.directories.get(child.key) === child);
      return [...fresh, ...(await this.#changedOf(known))];
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (it === this.#root || !code) throw error;
      if (code === 'ENOENT' || code === 'ENOTDIR') return this.#drop(it);
      for (const child of [...it.directories.values()]) this.#drop(child);
      if (!it.unreadable) this.#version += 1;
      it.unreadable = true;
      return this.#replace(it, EMPTY, []);
    }
  }

  /** Throws EACCES if processes in a sandbox can't enter the directory. */
  async #assertEnterable({ at }: Directory, { mode, uid, gid }: BigIntStats): Promise<void> {
    const owner = ownerOf(this.#workspace);
    if (!owner) return access(at, constants.X_OK);
    if (mayEnter({ mode: Number(mode), uid: Number(uid), gid: Number(gid) }, owner)) return;
    throw Object.assign(new Error('no sandbox can enter it'), { code: 'EACCES' });
  }

  #replace(it: Directory, listing: Listing, directories: readonly Name[]): Directory[] {
    this.#noteDifference(it, listing);
    this.#entries += countWithLinks(listing) - countWithLinks(it.listing);
    if (sameNames(it.listing, listing)) {
      if (!sameLinks(it.listing, listing)) it.listing = { ...it.listing, links: listing.links };
    } else {
      it.listing = listing;
      this.withSockets[listing.sockets.length > 0 ? 'add' : 'delete'](it);
      this.#version += 1;
    }
    const presentKeys = new Set(directories.map(keyOf));
    for (const [key, child] of [...it.directories]) if (!presentKeys.has(key)) this.#drop(child);
    const wasDeep = it.deep;
    it.deep = false;
    const fresh = directories.flatMap((name) => {
      const key = keyOf(name);
      if (it.directories.has(key)) return [];
      const child = childOf(it, name);
      if (this.#isTooDeep(child)) {
        it.deep = true;
        return [];
      }
      it.directories.set(key, child);
      this.#entries += 1;
      this.#version += 1;
      return [child];
    });
    if (it.deep !== wasDeep) this.#version += 1;
    return fresh;
  }

  #isTooDeep({ at, path }: Directory): boolean {
    const { maskPathBytesMax, maskDepthMax } = this.#limits;
    return Buffer.byteLength(at) > maskPathBytesMax || path.split('/', maskDepthMax + 1).length > maskDepthMax;
  }

  #drop(it: Directory): [] {
    const { parent } = it;
    if (!parent) return [];
    if (parent.directories.get(it.key) !== it) return [];
    parent.directories.delete(it.key);
    for (const gone of everyDirectory(it)) {
      this.#noteDifference(gone, EMPTY);
      this.#entries -= 1 + countWithLinks(gone.listing);
      for (const them of [this.#racy, this.#settings]) them.delete(gone);
      this.withSockets.delete(gone);
    }
    this.#version += 1;
    return [];
  }

  /** Whether the directory is still in the tree. */
  #holds(it: Directory): boolean {
    let at = it;
    for (; at.parent; at = at.parent) if (at.parent.directories.get(at.key) !== at) return false;
    return at === this.#root;
  }

  #noteRacy(it: Directory): void {
    if (this.watched) return;
    if (Number(it.changedNs / 1_000_000n) > this.#powers.now() - RACY_MS) this.#racy.add(it);
  }

  #nearest(path: string): Directory {
    return nearest(this.#root, path, this.#limits.maskDepthMax);
  }

  /** The directory at a path; undefined if it is not in the tree. */
  #known(path: string): Directory | undefined {
    const nearest = this.#nearest(path);
    return nearest.path === path ? nearest : undefined;
  }

  /** Whether a path lies below directories of which the tree holds no names. */
  #isBelowDeep(path: string): boolean {
    return this.#nearest(path).deep;
  }

  /** Whether the tree has an entry at a path that is no directory; it is taken to be there where the tree holds no names. */
  hasFile(path: string): boolean {
    const cut = path.lastIndexOf('/');
    const folder = path.slice(0, Math.max(0, cut));
    const known = this.#known(folder);
    return known ? hasName(known, path.slice(cut + 1)) : this.#isBelowDeep(folder);
  }

  #forget(): void {
    this.#root = rootOf(this.#workspace);
    this.#entries = 0;
    this.#version += 1;
    this.#walked = false;
    this.#racy.clear();
    this.#settings.clear();
  }

  #sweepSoon(): void {
    this.#sweptAt = -Infinity;
  }

  #takeChanges(changes: readonly Change[]): void {
    let last: { readonly folder: string; readonly at: Directory | undefined } | undefined;
    for (const it of changes) {
      if (this.onName && !(it.kind & KIND.isFolder) && it.kind !== KIND.closed && !it.bytes) {
        if (last?.folder !== it.folder) last = { folder: it.folder, at: this.#known(it.folder) };
        this.onName(joined(it.folder, it.name), last.at ? hasName(last.at, it.name) : this.#isBelowDeep(it.folder));
      }
      this.#dirty.note(it, this.#settings.concerns(it.name));
    }
  }

  /** Tells which names a directory gains and loses. */
  #noteDifference(it: Directory, listing: Listing): void {
    const { onName } = this;
    if (!onName || typeof it.at !== 'string') return;
    const start = it.path === '' ? '' : `${it.path}/`;
    const all = ({ files, links }: Listing) => [...files, ...links];
    const after = new Set(all(listing));
    for (const name of all(it.listing)) if (!after.delete(name)) onName(start + name, true);
    for (const name of after) onName(start + name, false);
  }
}

function unreadable(error: unknown): ToolError {
  const { code } = error as NodeJS.ErrnoException;
  return new ToolError(
    'SANDBOX_UNAVAILABLE',
    `can't search the workspace for files that the policy hides (${code ?? 'error'})`,
    {
      cause: error,
    },
  );
}
