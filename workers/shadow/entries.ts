/** What the shadow knows of each name in a workspace. */
import type { Copy } from './copies.ts';
import type { HeldFile } from './held-files.ts';

/** Why there is no pre-image. docs/how-to/undo.md says each to people. */
export type Why =
  | 'ignored'
  | 'too-large'
  | 'too-many'
  | 'no-room'
  | 'policy'
  | 'protected'
  | 'special'
  | 'unreadable'
  | 'name'
  | 'git-objects'
  | 'late';

/** The content of a file: a blob of git, a copy, or nothing but a descriptor. */
export type Kept =
  | { readonly oid: string }
  | { readonly copy: Copy; readonly hash: string }
  | { readonly why: Why; readonly held?: HeldFile };

export interface FileEntry {
  readonly type: 'file';
  /** Permissions, with the bits for other users' rights. */
  readonly mode: number;
  readonly bytes: number;
  readonly kept: Kept;
  /** SHA-256 of the content, if it was read and not kept. */
  readonly hash?: string;
  /** Facts that change with the content, for a file that was not read. */
  readonly stamp: string;
}

export type Entry =
  | FileEntry
  | { readonly type: 'directory'; readonly mode: number }
  | { readonly type: 'symlink'; readonly target: string }
  /** A pack, or another file of the object store of a repository that is no loose object. */
  | { readonly type: 'object' }
  /** Something that is not kept, with everything below it. */
  | { readonly type: 'unknown'; readonly why: Why; readonly isTree: boolean };

/** What stood at a path before a command, and after it. */
export interface PathChange {
  readonly path: string;
  readonly pre: Entry | undefined;
  readonly post: Entry | undefined;
}

export const OBJECT: Entry = { type: 'object' };

/** Whether nothing is different; an unknown entry with an event is different. */
export function isSame(a: Entry | undefined, b: Entry | undefined): boolean {
  if (!a || !b) return a === b;
  switch (a.type) {
    case 'file':
      return b.type === 'file' && a.mode === b.mode && isSameContent(a, b);
    case 'directory':
      return b.type === 'directory' && a.mode === b.mode;
    case 'symlink':
      return b.type === 'symlink' && a.target === b.target;
    case 'object':
      return b.type === 'object';
    default:
      return false;
  }
}

function isSameContent(a: FileEntry, b: FileEntry): boolean {
  if (a.bytes !== b.bytes) return false;
  if ('oid' in a.kept && 'oid' in b.kept) return a.kept.oid === b.kept.oid;
  const [before, after] = [hashOf(a), hashOf(b)];
  if (before !== undefined && after !== undefined) return before === after;
  return a.stamp === b.stamp;
}

const hashOf = ({ kept, hash }: FileEntry): string | undefined => ('hash' in kept ? kept.hash : hash);

/** Why a journal can't hold an entry, whatever its content. */
export function whyNot(entry: Entry | undefined): Why | undefined {
  if (!entry || entry.type === 'symlink' || entry.type === 'object') return undefined;
  if (entry.type === 'unknown') return entry.why;
  // The bits for a foreign owner's rights are neither kept nor set.
  return entry.mode & 0o7000 ? 'special' : undefined;
}

/** The open file of an entry that has no copy. */
export const heldOf = (entry: Entry | undefined): HeldFile | undefined =>
  entry?.type === 'file' && 'why' in entry.kept ? entry.kept.held : undefined;

export const parentOf = (path: string): string => path.slice(0, Math.max(0, path.lastIndexOf('/')));
export const nameOf = (path: string): string => path.slice(path.lastIndexOf('/') + 1);
export const joined = (folder: string, name: string): string => (folder === '' ? name : `${folder}/${name}`);

/** The `.git` directory that holds a path; undefined for a path outside of one. */
export function gitDirOf(path: string): string | undefined {
  const at = `/${path}/`.indexOf('/.git/');
  return at < 0 ? undefined : path.slice(0, at + '.git'.length);
}

/** The path in a `.git` directory of its objects, refs and so on; '' for the directory itself. */
export const insideGit = (path: string, gitDir: string): string => path.slice(gitDir.length + 1);

export const isObjectPath = (path: string, gitDir: string): boolean => insideGit(path, gitDir).startsWith('objects/');
