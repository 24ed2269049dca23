/**
 * What a policy keeps from a workspace's hosts and commands, as mounts. Whatever a program is called and however a path
 * is spelled, the kernel meets the mount: `cat`, an interpreter, an archiver and a link all get the same answer.
 */
import { lstatSync } from 'node:fs';
import { basename, dirname, join, relative } from 'node:path';
import { ToolError } from '../errors.ts';
import { isInside } from '../paths.ts';
import type { Cover } from './bubblewrap.ts';
import type { Coarse } from './coarse-masks.ts';
import { mayEnter, type Owner } from './entry-rights.ts';

/** A path that can't be read. */
export interface Hidden {
  readonly path: string;
  readonly type: 'file' | 'directory';
  /** The path itself where it is not UTF-8; `path` then shows it as if it were Latin-1. */
  readonly bytes?: Uint8Array;
}

/** Paths relative to the workspace; '' is the workspace itself. None lies below a hidden directory. */
export interface Masks {
  readonly hidden: readonly Hidden[];
  readonly readOnly: readonly string[];
  /**
   * Can be neither moved nor removed: every directory on the way to a mask. Moved away, its place could be filled with
   * something else, and what was masked by its path would be found by the next command under another one.
   */
  readonly pinned: readonly string[];
  /**
   * The workspace's own entries that are shown, where more of them have to be hidden than there may be mounts: the workspace
   * is then an empty read-only directory with these in it. All of its entries when absent.
   */
  readonly shown?: readonly string[];
  /** What is masked more coarsely than the policy says, to be told to people. */
  readonly coarse?: readonly Coarse[];
}

export const NO_MASKS: Masks = { hidden: [], readOnly: [], pinned: [] };

/** The directories above a path, without the workspace itself, whose mount nobody inside can move. */
export function ancestorsOf(path: string): string[] {
  const above: string[] = [];
  for (let at = dirname(path); at !== '.' && at !== '/' && at !== path; at = dirname(at)) above.push(at);
  return above;
}

/** Masks with some more read-only paths: absolute ones, of which those outside the workspace are left out. */
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
 * What of the masks is on the disk now, as what it is now: bubblewrap would make what is missing, and follow links. Where a
 * directory can't be entered, bubblewrap can mount nothing below it: that directory is hidden whole instead, since whoever
 * closed it (`chmod 000`) may open it again while the command runs. `owner` is who mounts, where that is not this process.
 * Throws SANDBOX_UNAVAILABLE for what can't be looked at.
 */
export function onDisk(masks: Masks, workspace: string, owner?: Owner): Masks {
  const looks = new Looks(workspace, owner);
  const hidden = masks.hidden.flatMap((it): Hidden[] => {
    const type = looks.typeOf(it.path, it.bytes);
    return type ? [{ ...it, type }] : [];
  });
  const isThere = (path: string) => looks.typeOf(path) !== undefined;
  const readOnly = masks.readOnly.filter(isThere);
  const pinned = masks.pinned.filter(isThere);
  const shown = masks.shown && { shown: masks.shown.filter(isThere) };
  const { closed } = looks;
  if (closed.size === 0) return { ...masks, hidden, readOnly, pinned, ...shown };
  const isOpen = (path: string) => !closed.has(path) && !below(path, closed);
  const whole = [...closed].filter((path) => !below(path, closed));
  return {
    ...{ ...masks, ...shown },
    hidden: [...hidden.filter((it) => isOpen(it.path)), ...whole.map((path): Hidden => ({ path, type: 'directory' }))],
    readOnly: readOnly.filter(isOpen),
    pinned: pinned.filter(isOpen),
  };
}

/** What paths of one workspace are, and which directories keep others from being looked at. */
class Looks {
  /** Directories that can't be entered. */
  readonly closed = new Set<string>();
  readonly #workspace: string;
  readonly #owner: Owner | undefined;
  /** Of directories above what was asked for, whether the owner may enter them. */
  readonly #entered = new Map<string, boolean>();

  constructor(workspace: string, owner: Owner | undefined) {
    this.#workspace = workspace;
    this.#owner = owner;
  }

