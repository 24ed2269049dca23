/**
 * What a policy keeps from a workspace's hosts and commands, as mounts. Whatever a program is called and however a path
 * is spelled, the kernel meets the mount: `cat`, an interpreter, an archiver and a link all get the same answer.
 */
import { lstatSync } from 'node:fs';
import { basename, dirname, join, relative } from 'node:path';
import { ToolError } from '../errors.ts';
import { isInside } from '../paths.ts';
import type { Cover } from './bubblewrap.ts';

/** A path that can't be read. */
export interface Hidden {
  readonly path: string;
  readonly type: 'file' | 'directory';
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
 * What of the masks is on the disk now, as what it is now: bubblewrap would make what is missing, and follow links.
 * Throws SANDBOX_UNAVAILABLE for what can't be looked at, which a command may be able to make readable.
 */
export function onDisk(masks: Masks, workspace: string): Masks {
  const typeOf = (path: string) => typeAt(join(workspace, path));
  return {
    hidden: masks.hidden.flatMap(({ path }) => {
      const type = typeOf(path);
      return type ? [{ path, type }] : [];
    }),
    readOnly: masks.readOnly.filter((path) => typeOf(path)),
    pinned: masks.pinned.filter((path) => typeOf(path)),
  };
}

function typeAt(path: string): Hidden['type'] | undefined {
  try {
    const stat = lstatSync(path);
    if (stat.isSymbolicLink()) return undefined;
    return stat.isDirectory() ? 'directory' : 'file';
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT' || code === 'ENOTDIR') return undefined;
    throw new ToolError('SANDBOX_UNAVAILABLE', `\`${basename(path)}\` must be masked and can't be looked at (${code})`);
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
  return [
    // A bind brings the real content of its source, so that an inner one must come after the outer one.
    ...held.sort(([a], [b]) => (a < b ? -1 : 1)).map(([, mount]) => mount),
    ...masks.hidden.map(({ path, type }): Cover => ({ kind: 'hidden', type, path: at(path) })),
  ];
}

function outermost(paths: readonly string[]): ReadonlySet<string> {
  const all = new Set(paths);
  return new Set([...all].filter((path) => !below(path, all)));
}

const below = (path: string, folders: ReadonlySet<string>): boolean =>
  path !== '' && (folders.has('') || ancestorsOf(path).some((it) => folders.has(it)));
