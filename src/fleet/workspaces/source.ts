/**
 * The workspace that a client wants for its session: a folder of a node, or one that the node makes. The texts are those
 * of `hello.workspace`, optionally behind `NODE:`.
 */
import { createHash } from 'node:crypto';
import { RpcError } from '../../base/errors.ts';

export type WorkspaceSource =
  /** A commit of a repository, as `git+URL#COMMIT`. */
  | { readonly kind: 'git'; readonly url: string; readonly commit: string }
  /** A git bundle, which the client uploads in the session, as `bundle:`. */
  | { readonly kind: 'bundle' }
  /** The workspace of an earlier session, as `kept/ID`. */
  | { readonly kind: 'kept'; readonly id: string };

/** The node that a client names, if it names one, and the text behind it. */
export function placeOf(workspace: unknown): { readonly node?: string; readonly path?: string } {
  if (typeof workspace !== 'string') return {};
  const [, node, path] = /^([a-z0-9-]+):(\/.*|git\+.*|bundle:|kept\/.*)$/s.exec(workspace) ?? [];
  return node === undefined || path === undefined ? { path: workspace } : { node, path };
}

/** Reads a workspace without its node; undefined for a folder. Throws RpcError INVALID_PARAMS. */
export function parseSource(text: string): WorkspaceSource | undefined {
  if (text === 'bundle:') return { kind: 'bundle' };
  const [, id] = /^kept\/(.*)$/s.exec(text) ?? [];
  if (id !== undefined) {
    if (!/^[0-9a-f]{32}$/.test(id)) throw new RpcError('INVALID_PARAMS', 'kept/ID must have the 32 digits of its id');
    return { kind: 'kept', id };
  }
  if (!text.startsWith('git+')) return undefined;
  const [, url = '', commit = ''] = /^git\+([^#]*)#([^#]*)$/s.exec(text) ?? [];
  if (!/^[0-9a-f]{40}$/.test(commit))
    throw new RpcError('INVALID_PARAMS', 'a repository is named as git+URL#COMMIT, with all 40 digits of the commit');
  assertPlainUrl(url);
  return { kind: 'git', url, commit };
}

const URL_CHARS_MAX = 1024;

/**
 * Refuses addresses that git, libcurl and we could read differently, or that hold a password. Throws RpcError
 * INVALID_PARAMS.
 */
function assertPlainUrl(url: string): void {
  const isPlain = /^(?:https?:\/\/[a-z0-9][a-z0-9.-]*(?::\d{1,5})?|file:\/\/)(?:\/[A-Za-z0-9._~+-]+)+$/.test(url);
  const isUp = url.split('/').some((it) => it === '.' || it === '..');
  if (isPlain && !isUp && url.length <= URL_CHARS_MAX) return;
  throw new RpcError(
    'INVALID_PARAMS',
    `${url.slice(0, 128)} must be https://HOST/PATH, http://HOST/PATH or file:///PATH with at most ${URL_CHARS_MAX} letters, digits and . _ ~ + -, and without a name or password`,
  );
}

/** Names a repository in the inventory of a node, which everybody on the bus may read. */
export const originHash = (url: string): string => createHash('sha256').update(url).digest('hex').slice(0, 32);
