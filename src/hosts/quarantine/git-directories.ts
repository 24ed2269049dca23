/**
 * Git directories that commands make or change: nested ones, bare ones under any name, those of submodules. The person's git
 * obeys what their config and hooks name, in an editor every few seconds. So each is looked at as soon as it is there, again
 * while commands run, and at their end: what has other keys than those that git, clones and submodules write, or an active hook,
 * is moved away. A config that was there before is a mount in commands, and so is the person's.
 */
import * as fs from 'node:fs';
import { join } from 'node:path';
import { closing, openToRead } from '../../base/disk.ts';
import type { Powers, Timer } from '../../base/powers.ts';
import { whyRefusedInNew } from '../../sandbox/git/config/keys.ts';
import { parseGitConfig, valuesOf } from '../../sandbox/git/config/text.ts';
import type { Change } from '../follower/records.ts';
import { below, namesIn, openFolder, partsOf, toBytes } from './places.ts';

/** Names by which git finds a directory of its own, or reads what runs programs. */
const NAMES = new Set(['HEAD', 'objects', 'refs', 'config', 'config.worktree', 'commondir', 'hooks']);
const CONFIGS = ['config', 'config.worktree'];
/** Directories that are looked at again and again; commands that make more are ended. */
const DIRECTORIES_MAX = 1_000;
/** Folders that may wait to be looked at, and how many are looked at between two turns of the event loop. */
const WAITING_MAX = 4_096;
const LOOKS_A_TURN = 200;
/** Intervals of looks: while a command runs, and while only programs go on that a call left. */
const LOOK_MS = 20;
const LOOK_HELD_MS = 250;
const CONFIG_BYTES = 64 * 1024;
const HOOKS_MAX = 200;
const WORKTREE = /(?:^|\/)worktrees\/[^/]+$/;

/** A path to be moved away. */
export interface Unsafe {
  readonly path: string;
  readonly isNameless: boolean;
}

interface Folder extends Unsafe {
  /** Set if the folder could not be looked at; a command may open it again. */
  readonly isClosed?: true;
}

export interface GitDirectoriesOptions {
  readonly workspace: string;
  readonly powers: Pick<Powers, 'after'>;
  onUnsafe(unsafe: Unsafe): void;
  /** There are more directories than can be looked at. */
  onFlood(): void;
  /** Whether only programs go on that calls left. */
  areHeld(): boolean;
}

export class GitDirectories {
  readonly #options: GitDirectoriesOptions;
  #timer: Timer | undefined;
  /** Folders that changed and may be git directories. */
  readonly #fresh = new Map<string, Folder>();
  /** Git directories of commands that run; the one that was looked at longest ago comes first. */
  readonly #known = new Map<string, Folder>();
  /** Files that a person let be, by path. */
  readonly #accepted = new Map<string, string>();

  constructor(options: GitDirectoriesOptions) {
    this.#options = options;
  }

  /** A name in a folder changed. */
  note({ folder, name, bytes }: Pick<Change, 'folder' | 'name' | 'bytes'>): void {
    const path = directoryOf(bytes?.toString('latin1') ?? (folder === '' ? name : `${folder}/${name}`));
    if (path !== undefined) this.#fresh.set(path, { path, isNameless: bytes !== undefined });
  }

