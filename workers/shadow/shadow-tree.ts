/**
 * What a workspace held when it was last looked at: each name with a way to its content. It follows the kernel's events;
 * an entry is replaced only by `refresh`, so that what stood there before can be noted first.
 */
import type * as fs from 'node:fs';
import type { Limits } from '../../src/limits.ts';
import { isGitState } from '../../src/paths.ts';
import type { Contents } from './contents.ts';
import { type Entry, gitDirOf, isObjectPath, joined, nameOf, OBJECT, parentOf, type Why } from './entries.ts';
import { IGNORE_FILE_BYTES_MAX, IgnoreRules } from './ignored.ts';
import type { Inotify } from './inotify.ts';
import type { Repositories } from './repositories.ts';
import type { WorkspaceFiles } from './workspace-files.ts';

export interface ShadowTreeOptions {
  readonly files: WorkspaceFiles;
  readonly contents: Contents;
  readonly repositories: Repositories;
  readonly inotify: Inotify;
  readonly limits: Limits;
  /** Whether programs outside the sandbox trust a path, so that no call may put anything there. */
  isProtected(path: string): boolean;
}

/** The tree can't be followed: too many names, no watches left, or events that are lost, after which it may be read again. */
export class Unfollowed extends Error {
  readonly isOverflow: boolean;

  constructor(message: string, isOverflow = false) {
    super(message);
    this.isOverflow = isOverflow;
  }
}

/** Called with what stood at a path before it is replaced by something else. */
export type OnReplaced = (path: string, old: Entry | undefined) => void;

export class ShadowTree {
  readonly entries = new Map<string, Entry>();
  readonly #options: ShadowTreeOptions;
  readonly #children = new Map<string, Set<string>>();
  readonly #ignored = new IgnoreRules();
  readonly #watched = new Map<number, string>();
  readonly #watchOf = new Map<string, number>();
  readonly #dirty = new Set<string>();
  /** Paths of files with several names, by inode. */
  readonly #linked = new Map<number, Set<string>>();
  /** One name of each file, as of this refresh; made when it is needed. */
  #byInode: Map<number, string> | undefined;
  #files = 0;
  #rootMode = 0;
  onReplaced: OnReplaced = () => {};

  constructor(options: ShadowTreeOptions) {
    this.#options = options;
  }

