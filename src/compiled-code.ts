/**
 * What V8 has compiled of our code, kept from one start of the daemon to the next: a sixth of a start's CPU time. It runs as it
 * lies there, so that it is kept in the state directory, which no sandbox holds, and nowhere that others may write.
 */
import { existsSync, lstatSync, mkdirSync, readdirSync, readFileSync, realpathSync, rmSync } from 'node:fs';
import { enableCompileCache, flushCompileCache } from 'node:module';
import { join } from 'node:path';
import { isInside } from './paths.ts';
import { makeStateDir } from './places.ts';

const folderOf = (stateDir: string): string => join(stateDir, 'code');

/**
 * Has what is imported from now on be taken from there, unless somebody else could have put it there: it is ours, and in none
 * of the `workspaces`. A daemon whose state is in one does not start, but that is found out by code that is imported.
 */
export function useKeptCode(stateDir: string, workspaces: readonly string[]): void {
  const folder = folderOf(stateDir);
  try {
    makeStateDir(stateDir);
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    const real = realpathSync(folder);
    if (workspaces.some((it) => existsSync(it) && isInside(realpathSync(it), real))) return;
    const its = lstatSync(folder);
    if (its.isDirectory() && its.uid === process.getuid?.() && (its.mode & 0o022) === 0) enableCompileCache(folder);
  } catch {
    // EACCES, ENOTDIR: told by whoever needs the state directory next.
  }
}

/**
 * The workspaces of a daemon, as far as that is known before its code is there; undefined where its config file may name some,
 * since to read that takes code: such a daemon uses none that was kept.
 */
export function knownWorkspaces(
  { workspace = [] }: { readonly workspace?: readonly string[] | undefined },
  configFile: string,
): readonly string[] | undefined {
  if (workspace.length > 0) return workspace;
  try {
    // A name may also be written with escapes.
    const mayName = existsSync(configFile) && /workspaces|\\/.test(readFileSync(configFile, 'utf8'));
    return mayName ? undefined : [process.cwd()];
  } catch {
    return undefined; // EACCES, EISDIR: told by whoever reads it next.
  }
}

/** Keeps what was compiled so far. Other versions of our code, and of Node, leave theirs: too many files are all dropped. */
export function keepCode(stateDir: string, { codeFilesMax }: { readonly codeFilesMax: number }): void {
  flushCompileCache();
  const folder = folderOf(stateDir);
  try {
    if (readdirSync(folder, { recursive: true }).length > codeFilesMax) rmSync(folder, { recursive: true });
  } catch {
    // ENOENT: none is kept.
  }
}
