/**
 * Keeps the names in a workspace up to date: one walk, then the changes that the kernel reports, then those that it missed.
 * Reads names only and follows no links. All work is done on demand, in steps that leave the event loop free.
 *
 * The watcher alone is not enough: it does not look into directories that appear with content (`mkdir -p`, a moved tree),
 * and does not report an overflow of the kernel's queue (2.6.0). So a directory that it may miss is checked on each
 * question, and all directories are checked every `indexSweepMs`: a directory's ctime changes with its names.
 * docs/decisions/0021-two-watchers.md says why workers/watch has another watcher.
 */
import type { BigIntStats } from 'node:fs';
import { access, constants, lstat } from 'node:fs/promises';
import type { AsyncSubscription, Event } from '@parcel/watcher';
import { ToolError } from '../errors.ts';
import type { Limits } from '../limits.ts';
import type { Powers } from '../powers.ts';
import { mayEnter, ownerOf } from '../sandbox/entry-rights.ts';
import {
  childOf,
  countOf,
  type Directory,
  EMPTY,
  everyDirectory,
  keyOf,
  type Listing,
  type Name,
  readNames,
  rootOf,
  sameNames,
} from './directory.ts';
import { inParallel } from './in-parallel.ts';
import { SettingsFiles } from './settings-files.ts';

/** Reads and stats in parallel; more would only wait for the thread pool. */
const READERS = 8;
const LOOKERS = 32;
/** A directory that changed less than this before it was read may have changed again in the same tick of the kernel's clock. */
const RACY_MS = 100;
/** The most directories that the watcher may not see before it is restarted: each question checks all of them, at 25 µs each. */
const UNSEEN_MAX = 32;
/** Above this many dirty directories, all directories are checked instead. */
const DIRTY_MAX = 10_000;

export class WorkspaceTree implements AsyncDisposable {
  readonly #workspace: string;
  readonly #limits: Limits;
  readonly #powers: Powers;
  #root: Directory;
  #version = 0;
  #reads = 0;
  #entries = 0;
  /** Paths of directories whose names changed. */
  #dirty = new Set<string>();
  /** Directories with Unix sockets. */
  readonly withSockets = new Set<Directory>();
  readonly #racy = new Set<Directory>();
  readonly #unseen = new Set<Directory>();
  readonly #settings: SettingsFiles;
  #walked = false;
  #sweptAt = -Infinity;
  #failure: { readonly error: ToolError; readonly at: number } | undefined;
  #subscription: AsyncSubscription | undefined;
  #subscribing: Promise<void> | undefined;
  #subscribedAt = -Infinity;
  #running: Promise<void> = Promise.resolve();
  #queued: Promise<void> | undefined;
  #closed = false;

  /** `workspace` is absolute and without links; nothing is read before `current`. */
  constructor(workspace: string, limits: Limits, powers: Powers) {
    this.#workspace = workspace;
    this.#limits = limits;
    this.#settings = new SettingsFiles(limits);
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
    return this.#subscription !== undefined;
  }

  /** Whether `current` may find changes, as far as known without looking. */
  get behind(): boolean {
    return this.#dirty.size > 0 || this.#racy.size > 0 || this.#unseen.size > 0 || this.#sweepDue;
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
    await this.#subscribing;
    await this.#unsubscribe();
    await this.#running.catch(() => {});
  }

  get #sweepDue(): boolean {
    const { indexSweepMs, indexUnwatchedMs } = this.#limits;
    // Between the old watcher and the new one no change is reported.
    if (this.#subscribing) return true;
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
    this.#resubscribe();
  }

