/** Questions about path texts; nothing here touches the disk. Paths are relative to a workspace and `/`-separated unless said otherwise. */
import { isAbsolute, relative, resolve } from 'node:path';

/** Whether `path` is `folder` or lies below it; both absolute. Never by prefix alone: `/ws-evil` is not inside `/ws`. */
export const isInside = (folder: string, path: string): boolean => wayBelow(folder, path) !== undefined;

/** From `folder` to a `path` that is or lies below it, '' for itself; undefined to any other. Both absolute. */
export function wayBelow(folder: string, path: string): string | undefined {
  // Each call asks several times, and `relative` takes ten times as long.
  if (isNormal(folder) && isNormal(path)) {
    if (!path.startsWith(folder)) return undefined;
    if (path.length === folder.length) return '';
    return path[folder.length] === '/' ? path.slice(folder.length + 1) : undefined;
  }
  const way = relative(resolve(folder), resolve(path));
  return way === '..' || way.startsWith('../') || isAbsolute(way) ? undefined : way;
}

/** Absolute, without segments that are empty, `.` or `..`; the root is not told. */
const isNormal = (path: string): boolean => path.startsWith('/') && !NOT_NORMAL.test(path);
const NOT_NORMAL = /\/\.{0,2}(?:\/|$)/;

/**
 * What a path in `workspace` is called from `root`, which holds it: both absolute, `path` relative and normal. Rules and
 * protections count from the root, or a session in a part of it would be free of them.
 */
export function fromRoot(root: string, workspace: string, path: string): string {
  const prefix = root === workspace ? '' : relative(root, workspace);
  if (prefix === '') return path;
  return path === '' || path === '.' ? prefix : `${prefix}/${path}`;
}

/**
 * Paths below the workspace root that programs outside the sandbox run or trust; an agent that could write them would
 * act with its person's rights later. Commands see them read-only, file tools refuse to write them.
 */
export const PROTECTED_PATHS: readonly string[] = [
  '.git/hooks',
  '.git/config',
  '.mcp.json',
  '.vscode',
  '.idea',
  '.envrc',
  '.ringfence',
  '.husky',
  '.githooks',
];

/**
 * Whether a file tool writing `path` (normal, without links) would change a protected path, or anything of a repository's
 * `.git`, in the root of the workspace or below: a `.git` file, `commondir` or a submodule's config make git run programs too.
 */
export function isProtected(path: string): boolean {
  const wrapped = `/${path.toLowerCase()}/`;
  if (wrapped.includes('/.git/')) return true;
  return PROTECTED_PATHS.some((it) => wrapped.includes(`/${it}/`));
}

/** In a repository's directory: what makes git run programs, or look for such things elsewhere. */
const GIT_TRUSTS = new Set(['config', 'config.worktree', 'commondir', 'gitdir', 'hooks']);

/**
 * Whether an existing path is read-only to commands whatever the policy says: the protected paths, at any depth, and of
 * each repository, submodule and worktree what git trusts. The rest of `.git` stays writable, or nothing could be committed.
 * A name that does not exist can't be held: a mount needs something to lie on, and an empty `commondir` would break git.
 * So a command can still give a repository without hooks its first one, or a `commondir`; the file tools can not.
 */
export function isTrusted(path: string, type: 'file' | 'directory'): boolean {
  const wrapped = `/${path.toLowerCase()}`;
  if (PROTECTED_PATHS.some((it) => wrapped.endsWith(`/${it}`))) return true;
  const slash = wrapped.lastIndexOf('/');
  const name = wrapped.slice(slash + 1);
  // A submodule's or worktree's pointer to its repository.
  if (name === '.git') return type === 'file';
  if (!GIT_TRUSTS.has(name)) return false;
  const folder = wrapped.slice(0, slash);
  if (folder.endsWith('/.git')) return true;
  const inner = /\/\.git\/(?:modules|worktrees)(\/.*)$/.exec(folder)?.[1];
  // A branch may be called `hooks`.
  return inner !== undefined && !inner.includes('/refs/');
}

/** What a spool holds of a call: its journal, and the folder of the large files beside that. */
export const inSpool = (key: string): { readonly file: string; readonly folder: string } => ({
  file: key,
  folder: `${key}.large`,
});

/** As one word of a command line that somebody may copy. */
export const asWord = (text: string): string =>
  /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