  /** Reads the workspace in steps. Throws Unfollowed. */
  *build(): Generator<void> {
    this.#rootMode = this.#options.files.stat('')?.mode ?? 0;
    const queue = [''];
    for (let folder = queue.shift(); folder !== undefined; folder = queue.shift()) {
      this.#watch(folder);
      let count = 0;
      for (const it of this.#listed(folder)) {
        const path = joined(folder, it.name);
        if (this.#add(path, it.isDirectory())) queue.push(path);
        if (++count % STEP === 0) yield;
      }
      yield;
    }
  }

  /** The names of all that has changed are noted; nothing is read. Throws Unfollowed if events are missing. */
  drain(): void {
    const { events, isLost } = this.#options.inotify.read();
    if (isLost) throw new Unfollowed('the queue of events was full', true);
    for (const { watch, name, isWatchGone } of events) {
      const folder = this.#watched.get(watch);
      if (folder === undefined) continue;
      if (isWatchGone) this.#forget(watch, folder);
      else if (name !== '') this.#dirty.add(joined(folder, name));
    }
  }

  /** Takes in everything that changed, in steps. Throws Unfollowed. */
  *refreshInSteps(): Generator<void> {
    let count = 0;
    while (this.#dirty.size > 0) {
      for (const path of [...this.#dirty].sort()) {
        if (!this.#dirty.delete(path)) continue;
        this.#refresh(path);
        if (++count % STEP === 0) yield;
      }
      this.drain();
    }
    this.#byInode = undefined;
  }

  /** The same at once. */
  refresh(): void {
    this.drain();
    for (const _ of this.refreshInSteps());
  }

  /** Whether the permissions of the workspace itself are not as they were. */
  get hasOtherRoot(): boolean {
    return this.#options.files.stat('')?.mode !== this.#rootMode;
  }

  #refresh(path: string): void {
    const above = this.#unknownAbove(path);
    if (above !== undefined) {
      this.onReplaced(above, this.entries.get(above));
      this.#watchBelow(path);
      return;
    }
    const old = this.entries.get(path);
    if (parentOf(path) !== '' && this.entries.get(parentOf(path))?.type !== 'directory') return this.#dropGone(path);
    const stat = this.#options.files.stat(path);
    if (nameOf(path) === '.gitignore') this.#readIgnores(path);
    if (old?.type === 'directory' && !stat?.isDirectory()) this.#removeBelow(path);
    if (!stat) return this.#set(path, undefined);
    const unknown = old && old.type !== 'unknown' ? undefined : this.#unknown(path, stat.isDirectory());
    if (unknown) {
      this.#set(path, { type: 'unknown', why: unknown, isTree: stat.isDirectory() });
      if (stat.isDirectory()) this.#watchBelow(path);
    } else if (stat.isDirectory()) this.#refreshDirectory(path, stat, old);
    else {
      for (const other of this.#otherNames(path, stat)) this.#dirty.add(other);
      this.#set(path, this.#isObject(path) ? OBJECT : this.#options.contents.look(path, stat, { old, isDirty: true }));
    }
  }

  /** A path whose directory is not one any more. */
  #dropGone(path: string): void {
    if (this.entries.has(path)) this.#removeBelow(path);
    this.#set(path, undefined);
  }

  #refreshDirectory(path: string, stat: fs.Stats, old: Entry | undefined): void {
    this.#set(path, { type: 'directory', mode: stat.mode & 0o7777 });
    const before = this.#watchOf.get(path);
    if (this.#watch(path) === before && old?.type === 'directory') return;
    if (nameOf(path) === '.git') this.#options.repositories.load(path);
    // A directory that came, or took the place of another: anything in it may be other than it was.
    const names = new Set([...this.#listed(path).map((it) => it.name), ...(this.#children.get(path) ?? [])]);
    for (const name of names) this.#refresh(joined(path, name));
  }

  /** Enters a new name while the tree is built; whether it is a directory to read. */
  #add(path: string, isDirectory: boolean): boolean {
    const why = this.#unknown(path, isDirectory);
    if (why) {
      this.#set(path, { type: 'unknown', why, isTree: isDirectory });
      if (isDirectory) this.#watchBelow(path);
      return false;
    }
    if (this.#isObject(path) && !isDirectory) {
      this.#set(path, OBJECT);
      return false;
    }
    const stat = this.#options.files.stat(path);
    if (!stat) return false;
    if (stat.isDirectory()) {
      this.#set(path, { type: 'directory', mode: stat.mode & 0o7777 });
      return true;
    }
    if (stat.nlink > 1) this.#linked.set(stat.ino, (this.#linked.get(stat.ino) ?? new Set()).add(path));
    this.#set(path, this.#options.contents.look(path, stat, { isDirty: false }));
    return false;
  }

  /** Why a name is not looked at; undefined for one that is. */
  #unknown(path: string, isDirectory: boolean): Why | undefined {
    if (path.includes('\ufffd')) return 'name';
    const gitDir = gitDirOf(path);
    if (gitDir !== undefined)
      return path === gitDir && isDirectory ? undefined : isGitState(path) ? undefined : 'protected';
    if (this.#options.isProtected(path)) return 'protected';
    if (this.#ignored.ignoredBy(path, isDirectory) !== undefined) return 'ignored';
    return !isDirectory && this.#files >= this.#options.limits.shadowFilesMax ? 'too-many' : undefined;
  }

  /** The directory above a path that is not kept with everything in it. */
  #unknownAbove(path: string): string | undefined {
    for (let at = path.indexOf('/'); at >= 0; at = path.indexOf('/', at + 1)) {
      const folder = path.slice(0, at);
      if (this.entries.get(folder)?.type === 'unknown') return folder;
    }
    return undefined;
  }

  #isObject(path: string): boolean {
    const gitDir = gitDirOf(path);
    return gitDir !== undefined && isObjectPath(path, gitDir);
  }

  /** The entries of a directory, with what git says of them read first. */
  #listed(folder: string): fs.Dirent[] {
    const { files, repositories } = this.#options;
    const all = files.entries(folder);
    for (const it of all) {
      const path = joined(folder, it.name);
      if (it.name === '.git' && it.isDirectory()) repositories.load(path);
      if (it.name === '.gitignore') this.#readIgnores(path);
      if (it.name === '.gitattributes')
        repositories.readAttributes(files.read(path, IGNORE_FILE_BYTES_MAX)?.toString('utf8') ?? '');
    }
    return all;
  }

  #readIgnores(path: string): void {
    const text = this.#options.files.read(path, IGNORE_FILE_BYTES_MAX)?.toString('utf8');
    this.#ignored.set(parentOf(path), text);
  }

