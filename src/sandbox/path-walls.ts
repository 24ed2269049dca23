/**
 * What a command's calls on paths meet, by the mounts of that very command. Told only where they make it certain. Who looks is
 * outside of them: nothing below a hidden directory is looked at, and nothing of the machine that the command does not see.
 */
import { lstatSync, readlinkSync, type Stats } from 'node:fs';
import { basename } from 'node:path';
import type { Masks } from './masks.ts';
import { changesNothing, type Does } from './path-calls.ts';

export interface Walls {
  /** Absolute, without links. */
  readonly workspace: string;
  /** As its start found them on the disk. */
  readonly masks: Masks;
  /** What it sees of the machine, read-only; absolute. */
  readonly system: readonly string[];
}

/** `hidden`, `held`: by masks; `pinned`: something of them lies in it. */
type Wall = 'hidden' | 'held' | 'pinned' | 'system';

export interface Met {
  readonly kind: 'read' | 'write';
  /** Absolute, without links. */
  readonly path: string;
  readonly wall: Wall;
}

export interface Attempt {
  readonly does: Does;
  /** Absolute; as the program wrote it. */
  readonly path: string;
  /** Whether a link at its end is what is meant. */
  readonly isLink: boolean;
}

type FileType = 'file' | 'directory' | 'other';

/** Where an attempt leads: `type` is absent where nothing is. */
interface Place {
  readonly path: string;
  readonly type?: FileType;
  /** Whether it is hidden itself, or lies in what is; then `path` is that. */
  readonly hidden?: FileType | 'inside';
}

/** Mounts of their own in which everybody may write, or nobody makes files. */
const ELSEWHERE = ['/tmp', '/dev', '/proc'];
/** As in the kernel. */
const LINKS_MAX = 40;
const NAME_BYTES_MAX = 255;
/** Names that are looked up for one path, and for all of a command: each takes 2 µs, in which other commands may wait. */
const NAMES_OF_PATH_MAX = 128;
const NAMES_MAX = 16_384;

export class WallMap {
  readonly #walls: Walls;
  readonly #hidden: ReadonlyMap<string, 'file' | 'directory'>;
  readonly #held: ReadonlySet<string>;
  readonly #pinned: ReadonlySet<string>;
  /** Last names of all of them. */
  readonly #names: ReadonlySet<string>;
  #lookedUp = 0;

  constructor(walls: Walls) {
    this.#walls = walls;
    const { hidden, readOnly, pinned } = walls.masks;
    this.#hidden = new Map(hidden.map(({ path, type }) => [this.#at(path), type]));
    this.#held = new Set(readOnly);
    this.#pinned = new Set(pinned);
    this.#names = new Set([...hidden.map((it) => it.path), ...readOnly, ...pinned].map((it) => basename(it)));
  }

