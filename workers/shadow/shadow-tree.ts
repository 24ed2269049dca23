/**
 * What a workspace held when it was last looked at: each name with a way to its content. It is told which names changed;
 * an entry is replaced only by `refresh`, so that what stood there before can be noted first. No step recurses, since
 * commands shape the tree.
 */
import type * as fs from 'node:fs';
import type { Limits } from '../../src/base/limits.ts';
import { isGitState } from '../../src/base/paths.ts';
import type { Contents } from './contents.ts';
import {
  type Entry,
  type FileEntry,
  gitDirOf,
  insideGit,
  isObjectPath,
  joined,
  nameOf,
  OBJECT,
  parentOf,
  type Why,
} from './entries.ts';
import { stampOf } from './held-files.ts';
import { IGNORE_FILE_BYTES_MAX, IgnoreRules, MADE_AGAIN } from './ignored.ts';
import type { Repositories } from './repositories.ts';
import type { WorkspaceFiles } from './workspace-files.ts';

export interface ShadowTreeOptions {
  readonly files: WorkspaceFiles;
  readonly contents: Contents;
  readonly repositories: Repositories;
  readonly limits: Limits;
  /** Whether programs outside the sandbox trust a path, so that no call may put anything there. */
  isProtected(path: string): boolean;
}

/** Files of an object store that are kept like other files. */
const LOOSE = /^objects\/(?:[0-9a-f]{2}|info)\//;

/** There are more names than are held in memory. */
export class TooLarge extends Error {}

/** Characters of all paths that are held; with shorter ones their number is the bound. */
const PATH_CHARS_MAX = 48 * 1024 * 1024;

/** Called with what stood at a path before it is replaced by something else. */
export type OnReplaced = (path: string, old: Entry | undefined) => void;

/** Permissions before and after a command. */
export interface OtherRoot {
  readonly pre: number;
  readonly post: number;
}

export class ShadowTree {
  readonly entries = new Map<string, Entry>();
  readonly #options: ShadowTreeOptions;
  readonly #children = new Map<string, Set<string>>();
  readonly #ignored = new IgnoreRules();
  /** Known files and directories that git ignores. */
  readonly #inIgnored = new Set<string>();
  /** Paths that changed, and whether another directory than before may stand there. */
  readonly #dirty = new Map<string, boolean>();
  #pathChars = 0;
  /** Paths of files with several names, by inode. */
  readonly #linked = new Map<number, Set<string>>();
  /** Files of which all names are to be looked at in this pass of a refresh. */
  readonly #spread = new Set<number>();
  /** One name of each file, as of this refresh; made when it is needed. */
  #byInode: Map<number, string> | undefined;
  #files = 0;
  #rootMode = 0;
  /** Whether names went that lie in folders which are not kept, and so may have been second names of files that are. */
  #hasLostNames = false;
  onReplaced: OnReplaced = () => {};

  constructor(options: ShadowTreeOptions) {
    this.#options = options;
  }

