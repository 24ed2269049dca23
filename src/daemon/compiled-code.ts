/**
 * Keeps V8's compiled code of the daemon between starts, which saves a sixth of a start's CPU time. Node runs the
 * cached code as it is, so the cache is in the state directory, which no sandbox shows and nobody else may write.
 */
import { existsSync, lstatSync, mkdirSync, readdirSync, readFileSync, realpathSync, rmSync } from 'node:fs';
import { enableCompileCache, flushCompileCache } from 'node:module';
import { join } from 'node:path';
import { isInside } from '../paths.ts';
import { makeStateDir } from './user-dirs.ts';

const folderOf = (stateDir: string): string => join(stateDir, 'code');

/**
 * Uses the code cache for all later imports, unless somebody else could have written it: its folder must be ours and
 * in none of the `workspaces`. A daemon refuses to start with its state in a workspace, but the code that checks this
 * is itself imported.
 */
export function useKeptCode(stateDir: string, workspaces: readonly string[]): void {
  const folder = folderOf(stateDir);
  try {
    makeStateDir(stateDir);
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    const real = realpathSync(folder);
    if (workspaces.some((it) => existsSync(it) && isInside(realpathSync(it), real))) return;
    const stats = lstatSync(folder);
    if (stats.isDirectory() && stats.uid === process.getuid?.() && (stats.mode & 0o022) === 0)
      enableCompileCache(folder);
  } catch {
    // EACCES, ENOTDIR: reported by the next code that needs the state directory.
  }
}

/**
 * The workspaces of a daemon, as far as known before its code is loaded; undefined if its config file may name some,
 * since reading that takes code. Such a daemon uses no cached code.
 */
export function knownWorkspaces(
  { workspace = [] }: { readonly workspace?: readonly string[] | undefined },
  configFile: string,
): readonly string[] | undefined {
  if (workspace.length > 0) return workspace;
  try {
    // The key may be written with escapes.
    const mayName = existsSync(configFile) && /workspaces|\\/.test(readFileSync(configFile, 'utf8'));
    return mayName ? undefined : [process.cwd()];
  } catch {
    return undefined; // EACCES, EISDIR: reported by the next code that reads it.
  }
}

/**
 * Writes the code compiled so far to the cache. Other versions of our code and of Node leave files, too; above
 * `codeFilesMax` all are deleted.
 */
export function keepCode(stateDir: string, { codeFilesMax }: { readonly codeFilesMax: number }): void {
  flushCompileCache();
  const folder = folderOf(stateDir);
  try {
    if (readdirSync(folder, { recursive: true }).length > codeFilesMax) rmSync(folder, { recursive: true });
  } catch {
    // ENOENT: nothing is cached.
  }
}
