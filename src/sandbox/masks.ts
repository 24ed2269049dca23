/**
 * Turns what a policy hides from a workspace's hosts and commands into mounts. Whatever a program is called and however a path
 * is spelled, the kernel finds the mount: `cat`, an interpreter, an archiver and a link all get the same answer.
 */
import { lstatSync } from 'node:fs';
import { basename, dirname, join, relative } from 'node:path';
import { ToolError } from '../base/errors.ts';
import { isInside } from '../base/paths.ts';
import type { CoarseMask } from './coarse-masks.ts';
import { type MountOwner, mayEnter } from './entry-rights.ts';
import type { CoveringMount } from './mount.ts';

/** A path that can't be read. */
export interface HiddenPath {
  readonly path: string;
  readonly type: 'file' | 'directory';
  /** The path as bytes if it is not UTF-8; `path` then shows it decoded as Latin-1. */
  readonly bytes?: Uint8Array | undefined;
}

/** A folder of which a command has a copy. */
export interface OwnFolder {
  readonly path: string;
  /** The copy's name in the folder of previews. */
  readonly folder: string;
}

/** Paths relative to the workspace; '' is the workspace itself. None lies below a hidden directory. */
export interface Masks {
  readonly hidden: readonly HiddenPath[];
  readonly readOnly: readonly string[];
  /**
   * Every directory above a mask, which can be neither moved nor removed. If one were moved away, something else could take its
   * place, and the next command would find the masked files under another path.
   */
  readonly pinned: readonly string[];
  /**
   * Top-level entries of the workspace that stay visible if more have to be hidden than there may be mounts: the workspace
   * is then an empty read-only directory that holds these. All of its entries if absent.
   */
  readonly shown?: readonly string[];
  /** Folders of which the command has copies; none is among `readOnly`. */
  readonly own?: readonly OwnFolder[] | undefined;
  /** Directories that are masked more coarsely than the policy says, to be reported to people. */
  readonly coarse?: readonly CoarseMask[];
}

export const NO_MASKS: Masks = { hidden: [], readOnly: [], pinned: [] };

/** The directories above a path, without the workspace itself, whose mount no process inside can move. */
export function ancestorsOf(path: string): string[] {
  const above: string[] = [];
  for (let at = dirname(path); at !== '.' && at !== '/' && at !== path; at = dirname(at)) above.push(at);
  return above;
}

/** Adds read-only paths to masks: absolute paths, of which those outside the workspace are left out. */
export function guard(masks: Masks, workspace: string, paths: readonly string[]): Masks {
  const inside = paths.filter((it) => isInside(workspace, it)).map((it) => relative(workspace, it));
  if (inside.length === 0) return masks;
  return {
    ...masks,
    readOnly: [...masks.readOnly, ...inside],
    pinned: [...masks.pinned, ...inside.flatMap(ancestorsOf)],
  };
}

/**
 * Reduces masks to the paths that exist now, with their present types: bubblewrap would create missing paths, and follow links. If a
 * directory can't be entered, bubblewrap can mount nothing below it: the directory is hidden whole instead, since whoever
 * closed it (`chmod 000`) may open it again while the command runs. `owner` is the user who mounts, if that is not this process's.
 * Throws SANDBOX_UNAVAILABLE if a path can't be examined.
 */
export function onDisk(masks: Masks, workspace: string, owner?: MountOwner): Masks {
  const looks = new PathTypes(workspace, owner);
  const hidden = masks.hidden.flatMap((it): HiddenPath[] => {
    const type = looks.typeOf(it.path, it.bytes);
    return type ? [{ ...it, type }] : [];
  });
  const isThere = (path: string) => looks.typeOf(path) !== undefined;
  const readOnly = masks.readOnly.filter(isThere);
  const pinned = masks.pinned.filter(isThere);
  const own = masks.own && { own: masks.own.filter((it) => isThere(it.path)) };
  const shown = masks.shown && { shown: masks.shown.filter(isThere) };
  const { closed } = looks;
  if (closed.size === 0) return { ...masks, hidden, readOnly, pinned, ...shown, ...own };
  const isOpen = (path: string) => !closed.has(path) && !below(path, closed);
  const outermost = [...closed].filter((path) => !below(path, closed));
  return {
    ...masks,
    ...shown,
    own: own?.own.filter((it) => isOpen(it.path)),
    hidden: [
      ...hidden.filter((it) => isOpen(it.path)),
      ...outermost.map((path): HiddenPath => ({ path, type: 'directory' })),
    ],
    readOnly: readOnly.filter(isOpen),
    pinned: pinned.filter(isOpen),
  };
}

/** Looks up the types of a workspace's paths, and collects the directories that prevent it. */
class PathTypes {
  /** Directories that can't be entered. */
  readonly closed = new Set<string>();
  readonly #workspace: string;
  readonly #owner: MountOwner | undefined;
  /** Whether the owner may enter each directory examined so far. */
  readonly #entered = new Map<string, boolean>();

  constructor(workspace: string, owner: MountOwner | undefined) {
    this.#workspace = workspace;
    this.#owner = owner;
  }