  /** Reads the workspace in steps. Throws TooLarge. */
  *build(): Generator<void> {
    this.noteRoot();
    const queue = [''];
    for (let folder = queue.pop(); folder !== undefined; folder = queue.pop()) {
      if (this.#isTooLarge(folder)) continue;
      let count = 0;
      for (const it of this.#listed(folder)) {
        const path = joined(folder, it.name);
        if (this.#add(path, it.isDirectory())) queue.push(path);
        if (++count % STEP === 0) yield;
      }
      yield;
    }
  }

  /** Notes that a name has changed; nothing is read. `hasCome`: it is a directory that stands there newly. Throws TooLarge. */
  take(folder: string, name: string, hasCome: boolean): void {
    this.#note(joined(folder, name), hasCome);
  }

  #note(path: string, hasCome: boolean): void {
    const known = this.#dirty.get(path);
    if (known === undefined) this.#count(path.length);
    if (known !== true) this.#dirty.set(path, hasCome);
    if (this.#dirty.size > this.#options.limits.watchedNamesMax) throw new TooLarge('too many changes');
  }

  /** Whether names have gone, since the last call, that nothing is known of. */
  takeLostNames(): boolean {
    const hasLost = this.#hasLostNames;
    this.#hasLostNames = false;
    return hasLost;
  }

  /** Notes the files that changed since a time, in ms, also those whose names were not given. Throws TooLarge. */
  noteChangedSince(sinceMs: number): void {
    for (const [path, { type }] of this.entries)
      if (type === 'file' && (this.#options.files.stat(path)?.ctimeMs ?? 0) >= sinceMs) this.#note(path, false);
  }

  /** Takes in everything that changed, in steps, outer names before those in them. Throws TooLarge. */
  *refreshInSteps(): Generator<void> {
    let count = 0;
    while (this.#dirty.size > 0) {
      this.#spread.clear();
      for (const path of [...this.#dirty.keys()].sort()) {
        const hasCome = this.#dirty.get(path);
        if (hasCome === undefined) continue;
        this.#dirty.delete(path);
        this.#count(-path.length);
        this.#refresh(path, hasCome);
        if (++count % STEP === 0) yield;
      }
    }
    this.#byInode = undefined;
  }

  /** The same at once. */
  refresh(): void {
    for (const _ of this.refreshInSteps());
  }

  #count(chars: number): void {
    this.#pathChars += chars;
    if (this.#pathChars > PATH_CHARS_MAX) throw new TooLarge('too long paths');
  }

  /** Takes in the permissions of the workspace itself, of which no change is told. */
  noteRoot(): void {
    this.#rootMode = this.#options.files.stat('')?.mode ?? 0;
  }

  /** The permissions of the workspace itself, if they are not as they were. */
  get otherRoot(): OtherRoot | undefined {
    const mode = this.#options.files.stat('')?.mode ?? 0;
    return mode === this.#rootMode ? undefined : { pre: this.#rootMode & 0o7777, post: mode & 0o7777 };
  }

  #refresh(path: string, hasCome: boolean): void {
    const above = this.#unknownAbove(path);
    if (above !== undefined) {
      this.onReplaced(above, this.entries.get(above));
      const inside = this.#options.files.stat(path);
      this.#hasLostNames ||= inside === undefined;
      if (inside?.isFile() && inside.nlink > 1)
        this.#noteAll(inside.ino, this.#linked.get(inside.ino) ?? this.#namesOf(inside.ino), path);
      return;
    }
    const old = this.entries.get(path);
    if (parentOf(path) !== '' && this.entries.get(parentOf(path))?.type !== 'directory') return this.#dropGone(path);
    const stat = this.#options.files.stat(path);
    if (nameOf(path) === '.gitignore') this.#readIgnores(path);
    if (old?.type === 'directory' && !stat?.isDirectory()) this.#removeBelow(path);
    if (!stat) return this.#set(path, undefined);
    const isIgnored = this.ignoredBy(path, stat.isDirectory()) !== undefined;
    const unknown = old && old.type !== 'unknown' ? undefined : this.#unknown(path, stat.isDirectory(), isIgnored);
    if (unknown) {
      this.#set(path, { type: 'unknown', why: unknown, isTree: stat.isDirectory() });
    } else if (stat.isDirectory()) this.#refreshDirectory(path, stat, isIgnored, hasCome || old?.type !== 'directory');
    else if (this.#isPack(path)) this.#set(path, OBJECT, isIgnored);
    else {
      this.#noteOtherNames(path, stat);
      this.#set(path, this.#options.contents.look(path, stat, { old, isDirty: true, isIgnored }), isIgnored);
    }
  }

  /** A path whose directory is not one any more. */
  #dropGone(path: string): void {
    if (this.entries.has(path)) this.#removeBelow(path);
    this.#set(path, undefined);
  }

  #refreshDirectory(path: string, stat: fs.Stats, isIgnored: boolean, isNew: boolean): void {
    this.#set(path, { type: 'directory', mode: stat.mode & 0o7777 }, isIgnored);
    if (!isNew || this.#isTooLarge(path)) return;
    if (nameOf(path) === '.git') this.#options.repositories.load(path);
    // A directory that came, or took the place of another: anything in it may be other than it was.
    const names = new Set([...this.#listed(path).map((it) => it.name), ...(this.#children.get(path) ?? [])]);
    for (const name of names) this.#note(joined(path, name), true);
  }

  /** Enters a new name while the tree is built; whether it is a directory to read. */
  #add(path: string, isDirectory: boolean): boolean {
    const isIgnored = this.ignoredBy(path, isDirectory) !== undefined;
    const why = this.#unknown(path, isDirectory, isIgnored);
    if (why) {
      this.#set(path, { type: 'unknown', why, isTree: isDirectory });
      return false;
    }
    if (this.#isPack(path) && !isDirectory) {
      this.#set(path, OBJECT);
      return false;
    }
    const stat = this.#options.files.stat(path);
    if (!stat) return false;
    if (stat.isDirectory()) {
      this.#set(path, { type: 'directory', mode: stat.mode & 0o7777 }, isIgnored);
      return true;
    }
    if (stat.nlink > 1) this.#linked.set(stat.ino, (this.#linked.get(stat.ino) ?? new Set()).add(path));
    this.#set(path, this.#options.contents.look(path, stat, { isDirty: false, isIgnored }), isIgnored);
    return false;
  }

  /** Why a name is not looked at; undefined for one that is. */
  #unknown(path: string, isDirectory: boolean, isIgnored: boolean): Why | undefined {
    if (path.includes('\ufffd')) return 'name';
    const gitDir = gitDirOf(path);
    if (gitDir !== undefined)
      return path === gitDir && isDirectory ? undefined : isGitState(path) ? undefined : 'protected';
    if (this.#options.isProtected(path)) return 'protected';
    const { shadowFilesMax, shadowHeldFilesMax } = this.#options.limits;
    if (isIgnored && (this.#inIgnored.size >= shadowHeldFilesMax || (isDirectory && MADE_AGAIN.has(nameOf(path)))))
      return 'ignored';
    return !isDirectory && this.#files >= shadowFilesMax ? 'too-many' : undefined;
  }

  /** The outermost ignored directory that holds a path, with `/` at its end, or the path itself; undefined for none. */
  ignoredBy(path: string, isDirectory: boolean): string | undefined {
    return gitDirOf(path) === undefined ? this.#ignored.ignoredBy(path, isDirectory) : undefined;
  }

  /** Whether an ignored directory has more in it than is held; then nothing of it is. */
  #isTooLarge(path: string): boolean {
    if (!this.#inIgnored.has(path)) return false;
    const left = this.#options.limits.shadowHeldFilesMax - this.#inIgnored.size;
    if (!this.#options.files.hasMoreThan(path, left)) return false;
    this.#removeBelow(path);
    this.#set(path, { type: 'unknown', why: 'ignored', isTree: true });
    return true;
  }

  /** The directory above a path that is not kept with everything in it. */
  #unknownAbove(path: string): string | undefined {
    if (this.entries.get(parentOf(path))?.type === 'directory') return undefined;
    for (let at = path.indexOf('/'); at >= 0; at = path.indexOf('/', at + 1)) {
      const folder = path.slice(0, at);
      if (this.entries.get(folder)?.type === 'unknown') return folder;
    }
    return undefined;
  }

  /** Whether a path is a pack, or speeds git up; loose objects are kept like other files. */
  #isPack(path: string): boolean {
    const gitDir = gitDirOf(path);
    return gitDir !== undefined && isObjectPath(path, gitDir) && !LOOSE.test(insideGit(path, gitDir));
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

  /** Has the other known names of a file looked at: a write through one of them is told of that one only. */
  #noteOtherNames(path: string, stat: fs.Stats): void {
    if (!stat.isFile()) return;
    const known = this.#linked.get(stat.ino);
    if (!known && stat.nlink < 2) return;
    const names = known ?? new Set(this.#namesOf(stat.ino));
    this.#linked.set(stat.ino, names);
    if (names.has(path) && this.#isSettled(path, stat)) return;
    names.add(path);
    this.#noteAll(stat.ino, names, path);
  }

  /** A name stands for another file, or for none: what was written before through it shows at the other names only. */
  #leave(path: string, old: FileEntry, entry: Entry | undefined): void {
    const inode = inodeOf(old);
    const names = this.#linked.get(inode);
    if (!names?.has(path) || (entry?.type === 'file' && inodeOf(entry) === inode)) return;
    names.delete(path);
    if (names.size === 0) this.#linked.delete(inode);
    this.#noteAll(inode, names, path);
  }

  /** Once in a pass: a file may have ten thousand names, and all of them may change. */
  #noteAll(inode: number, names: Iterable<string>, except: string): void {
    if (this.#spread.has(inode)) return;
    this.#spread.add(inode);
    for (const it of names) if (it !== except) this.#note(it, false);
  }

  /** Names that a file had when it had only one, and so was not listed. */
  #namesOf(inode: number): readonly string[] {
    if (!this.#byInode) {
      this.#byInode = new Map();
      for (const [path, entry] of this.entries) if (entry.type === 'file') this.#byInode.set(inodeOf(entry), path);
    }
    const path = this.#byInode.get(inode);
    return path === undefined ? [] : [path];
  }

  /** Whether a file was looked at in this state, so that names of one file don't refresh each other for ever. */
  #isSettled(path: string, stat: fs.Stats): boolean {
    const entry = this.entries.get(path);
    return entry?.type === 'file' && entry.stamp === stampOf(stat) && entry.mode === (stat.mode & 0o7777);
  }

  #set(path: string, entry: Entry | undefined, isIgnored = false): void {
    const old = this.entries.get(path);
    this.onReplaced(path, old);
    if (entry && isIgnored) this.#inIgnored.add(path);
    else this.#inIgnored.delete(path);
    if (old?.type === 'file') {
      this.#files -= 1;
      this.#leave(path, old, entry);
    }
    if (entry?.type === 'file') this.#files += 1;
    const siblings = this.#children.get(parentOf(path)) ?? new Set();
    if (!old !== !entry) this.#count(entry ? path.length : -path.length);
    if (entry) {
      this.entries.set(path, entry);
      this.#children.set(parentOf(path), siblings.add(nameOf(path)));
      if (this.entries.size > this.#options.limits.watchedNamesMax) throw new TooLarge('too many names');
    } else {
      this.entries.delete(path);
      siblings.delete(nameOf(path));
    }
  }

  /** Removes all that is below a directory, innermost first. */
  #removeBelow(top: string): void {
    const inOrder = [top];
    for (let at = 0; at < inOrder.length; at++) {
      const path = inOrder[at] as string;
      for (const name of this.#children.get(path) ?? []) inOrder.push(joined(path, name));
    }
    for (const path of inOrder.reverse()) {
      this.#children.delete(path);
      if (path !== top) this.#set(path, undefined);
    }
  }
}

const inodeOf = ({ stamp }: FileEntry): number => Number.parseInt(stamp, 10);

/** Names between two pauses, about 10 ms of work. */
const STEP = 200;