  async #walk(): Promise<void> {
    const startedAt = this.#powers.monotonicMs();
    // Subscribes before the walk, so that changes during the walk are reported.
    await this.#subscribe();
    this.#dirty.clear();
    const sweptAt = this.#powers.monotonicMs();
    await lstat(this.#workspace);
    await this.#refresh([this.#root]);
    this.#unseen.clear();
    this.#sweptAt = sweptAt;
    this.#walked = true;
    const ms = Math.round(this.#powers.monotonicMs() - startedAt);
    this.#powers.log.info(
      { workspace: this.#workspace, entries: this.#entries, watched: this.watched, ms },
      'workspace indexed',
    );
  }

  async #follow(): Promise<void> {
    const dirty = this.#dirty;
    this.#dirty = new Set();
    // The root is always checked: what a person puts there must be hidden from commands at once.
    const doubtful = new Set([this.#root, ...this.#racy, ...this.#unseen]);
    this.#racy.clear();
    if (this.#sweepDue || dirty.size >= DIRTY_MAX) {
      const sweptAt = this.#powers.monotonicMs();
      for (const it of everyDirectory(this.#root)) doubtful.add(it);
      this.#sweptAt = sweptAt;
    }
    const changed = new Set([...this.#settings.changed(), ...(await this.#changedOf(doubtful))]);
    for (const path of dirty) changed.add(this.#nearest(path));
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
      // If names came or went, a subdirectory may have been replaced; the watcher reports that, but only later.
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
    if (!sameNames(it.listing, listing)) {
      this.#entries += countOf(listing) - countOf(it.listing);
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
      this.#unseen.add(child);
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
      this.#entries -= 1 + countOf(gone.listing);
      for (const them of [this.#racy, this.#unseen, this.#settings]) them.delete(gone);
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
    if (Number(it.changedNs / 1_000_000n) > this.#powers.now() - RACY_MS) this.#racy.add(it);
  }

  /** The directory at a path, or its nearest known parent. */
  #nearest(path: string): Directory {
    let at = this.#root;
    for (const name of path.split('/')) {
      const next = at.directories.get(name);
      if (!next) return at;
      at = next;
    }
    return at;
  }

  #forget(): void {
    this.#root = rootOf(this.#workspace);
    this.#entries = 0;
    this.#version += 1;
    this.#walked = false;
    for (const them of [this.#racy, this.#unseen, this.#settings]) them.clear();
  }

  #take(error: Error | null, events: readonly Event[]): void {
    if (this.#closed) return;
    if (error) {
      this.#powers.log.warn(
        { error, workspace: this.#workspace },
        'the workspace can no longer be watched; scanning for changes instead',
      );
      void this.#unsubscribe();
      return;
    }
    const start = this.#workspace.length + 1;
    for (const { path, type } of events) {
      if ((type === 'update' && !this.#settings.concerns(path)) || this.#dirty.size >= DIRTY_MAX) continue;
      this.#dirty.add(path.slice(start, Math.max(start, path.lastIndexOf('/'))));
      // The path itself may be a directory that was replaced by another of its name.
      if (path.length > start) this.#dirty.add(path.slice(start));
    }
  }

  /** Starts the watcher, or logs that there is none. */
  async #subscribe(): Promise<void> {
    if (this.#closed || this.watched) return;
    this.#subscribedAt = this.#powers.monotonicMs();
    try {
      const { subscribe } = await import('@parcel/watcher');
      const subscription = await subscribe(this.#workspace, (error, events) => this.#take(error, events));
      if (this.#closed) await subscription.unsubscribe();
      else this.#subscription = subscription;
    } catch (error) {
      const { indexUnwatchedMs } = this.#limits;
      const message = `the workspace can't be watched; it is looked over before commands, every ${indexUnwatchedMs} ms at most`;
      this.#powers.log.warn({ error, workspace: this.#workspace }, message);
    }
  }

  async #unsubscribe(): Promise<void> {
    const subscription = this.#subscription;
    this.#subscription = undefined;
    await subscription?.unsubscribe().catch(() => {}); // It ended with the error reported before.
  }

  /** Restarts the watcher in the background if there is none, or if it may miss too many directories. Sweeps bridge the gap. */
  #resubscribe(): void {
    const { indexSweepMs } = this.#limits;
    if (this.#subscribing || (this.watched && this.#unseen.size <= UNSEEN_MAX)) return;
    if (this.#powers.monotonicMs() - this.#subscribedAt < indexSweepMs) return;
    this.#subscribing = (async () => {
      await this.#unsubscribe();
      await this.#subscribe();
      // Changes before the new watches are found by a sweep after them.
      if (this.watched) this.#unseen.clear();
      this.#sweptAt = -Infinity;
      this.#subscribing = undefined;
    })();
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
