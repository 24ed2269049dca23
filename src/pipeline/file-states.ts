/** What a command line stands on: files, directories and lists that a yes is bound to. Looks with stat and readdir; opens nothing. */
import { readdir, realpath, stat } from 'node:fs/promises';
import { dirname, isAbsolute, resolve } from 'node:path';
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
}

/**
 * The regular files and directories that are named, those that the globs find, and the directory of each, as they are now: a
 * file by all that `stat` says, a directory by what it really is, not by what lies in it. At most `max` names and entries.
 */
export async function fileStates(workspace: string, { paths, globs = [] }: Named, max: number): Promise<FileStates> {
  const room = { left: max };
  const lists: FileState[] = [];
  const found = new Set(paths);
  for (const glob of globs) {
    const unfolded = await unfold(workspace, glob, room);
    lists.push({ path: glob, hash: `list:${JSON.stringify(unfolded.toSorted())}` });
    for (const it of unfolded) found.add(it);
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

/** Programs that run what files of fixed names say, and those names; the files need not stand in the command line. */
const RUNNERS = new Set(
  (
    'npm pnpm yarn bun npx make gmake ninja cmake cargo go pytest tox nox gradle gradlew mvn mvnw ant just task rake bundle ' +
    'tsc jest vitest mocha eslint webpack vite rollup poetry uv pip hatch deno ruff mypy composer'
  ).split(' '),
);
const IMPLICIT = (
  'package.json .npmrc .yarnrc .yarnrc.yml pnpm-workspace.yaml Makefile makefile GNUmakefile build.ninja CMakeLists.txt ' +
  'pyproject.toml setup.py setup.cfg conftest.py pytest.ini tox.ini noxfile.py Cargo.toml build.rs .cargo/config.toml go.mod ' +
  'build.gradle build.gradle.kts settings.gradle settings.gradle.kts gradle.properties pom.xml build.xml justfile Justfile ' +
  'Taskfile.yml Rakefile Gemfile tsconfig.json vite.config.ts vite.config.js vitest.config.ts jest.config.js deno.json composer.json'
).split(' ');

/** Files that such programs would take their orders from, in `cwd` and at the root of the workspace. */
export function implicitFiles(programs: Iterable<string>, cwd: string): string[] {
  for (const it of programs) if (RUNNERS.has(it)) return IMPLICIT.flatMap((name) => [name, `${cwd}/${name}`]);
  return [];
}