  /** Type of a path; undefined if it is missing, a link, or in a directory that can't be entered. */
  typeOf(path: string, bytes?: Uint8Array): HiddenPath['type'] | undefined {
    const closedAbove = this.#owner && ancestorsOf(path).findLast((it) => !this.#mayEnter(it));
    if (closedAbove !== undefined) {
      this.closed.add(closedAbove);
      return undefined;
    }
    const type = typeAt(bytes ? Buffer.concat([Buffer.from(`${this.#workspace}/`), bytes]) : this.#absolutePath(path));
    if (type !== 'closed') return type;
    this.closed.add(this.#nearestOpen(path));
    return undefined;
  }

  #absolutePath(path: string): string {
    return join(this.#workspace, path);
  }

  /** True also if it is not a directory: looking up the path then settles it. */
  #mayEnter(folder: string): boolean {
    const known = this.#entered.get(folder);
    if (known !== undefined) return known;
    const stat = lstatSync(this.#absolutePath(folder), { throwIfNoEntry: false });
    const may = !stat?.isDirectory() || mayEnter(stat, this.#owner as MountOwner);
    this.#entered.set(folder, may);
    return may;
  }

  /** The nearest directory above a path that can be examined. Throws SANDBOX_UNAVAILABLE if only the workspace can. */
  #nearestOpen(path: string): string {
    const open = ancestorsOf(path).find((it) => typeAt(this.#absolutePath(it)) === 'directory');
    if (open !== undefined) return open;
    const message = `${this.#workspace} can't be entered to mask \`${basename(path)}\` in it`;
    throw new ToolError('SANDBOX_UNAVAILABLE', message, {
      suggestion: `Make it accessible to its owner: chmod u+rwx ${this.#workspace}`,
    });
  }
}

/** Type of a path itself; `closed` if a directory above it can't be entered or the path is too long for the kernel. */
function typeAt(path: string | Buffer): HiddenPath['type'] | 'closed' | undefined {
  try {
    const stat = lstatSync(path);
    if (stat.isSymbolicLink()) return undefined;
    return stat.isDirectory() ? 'directory' : 'file';
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException;
    // ELOOP: a link replaced a directory above it; masks follow no links.
    if (code === 'ENOENT' || code === 'ENOTDIR' || code === 'ELOOP') return undefined;
    if (code === 'EACCES' || code === 'ENAMETOOLONG') return 'closed';
    const name = basename(path.toString());
    throw new ToolError('SANDBOX_UNAVAILABLE', `\`${name}\` must be hidden, but can't be inspected (${code})`);
  }
}

/**
 * The mounts of masks, in order, to follow the workspace's own mount. If that is read-only (`writable` false), only hidden
 * paths need a mount. `copies` is the folder of copies. Pure.
 */
export function maskMounts(masks: Masks, workspace: string, writable: boolean, copies = ''): CoveringMount[] {
  const at = (path: string) => (path === '' ? workspace : `${workspace}/${path}`);
  const own = new Map(masks.own?.map((it) => [it.path, it.folder]));
  const readOnly = outermost([...masks.readOnly, ...own.keys()]);
  const pinned = [...new Set(masks.pinned)].filter(
    (path) => path !== '' && !readOnly.has(path) && !below(path, readOnly),
  );
  const held: [string, CoveringMount][] = writable
    ? [
        ...pinned.map((path): [string, CoveringMount] => [path, { kind: 'rw-try', path: at(path) }]),
        ...[...readOnly].map((path): [string, CoveringMount] => {
          const copy = own.get(path);
          if (copy === undefined) return [path, { kind: 'ro-try', path: at(path) }];
          return [path, { kind: 'own', path: at(path), by: `${copies}/${copy}` }];
        }),
      ]
    : [];
  const listed: CoveringMount[] = masks.shown
    ? [{ kind: 'listed', path: workspace, entries: masks.shown.map(at), isWritable: writable }]
    : [];
  return [
    ...listed,
    // A bind shows the real content of its source, so an inner bind must come after the outer one.
    ...held.sort(([a], [b]) => (a < b ? -1 : 1)).map(([, mount]) => mount),
    ...masks.hidden.map(
      ({ path, type, bytes }): CoveringMount => ({
        kind: 'hidden',
        type,
        path: at(path),
        bytes: bytes && Buffer.concat([Buffer.from(`${workspace}/`), bytes]),
      }),
    ),
  ];
}

/** Covers for existing sockets of other processes, relative to the workspace, except those that a mask already hides. */
export function socketMounts(sockets: readonly string[], workspace: string, { hidden }: Masks): CoveringMount[] {
  const masked = new Set(hidden.map((it) => it.path));
  return sockets
    .filter((path) => ![path, ...ancestorsOf(path)].some((it) => masked.has(it)))
    .map((path) => join(workspace, path))
    .filter((path) => typeAt(path) === 'file')
    .map((path): CoveringMount => ({ kind: 'hidden', type: 'file', path }));
}

function outermost(paths: readonly string[]): ReadonlySet<string> {
  const all = new Set(paths);
  return new Set([...all].filter((path) => !below(path, all)));
}

const below = (path: string, folders: ReadonlySet<string>): boolean =>
  path !== '' && (folders.has('') || ancestorsOf(path).some((it) => folders.has(it)));