  /** Looks at folders that changed; then again at all that are git directories, until `clear`. */
  lookAtNew(): void {
    if (this.#fresh.size > 0) this.#lookOn();
  }

  /** Looks at all git directories once more: a write through a mapping tells nobody. */
  async lookAtAll(): Promise<void> {
    for (const [path, it] of this.#known) this.#fresh.set(path, it);
    for (this.#look(); this.#fresh.size > 0; this.#look())
      await new Promise<void>((resolve) => void this.#options.powers.after(0, resolve));
  }

  /** No command runs any more. */
  clear(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
    for (const [path, { isClosed }] of this.#known) if (!isClosed) this.#known.delete(path);
  }

  #lookOn(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
    this.#look();
    if (this.#fresh.size + this.#known.size === 0) return;
    const { powers, areHeld } = this.#options;
    const laterMs = this.#fresh.size > 0 ? 0 : areHeld() ? LOOK_HELD_MS : LOOK_MS;
    this.#timer = powers.after(laterMs, () => this.#lookOn());
  }

  /** Looks at some of the folders that changed, or at some others if there are none. */
  #look(): void {
    const { onUnsafe, onFlood } = this.#options;
    const from = this.#fresh.size > 0 ? this.#fresh : this.#known;
    for (const folder of [...from.values()].slice(0, LOOKS_A_TURN)) {
      from.delete(folder.path);
      for (const it of this.#lookAt(folder)) onUnsafe(it);
    }
    if (this.#known.size > DIRECTORIES_MAX || this.#fresh.size > WAITING_MAX) onFlood();
  }

  /** A person put a path back: it stays as long as it is as it is now. */
  accept(path: string): void {
    if (directoryOf(path) === undefined || this.#accepted.size >= DIRECTORIES_MAX) return;
    const parts = partsOf(Buffer.from(path));
    const name = parts.pop() as Buffer;
    try {
      using parent = closing(openFolder(this.#options.workspace, parts));
      this.#accepted.set(path, printOf(below(parent.fd, name)));
    } catch {
      // ENOENT, ENOTDIR: it is gone again.
    }
  }

  #lookAt(folder: Folder): Unsafe[] {
    const { path, isNameless } = folder;
    try {
      using opened = closing(openFolder(this.#options.workspace, path === '' ? [] : partsOf(toBytes(folder))));
      if (!isGitDirectory(opened.fd)) return [];
      this.#known.set(path, { path, isNameless });
      return this.#unsafeIn(opened.fd, path).map((it) => ({ path: pathIn(path, it), isNameless }));
    } catch (error) {
      // ENOENT, ENOTDIR, ELOOP: it went, or is a link, whose target is looked at itself.
      if ((error as NodeJS.ErrnoException).code === 'EACCES')
        this.#known.set(path, { path, isNameless, isClosed: true });
      return [];
    }
  }

  #unsafeIn(fd: number, folder: string): string[] {
    const at = (name: string) => `/proc/self/fd/${fd}/${name}`;
    const isThere = (name: string) => fs.lstatSync(at(name), { throwIfNoEntry: false }) !== undefined;
    const isLetBe = (name: string) => this.#accepted.get(pathIn(folder, name)) === printOf(at(name));
    const configs = CONFIGS.filter((it) => isThere(it) && !isHarmless(textOf(at(it)), folder));
    // git makes the file, and then writes it.
    const isOwn = () => ['', '../..'].includes(textOf(at('commondir'))?.trim() ?? '-') && WORKTREE.test(folder);
    const common = isThere('commondir') && !isOwn() ? ['commondir'] : [];
    return [...configs, ...common, ...hooksIn(fd)].filter((it) => !isLetBe(it));
  }
}

const pathIn = (folder: string, name: string): string => (folder === '' ? name : `${folder}/${name}`);

/** Hooks that git would run: each file that may be executed, and whatever is no file. */
function hooksIn(fd: number): string[] {
  const at = (path: string) => fs.lstatSync(`/proc/self/fd/${fd}/${path}`, { throwIfNoEntry: false });
  const stat = at('hooks');
  if (!stat || stat.isFile()) return [];
  const names = stat.isDirectory() ? namesIn(`/proc/self/fd/${fd}/hooks`, HOOKS_MAX) : undefined;
  if (!names) return ['hooks'];
  const isActive = (path: string) => {
    const hook = at(path);
    return hook !== undefined && !hook.isDirectory() && (!hook.isFile() || (hook.mode & 0o111) !== 0);
  };
  return names.map((it) => `hooks/${it}`).filter((it) => !it.endsWith('.sample') && isActive(it));
}

/** The folder that is a git directory if a path with this name is in one. */
function directoryOf(path: string): string | undefined {
  const parts = path.split('/');
  const name = parts.pop() as string;
  if (name === '.git') return path;
  if (NAMES.has(name)) return parts.join('/');
  return parts.at(-1) === 'hooks' ? parts.slice(0, -1).join('/') : undefined;
}

/** Whether git takes a folder for one of its own, or for the common one of work trees. */
function isGitDirectory(fd: number): boolean {
  const has = (name: string) => fs.lstatSync(`/proc/self/fd/${fd}/${name}`, { throwIfNoEntry: false }) !== undefined;
  return (has('objects') && has('refs')) || (has('HEAD') && has('commondir'));
}

/** Whether a config has only keys that git, clones and submodules write, and its work tree is in the workspace. */
function isHarmless(text: string | undefined, folder: string): boolean {
  const entries = text === undefined ? undefined : parseGitConfig(text);
  if (!entries) return false;
  const values = valuesOf(entries);
  const places = values.get('core.worktree') ?? [];
  return (
    places.every((it) => !join(folder, it).startsWith('..')) &&
    [...values].every(([key, of]) => whyRefusedInNew(key, of) === undefined)
  );
}

/** The text of a file that has no other name; undefined for anything else. */
function textOf(at: string, tries = 3): string | undefined {
  try {
    using opened = openToRead(at);
    const stat = fs.fstatSync(opened.fd);
    // git renames a new config over it: the file that was opened has no name then.
    if (stat.nlink === 0 && tries > 1) return textOf(at, tries - 1);
    return stat.isFile() && stat.nlink === 1 && stat.size <= CONFIG_BYTES
      ? fs.readFileSync(opened.fd, 'utf8')
      : undefined;
  } catch {
    return undefined; // ELOOP, EACCES: a link, or closed to us for now.
  }
}

/** What tells whether a file is still the one that a person let be. */
function printOf(at: string | Buffer): string {
  const { dev, ino, size, ctimeNs, nlink } = fs.lstatSync(at, { bigint: true });
  return [dev, ino, size, ctimeNs, nlink].join(' ');
}
