/** Functions on path texts; none touches the disk. Paths are relative to a workspace and separated by `/` unless said otherwise. */
import { isAbsolute, relative, resolve } from 'node:path';
import { isProtectedName, protectedPart } from './protected-names.ts';

/** Whether `path` is `folder` or lies below it; both absolute. Compares whole names: `/ws-evil` is not inside `/ws`. */
export const isInside = (folder: string, path: string): boolean => wayBelow(folder, path) !== undefined;

/** The relative path from `folder` to a `path` in it, '' for the folder itself; undefined for a path outside. Both absolute. */
export function wayBelow(folder: string, path: string): string | undefined {
  // A fast path: each call asks several times, and `relative` takes ten times as long.
  if (isNormal(folder) && isNormal(path)) {
    if (!path.startsWith(folder)) return undefined;
    if (path.length === folder.length) return '';
    return path[folder.length] === '/' ? path.slice(folder.length + 1) : undefined;
  }
  const way = relative(resolve(folder), resolve(path));
  return way === '..' || way.startsWith('../') || isAbsolute(way) ? undefined : way;
}

/** Whether a text names a workspace of a fleet, such as `NODE:/folder` or `git+URL#COMMIT`, and no folder of this machine. */
export const isPlacedName = (text: string): boolean =>
  /^(?:[a-z0-9-]+:(?:\/|git\+|bundle:$|kept\/)|git\+|bundle:$)/.test(text);

/** Whether `path` is `folder` or lies below it; both relative to the workspace and normal, which '' and '.' stand for. */
export const isBelow = (folder: string, path: string): boolean =>
  folder === '' || folder === '.' || path === folder || path.startsWith(`${folder}/`);

/** Whether a path is absolute and has no empty, `.` or `..` segments; false for the root. */
const isNormal = (path: string): boolean => path.startsWith('/') && !NOT_NORMAL.test(path);
const NOT_NORMAL = /\/\.{0,2}(?:\/|$)/;

/**
 * Turns a path relative to `workspace` into one relative to `root`, which holds it. Root and workspace are absolute,
 * `path` is relative and normal. Rules and protections are relative to the root, or a session in a part of it would
 * escape them.
 */
export function fromRoot(root: string, workspace: string, path: string): string {
  const prefix = root === workspace ? '' : relative(root, workspace);
  if (prefix === '') return path;
  return path === '' || path === '.' ? prefix : `${prefix}/${path}`;
}

/**
 * Whether a change of `path` (normal, without links) would change what the person's git runs: anything in a `.git`, at
 * any depth. A `.git` file, `commondir` or a submodule's config make git run programs, too.
 */
export const isInGit = (path: string): boolean => `/${path.toLowerCase()}/`.includes('/.git/');

/** Whether `path`, normal and without links, is a repository's folder of hooks. */
export const isHooksFolder = (path: string): boolean => isInGit(path) && /\/hooks$/i.test(path);

/** Whether programs outside of the sandbox run or trust `path`: what is in a `.git`, and protected names. */
export const isProtected = (path: string): boolean => isInGit(path) || protectedPart(path) !== undefined;

/** Entries of a repository's directory that make git run programs, or look for such entries elsewhere. */
const GIT_TRUSTS = new Set(['config', 'config.worktree', 'commondir', 'gitdir', 'hooks']);

/**
 * Whether an existing path is read-only to commands under any policy: the protected paths, at any depth, and what git
 * trusts of each repository, submodule and worktree. Of small protected folders they have copies; the rest of `.git` stays
 * writable, or nothing could be committed. A name that does not exist can't be protected: a mount needs a target, and an empty `commondir` would
 * break git. What comes to be while a command runs is moved away (hosts/quarantine/).
 */
export function isTrusted(path: string, type: 'file' | 'directory'): boolean {
  if (isProtectedName(path)) return true;
  const wrapped = `/${path.toLowerCase()}`;
  const slash = wrapped.lastIndexOf('/');
  const name = wrapped.slice(slash + 1);
  // The pointer of a submodule or worktree to its repository.
  if (name === '.git') return type === 'file';
  if (!GIT_TRUSTS.has(name)) return false;
  const folder = wrapped.slice(0, slash);
  if (folder.endsWith('/.git')) return true;
  const inner = /\/\.git\/(?:modules|worktrees)(\/.*)$/.exec(folder)?.[1];
  // A branch may be called `hooks`.
  return inner !== undefined && !inner.includes('/refs/');
}

/**
 * Whether `path` lies in a repository's `.git` and is neither trusted by git nor below something that is: refs, the index
 * and other state, which commands may write. Undo and commits of previews write such files; no other tool does.
 */
export function isGitState(path: string): boolean {
  const parts = path.split('/');
  const at = parts.findIndex((it) => it.toLowerCase() === '.git');
  if (at < 0 || at === parts.length - 1) return false;
  for (let end = 1; end <= parts.length; end++) {
    const part = parts.slice(0, end).join('/');
    if (isTrusted(part, 'file') && part.toLowerCase() !== '.git' && !part.toLowerCase().endsWith('/.git')) return false;
  }
  return true;
}

/** A call's entries in a spool: its journal, and the folder of its large files. */
export const inSpool = (key: string): { readonly file: string; readonly folder: string } => ({
  file: key,
  folder: `${key}.large`,
});

/** Quotes a text as one word of a command line that a person may copy. */
export const asWord = (text: string): string =>
  /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
