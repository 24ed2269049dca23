/** What a command line stands on: files, directories and lists that a yes is bound to. Looks with stat and readdir; opens nothing. */
import { readdir, realpath, stat } from 'node:fs/promises';
import { dirname, isAbsolute, join, resolve } from 'node:path';
import { matchGlob, parseGlob } from '../glob.ts';

/** How something was found; change times can't be set by those whom this is to catch. */
export interface FileState {
  /** As the command names it. */
  readonly path: string;
  /** Null: nothing there. */
  readonly hash: string | null;
}

export interface FileStates {
  readonly states: readonly FileState[];
  /** False where more was named than was looked at. */
  readonly complete: boolean;
}

export interface Named {
  /** Relative to the workspace, or absolute. */
  readonly paths: readonly string[];
  /** What the shell will unfold to paths. */
  readonly globs?: readonly string[];
  /** Names that the command's programs look for in a directory, relative to it. */
  readonly conventional?: readonly string[];
}

/**
 * The regular files and directories that are named, those that the globs find, the directory of each, and in each directory
 * that is named the files of conventional names, as they are now: a file by all that `stat` says, a directory by what it
 * really is, not by what lies in it. At most `max` names and entries.
 */
export async function fileStates(
  workspace: string,
  { paths, globs = [], conventional = [] }: Named,
  max: number,
): Promise<FileStates> {
  const room = { left: max };
  const lists: FileState[] = [];
  const found = new Set(paths);
  for (const glob of globs) {
    const unfolded = await unfold(workspace, glob, room);
    lists.push({ path: glob, hash: `list:${JSON.stringify(unfolded.toSorted())}` });
    for (const it of unfolded) found.add(it);
  }
  if (conventional.length > 0)
    for (const folder of await directoriesAmong(workspace, [...found].slice(0, max))) {
      if (found.size > max) break; // Thousands of directories would be hundreds of thousands of names.
      for (const name of conventional) found.add(join(folder, name));
    }
  const bound = [...found].slice(0, max);
  const parents = new Set(bound.map((it) => dirname(resolve(workspace, it))));
  const [files, directories] = await Promise.all([
    Promise.all(bound.map((path) => stateOf(workspace, path))),
    Promise.all([...parents].map(async (path) => directoryState(path, path))),
  ]);
  const states = [...files, ...directories, ...lists].filter((it) => it !== undefined);
  return { states, complete: room.left > 0 && bound.length === found.size };
}

async function directoriesAmong(workspace: string, paths: readonly string[]): Promise<string[]> {
  const isDirectory = async (path: string) => {
    try {
      return (await stat(resolve(workspace, path))).isDirectory();
    } catch {
      return false; // ENOENT and its like: most words are no files.
    }
  };
  const found = await Promise.all(paths.map(isDirectory));
  return paths.filter((_, at) => found[at]);
}

async function stateOf(workspace: string, path: string): Promise<FileState | undefined> {
  try {
    const at = resolve(workspace, path);
    const now = await stat(at, { bigint: true });
    if (now.isDirectory()) return await directoryState(at, path);
    if (!now.isFile()) return undefined;
    const { dev, ino, size, mtimeNs, ctimeNs } = now;
    return { path, hash: `stat:${[dev, ino, size, mtimeNs, ctimeNs].join(':')}` };
  } catch {
    return { path, hash: null }; // ENOENT and its like: a word that is no file, or none yet.
  }
}

/** Its times are left out: they change with every file that is made in it. */
async function directoryState(at: string, path: string): Promise<FileState> {
  try {
    const real = await realpath(at);
    const { dev, ino } = await stat(real, { bigint: true });
    return { path: `${path}/`, hash: `directory:${real}:${dev}:${ino}` };
  } catch {
    return { path: `${path}/`, hash: null }; // ENOENT: it may be made by the command itself.
  }
}

/** What a glob finds on this disk, in the form that it has itself; too much rather than too little. */
async function unfold(workspace: string, glob: string, room: { left: number }): Promise<string[]> {
  const segments = glob.split('/').filter((it) => it !== '');
  let found = [isAbsolute(glob) ? '/' : ''];
  for (const segment of segments) {
    const plain = !/[*?[\\]/.test(segment);
    const next: string[] = [];
    for (const folder of found) {
      if (plain) next.push(`${folder}${segment}/`);
      else next.push(...(await matching(resolve(workspace, folder), segment, room)).map((it) => `${folder}${it}/`));
    }
    found = next;
  }
  return found.map((it) => it.slice(0, -1));
}

async function matching(folder: string, segment: string, room: { left: number }): Promise<string[]> {
  if (room.left <= 0) return [];
  try {
    const names = (await readdir(folder)).slice(0, room.left);
    room.left -= names.length;
    const pattern = parseGlob(segment);
    return names.filter((it) => matchGlob(pattern, it, it));
  } catch {
    return []; // No directory, or not ours to list: the shell finds nothing there either.
  }
}
