/**
 * The files, directories and lists of names that an approval of a command line is bound to. Uses only stat and
 * readdir; opens no file.
 */
import { readdir, realpath, stat } from 'node:fs/promises';
import { dirname, isAbsolute, join, resolve } from 'node:path';
import { matchGlob, parseGlob } from '../../base/text/glob.ts';

/** The state of one path. The hash includes the change time, which a command can't set. */
export interface FileState {
  /** The path as the command names it. */
  readonly path: string;
  /** Null if nothing is there. */
  readonly hash: string | null;
}

export interface FileStates {
  readonly states: readonly FileState[];
  /** False if the command names more than `max` paths, so that some were not looked at. */
  readonly complete: boolean;
}

export interface NamedFiles {
  /** Relative to the workspace, or absolute. */
  readonly paths: readonly string[];
  /** Globs that the shell will expand to paths. */
  readonly globs?: readonly string[];
  /** Names that the command's programs look for in a directory, relative to that directory. */
  readonly conventional?: readonly string[];
}

/**
 * The present state of the named files and directories, the paths that the globs match, the parent directory of each,
 * and the files with conventional names in each named directory. A file's state is all that `stat` says; a
 * directory's is its real path and identity, not its content. Looks at no more than `max` names and entries.
 */
export async function fileStates(
  workspace: string,
  { paths, globs = [], conventional = [] }: NamedFiles,
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
      if (found.size > max) break; // Thousands of directories would make hundreds of thousands of names.
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
      return false; // ENOENT and similar: most words are not files.
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
    return { path, hash: null }; // ENOENT and similar: the word is not a file, or not yet.
  }
}

/** The state of a directory. Leaves out its times, which change with every file that is made in the directory. */
async function directoryState(at: string, path: string): Promise<FileState> {
  try {
    const real = await realpath(at);
    const { dev, ino } = await stat(real, { bigint: true });
    return { path: `${path}/`, hash: `directory:${real}:${dev}:${ino}` };
  } catch {
    return { path: `${path}/`, hash: null }; // ENOENT: the command may make this directory itself.
  }
}

/** The paths that a glob matches, in the form in which the glob is written; rather too many than too few. */
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
    return []; // Not a directory, or not readable by us: the shell finds nothing there either.
  }
}
