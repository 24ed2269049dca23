import { stat } from 'node:fs/promises';
import { resolve } from 'node:path';

/** What `stat` says of a file: its change time can't be set by those whom this is to catch. */
export interface FileState {
  readonly path: string;
  /** Null: no such file. */
  readonly hash: string | null;
}

/** Files of one command that are looked at; a person who is shown more than this does not read it. */
const FILES_MAX = 64;

/** The regular files among `paths` (relative to the workspace, or absolute), as they are now; nothing is opened or read. */
export async function fileStates(workspace: string, paths: readonly string[]): Promise<FileState[]> {
  const unique = [...new Set(paths)].slice(0, FILES_MAX);
  const states = await Promise.all(unique.map((path) => stateOf(workspace, path)));
  return states.filter((it) => it !== undefined);
}

async function stateOf(workspace: string, path: string): Promise<FileState | undefined> {
  try {
    const now = await stat(resolve(workspace, path), { bigint: true });
    if (!now.isFile()) return undefined;
    const { dev, ino, size, mtimeNs, ctimeNs } = now;
    return { path, hash: `stat:${[dev, ino, size, mtimeNs, ctimeNs].join(':')}` };
  } catch {
    return { path, hash: null }; // ENOENT and its like: a word that is no file, or none yet.
  }
}
