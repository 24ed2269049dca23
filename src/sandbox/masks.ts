/**
 * What a policy keeps from a workspace's hosts and commands, as mounts. Whatever a program is called and however a path
 * is spelled, the kernel meets the mount: `cat`, an interpreter, an archiver and a link all get the same answer.
 */
import { type BigIntStats, lstatSync } from 'node:fs';
import { basename, dirname, join, relative } from 'node:path';
import { ToolError } from '../errors.ts';
import { isInside } from '../paths.ts';
import type { Mount } from './bubblewrap.ts';

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

/** A file that was changed a moment ago may be changed once more without a word in its times. */
const SETTLED_MS = 100n;

/**
 * What is at each of the paths, so that a mount over them made meanwhile is known to be over them still; undefined where that can't be
 * known. A mount goes when its place is removed or replaced in another namespace: then another file is there, or, where it came back by
 * another name, its inode was changed. Directories have one name; in them, files may come and go.
 */
export function identitiesOf(masks: Masks, workspace: string, nowMs: number): readonly string[] | undefined {
  const paths = [...masks.hidden.map((it) => it.path), ...masks.readOnly, ...masks.pinned];
  const all = paths.map((path) => identityAt(join(workspace, path), BigInt(Math.floor(nowMs))));
  return all.every((it) => it !== undefined) ? all : undefined;
}

function identityAt(path: string, nowMs: bigint): string | undefined {
  let stat: BigIntStats | undefined;
  try {
    stat = lstatSync(path, { bigint: true, throwIfNoEntry: false });
  } catch {
    return undefined; // EACCES: who builds a sandbox finds out, and says so.
  }
  if (!stat) return undefined;
  const born = `${stat.dev}:${stat.ino}:${stat.birthtimeNs}`;
  if (stat.isDirectory() && stat.birthtimeNs > 0n) return born;
  return stat.ctimeMs + SETTLED_MS < nowMs ? `${born}:${stat.ctimeNs}` : undefined;
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
export function maskMounts(masks: Masks, workspace: string, writable: boolean): Mount[] {
  const at = (path: string) => (path === '' ? workspace : `${workspace}/${path}`);
  const readOnly = outermost(masks.readOnly);
  const pinned = [...new Set(masks.pinned)].filter(
    (path) => path !== '' && !readOnly.has(path) && !below(path, readOnly),
  );
  const held: [string, Mount][] = writable
    ? [
        ...pinned.map((path): [string, Mount] => [path, { kind: 'rw-try', path: at(path) }]),
        ...[...readOnly].map((path): [string, Mount] => [path, { kind: 'ro-try', path: at(path) }]),
      ]
    : [];
  return [
    // A bind brings the real content of its source, so that an inner one must come after the outer one.
    ...held.sort(([a], [b]) => (a < b ? -1 : 1)).map(([, mount]) => mount),
    ...masks.hidden.map(({ path, type }): Mount => ({ kind: 'hidden', type, path: at(path) })),
  ];
}

function outermost(paths: readonly string[]): ReadonlySet<string> {
  const all = new Set(paths);
  return new Set([...all].filter((path) => !below(path, all)));
}

const below = (path: string, folders: ReadonlySet<string>): boolean =>
  path !== '' && (folders.has('') || ancestorsOf(path).some((it) => folders.has(it)));