  /** Other known names of the same file: a write through one of them is told of that one only. */
  #otherNames(path: string, stat: fs.Stats): string[] {
    if (!stat.isFile()) return [];
    const known = this.#linked.get(stat.ino);
    if (!known && stat.nlink < 2) return [];
    const names = known ?? new Set(this.#namesOf(stat.ino));
    this.#linked.set(stat.ino, names);
    if (names.has(path) && this.#isSettled(path, stat)) return [];
    names.add(path);
    return [...names].filter((it) => it !== path && !this.#isSettled(it, stat));
  }

  /** Names that a file had when it had only one, and so was not listed. */
  #namesOf(inode: number): readonly string[] {
    if (!this.#byInode) {
      this.#byInode = new Map();
      for (const [path, entry] of this.entries)
        if (entry.type === 'file') this.#byInode.set(Number.parseInt(entry.stamp, 10), path);
    }
    const path = this.#byInode.get(inode);
    return path === undefined ? [] : [path];
  }

  /** Whether a file was looked at in this state, so that names of one file don't refresh each other for ever. */
  #isSettled(path: string, { ino, size, mtimeMs, mode }: fs.Stats): boolean {
    const entry = this.entries.get(path);
    return entry?.type === 'file' && entry.stamp === `${ino} ${size} ${mtimeMs}` && entry.mode === (mode & 0o7777);
  }

  #set(path: string, entry: Entry | undefined): void {
    const old = this.entries.get(path);
    this.onReplaced(path, old);
    if (old?.type === 'file') this.#files -= 1;
    if (entry?.type === 'file') this.#files += 1;
    const siblings = this.#children.get(parentOf(path)) ?? new Set();
    if (entry) {
      this.entries.set(path, entry);
      this.#children.set(parentOf(path), siblings.add(nameOf(path)));
      if (this.entries.size > this.#options.limits.watchedNamesMax) throw new Unfollowed('too many names');
    } else {
      this.entries.delete(path);
      siblings.delete(nameOf(path));
    }
  }

  #removeBelow(path: string): void {
    for (const name of [...(this.#children.get(path) ?? [])]) {
      const inner = joined(path, name);
      this.#removeBelow(inner);
      this.#set(inner, undefined);
    }
    this.#children.delete(path);
    const watch = this.#watchOf.get(path);
    if (watch !== undefined && this.#watched.get(watch) === path) {
      this.#options.inotify.remove(watch);
      this.#forget(watch, path);
    }
  }

  #watch(path: string): number | undefined {
    const { files, inotify, limits } = this.#options;
    const watch = inotify.add(files.at(path));
    if (watch === undefined) {
      const stat = files.stat(path);
      // One that we may not enter: commands may not either.
      if (stat?.isDirectory() && (stat.mode & 0o400) !== 0) throw new Unfollowed('no watches left');
      return undefined;
    }
    const before = this.#watched.get(watch);
    if (before !== undefined && before !== path && this.#watchOf.get(before) === watch) this.#watchOf.delete(before);
    this.#watched.set(watch, path);
    this.#watchOf.set(path, watch);
    if (this.#watched.size > limits.watchedDirectoriesMax) throw new Unfollowed('too many directories');
    return watch;
  }

  /** Watches a directory that is not kept and those in it, so that a change in it is told. */
  #watchBelow(path: string): void {
    const { files } = this.#options;
    if (this.#watchOf.has(path) || !files.stat(path)?.isDirectory()) return;
    this.#watch(path);
    for (const it of files.entries(path)) if (it.isDirectory()) this.#watchBelow(joined(path, it.name));
  }

  #forget(watch: number, path: string): void {
    this.#watched.delete(watch);
    if (this.#watchOf.get(path) === watch) this.#watchOf.delete(path);
  }
}

/** Names between two pauses, about 10 ms of work. */
const STEP = 200;