  /** Whether what was met stands where it was put, of all that is mounted: a mask goes with what it lay on, or moves along. */
  stands({ path, wall }: Met, mounted: ReadonlySet<string>): boolean {
    if (wall === 'system') return true;
    if (wall !== 'held') return mounted.has(path);
    return [...this.#held].some((it) => isBelow(this.#at(it), path) && mounted.has(this.#at(it)));
  }

  /** Whether a path leads to a wall by its words, so that it needs no link; a relative one counts as if it stood alone. */
  mayMeet(does: Does, path: string): boolean {
    const isOutside = path.startsWith('/') && !isBelow(this.#walls.workspace, path);
    if (isOutside && ELSEWHERE.some((it) => isBelow(it, path))) return false;
    if (!changesNothing(does) && (isOutside || this.#held.has(''))) return true;
    return path.split('/').some((it) => this.#names.has(it));
  }

  /** Whether a path may be a link to a wall: only those of the workspace are looked at. */
  mayBeLink(path: string): boolean {
    return !path.startsWith('/') || isBelow(this.#walls.workspace, path);
  }

  /** Looks at the disk. */
  meet({ does, path, isLink }: Attempt): Met | undefined {
    if (failsByItself(does, path)) return undefined;
    const place = this.#placeOf(path, isLink);
    if (!place) return undefined;
    if (place.hidden) return hiddenMet(does, place);
    const write = (wall: Wall): Met => ({ kind: 'write', path: place.path, wall });
    const own = this.#inWorkspace(place.path);
    const wall = this.#readOnlyBy(place.path, own);
    if (wall !== undefined) return isRefused(does, place.type) ? write(wall) : undefined;
    const moves = does === 'remove' || does === 'rmdir' || does === 'replace';
    return moves && place.type !== undefined && own !== undefined && this.#pinned.has(own)
      ? write('pinned')
      : undefined;
  }

  #at(path: string): string {
    const { workspace } = this.#walls;
    return path === '' ? workspace : `${workspace}/${path}`;
  }

  /** Relative to it; undefined outside. */
  #inWorkspace(path: string): string | undefined {
    const { workspace } = this.#walls;
    return isBelow(workspace, path) ? path.slice(workspace.length + 1) : undefined;
  }

  #readOnlyBy(path: string, own: string | undefined): Wall | undefined {
    if (own === undefined) return this.#isSystem(path) || this.#isBare(path) ? 'system' : undefined;
    return this.#held.has('') || this.#isHeld(own) ? 'held' : undefined;
  }

  #isHeld(path: string): boolean {
    for (let end = path.length; end > 0; end = path.lastIndexOf('/', end - 1)) {
      if (this.#held.has(path.slice(0, end))) return true;
    }
    return false;
  }

  #isSystem(path: string): boolean {
    return this.#walls.system.some((it) => isBelow(it, path));
  }

  /** Whether it is, or would be, of the sandbox's own root: read-only, with what the mounts stand on and nothing else. */
  #isBare(path: string): boolean {
    return !ELSEWHERE.some((it) => isBelow(it, path)) && this.#leadsOn(path.slice(0, path.lastIndexOf('/')) || '/');
  }

  /** Whether it is a folder above of what the command sees. */
  #leadsOn(path: string): boolean {
    return [this.#walls.workspace, ...this.#walls.system].some((it) => it !== path && isBelow(path, it));
  }

  #placeOf(path: string, isLink: boolean): Place | undefined {
    const names = path.split('/').reverse();
    const lastLookUp = Math.min(NAMES_MAX, this.#lookedUp + NAMES_OF_PATH_MAX);
    let at = '';
    let links = 0;
    while (this.#lookedUp < lastLookUp) {
      const name = names.pop();
      if (name === undefined) return { path: at || '/', type: 'directory' };
      if (name === '' || name === '.') continue;
      if (name === '..') {
        at = at.slice(0, Math.max(0, at.lastIndexOf('/')));
        continue;
      }
      if (Buffer.byteLength(name) > NAME_BYTES_MAX) return undefined;
      const next = `${at}/${name}`;
      const isLast = names.every((it) => it === '' || it === '.');
      const hides = this.#hidden.get(next);
      // A name with a slash behind it is a directory's: of a file it is refused without a wall (ENOTDIR, EISDIR).
      const isWhole = names.length === 0;
      if (hides === 'directory' || (hides === 'file' && isWhole))
        return { path: next, hidden: isLast ? hides : 'inside' };
      if (hides === 'file') return undefined;
      this.#lookedUp += 1;
      const stat = this.#isSeen(next) ? lookAt(next) : undefined;
      if (!stat) return isLast ? { path: next } : undefined;
      if (stat.isSymbolicLink() && !(isLast && isLink)) {
        const to = links++ < LINKS_MAX ? linkAt(next) : undefined;
        if (to === undefined) return undefined;
        if (to.startsWith('/')) at = '';
        names.push(...to.split('/').reverse());
      } else if (isLast) return isWhole || stat.isDirectory() ? { path: next, type: typeOf(stat) } : undefined;
      else if (stat.isDirectory()) at = next;
      else return undefined;
    }
    return undefined;
  }

  /** Whether the command sees what is there, or a folder that leads to what it sees. */
  #isSeen(path: string): boolean {
    return this.#inWorkspace(path) !== undefined || this.#isSystem(path) || this.#leadsOn(path);
  }
}

const OF_FOLDERS: ReadonlySet<Does> = new Set(['make', 'mkdir', 'enter', 'rmdir', 'temp']);
const OF_FILES: ReadonlySet<Does> = new Set(['make', 'mkdir', 'write', 'create', 'touch', 'unlink']);
const DOTTED = /(?:^|\/)\.\.?\/*$/;

/** By its words: a file with a slash behind it is not made (EISDIR, ENOENT), nor a folder removed by a name of dots (EINVAL, ENOTEMPTY). */
function failsByItself(does: Does, path: string): boolean {
  if (does === 'rmdir') return DOTTED.test(path);
  return (does === 'create' || does === 'touch' || does === 'make') && path.endsWith('/');
}

/** A hidden file is a device that nobody can open; what lies in a hidden directory, and whether it does, is nobody's to know. */
function hiddenMet(does: Does, { path, hidden }: Place): Met | undefined {
  // EEXIST, ENOTDIR, EISDIR, as without a wall.
  if (hidden === 'file' && OF_FOLDERS.has(does)) return undefined;
  if (hidden === 'directory' && OF_FILES.has(does)) return undefined;
  return { kind: changesNothing(does) ? 'read' : 'write', path, wall: 'hidden' };
}

/** On a read-only mount. Not of what is no file: devices and pipes are written there. */
function isRefused(does: Does, type: FileType | undefined): boolean {
  switch (does) {
    case 'read':
    case 'enter':
      return false;
    case 'write':
      return type === 'file';
    case 'create':
    case 'replace':
      return type === 'file' || type === undefined;
    case 'touch':
    case 'make':
    case 'mkdir':
      return type === undefined;
    case 'unlink':
      return type === 'file' || type === 'other';
    case 'rmdir':
    case 'temp':
      return type === 'directory';
    case 'remove':
    case 'change':
      return type !== undefined;
    default:
      return does satisfies never;
  }
}

/** Both absolute; by their words. */
const isBelow = (folder: string, path: string): boolean =>
  folder === '/' || path === folder || (path.startsWith(folder) && path[folder.length] === '/');

const typeOf = (stat: Stats): FileType => (stat.isFile() ? 'file' : stat.isDirectory() ? 'directory' : 'other');

function lookAt(path: string): Stats | undefined {
  try {
    return lstatSync(path, { throwIfNoEntry: false });
  } catch {
    return undefined; // EACCES, ENAMETOOLONG.
  }
}

function linkAt(path: string): string | undefined {
  try {
    const to = readlinkSync(path);
    return isText(to) ? to : undefined;
  } catch {
    return undefined; // It is gone.
  }
}

/** What was no UTF-8 would lead to another name. */
export const isText = (path: string): boolean => !path.includes('\ufffd');