  /** Undefined for what is not there, is a link, or lies in a directory that is closed. */
  typeOf(path: string, bytes?: Uint8Array): Hidden['type'] | undefined {
    const closedAbove = this.#owner && ancestorsOf(path).findLast((it) => !this.#mayEnter(it));
    if (closedAbove !== undefined) {
      this.closed.add(closedAbove);
      return undefined;
    }
    const type = typeAt(bytes ? Buffer.concat([Buffer.from(`${this.#workspace}/`), bytes]) : this.#at(path));
    if (type !== 'closed') return type;
    this.closed.add(this.#nearestOpen(path));
    return undefined;
  }

  #at(path: string): string {
    return join(this.#workspace, path);
  }

  /** True for what is no directory: the path itself is looked at then. */
  #mayEnter(folder: string): boolean {
    const known = this.#entered.get(folder);
    if (known !== undefined) return known;
    const stat = lstatSync(this.#at(folder), { throwIfNoEntry: false });
    const may = !stat?.isDirectory() || mayEnter(stat, this.#owner as Owner);
    this.#entered.set(folder, may);
    return may;
  }

  /** The nearest directory above a path that can be looked at. Throws SANDBOX_UNAVAILABLE where that is the workspace. */
  #nearestOpen(path: string): string {
    const open = ancestorsOf(path).find((it) => typeAt(this.#at(it)) === 'directory');
    if (open !== undefined) return open;
    const message = `${this.#workspace} can't be entered to mask \`${basename(path)}\` in it`;
    throw new ToolError('SANDBOX_UNAVAILABLE', message, {
      suggestion: `Make it accessible to its owner: chmod u+rwx ${this.#workspace}`,
    });
  }
}

/** `closed`: a directory on the way to it can't be entered, or the path is too long for the kernel. */
function typeAt(path: string | Buffer): Hidden['type'] | 'closed' | undefined {
  try {
    const stat = lstatSync(path);
    if (stat.isSymbolicLink()) return undefined;
    return stat.isDirectory() ? 'directory' : 'file';
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException;
    // ELOOP: links were put in the place of a directory above it; masks follow none.
    if (code === 'ENOENT' || code === 'ENOTDIR' || code === 'ELOOP') return undefined;
    if (code === 'EACCES' || code === 'ENAMETOOLONG') return 'closed';
    const name = basename(path.toString());
    throw new ToolError('SANDBOX_UNAVAILABLE', `\`${name}\` must be masked and can't be looked at (${code})`);
  }
}

/**
 * The mounts, in order, to stand after the workspace's own. Where that one is read-only (`writable` false), only what is
 * hidden needs a mount. Pure.
 */
export function maskMounts(masks: Masks, workspace: string, writable: boolean): Cover[] {
  const at = (path: string) => (path === '' ? workspace : `${workspace}/${path}`);
  const readOnly = outermost(masks.readOnly);
  const pinned = [...new Set(masks.pinned)].filter(
    (path) => path !== '' && !readOnly.has(path) && !below(path, readOnly),
  );
  const held: [string, Cover][] = writable
    ? [
        ...pinned.map((path): [string, Cover] => [path, { kind: 'rw-try', path: at(path) }]),
        ...[...readOnly].map((path): [string, Cover] => [path, { kind: 'ro-try', path: at(path) }]),
      ]
    : [];
  const listed: Cover[] = masks.shown
    ? [{ kind: 'listed', path: workspace, entries: masks.shown.map(at), isWritable: writable }]
    : [];
  return [
    ...listed,
    // A bind brings the real content of its source, so that an inner one must come after the outer one.
    ...held.sort(([a], [b]) => (a < b ? -1 : 1)).map(([, mount]) => mount),
    ...masks.hidden.map(
      ({ path, type, bytes }): Cover => ({
        ...{ kind: 'hidden', type, path: at(path) },
        ...(bytes && { bytes: Buffer.concat([Buffer.from(`${workspace}/`), bytes]) }),
      }),
    ),
  ];
}

/** Covers on sockets of others that are there, relative to the workspace, but for those that a mask hides already. */
export function socketMounts(sockets: readonly string[], workspace: string, { hidden }: Masks): Cover[] {
  const masked = new Set(hidden.map((it) => it.path));
  return sockets
    .filter((path) => ![path, ...ancestorsOf(path)].some((it) => masked.has(it)))
    .map((path) => join(workspace, path))
    .filter((path) => typeAt(path) === 'file')
    .map((path): Cover => ({ kind: 'hidden', type: 'file', path }));
}

function outermost(paths: readonly string[]): ReadonlySet<string> {
  const all = new Set(paths);
  return new Set([...all].filter((path) => !below(path, all)));
}

const below = (path: string, folders: ReadonlySet<string>): boolean =>
  path !== '' && (folders.has('') || ancestorsOf(path).some((it) => folders.has(it)));
