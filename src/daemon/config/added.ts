/** The folders that `ringfence workspace add` has added to those of the config. */
import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import * as z from 'zod';
import type { UserDirs } from '../user-dirs.ts';
import { ConfigError } from './config-error.ts';

/** The same number as the config may name. */
const ADDED_MAX = 64;
const added = z.array(z.string().max(4096)).max(ADDED_MAX);

/** The file of added workspaces; no sandbox shows it, like all of the state directory. */
export const addedFile = ({ stateDir }: Pick<UserDirs, 'stateDir'>): string => join(stateDir, 'workspaces.json');

/** Reads the added folders, as they were when they were added. Throws ConfigError for an invalid file. */
export function readAdded(dirs: Pick<UserDirs, 'stateDir'>): string[] {
  const file = addedFile(dirs);
  if (!existsSync(file)) return [];
  const refuse = (why: string) => new ConfigError(`${file} is not a list of at most ${ADDED_MAX} folders: ${why}`);
  let raw: unknown;
  try {
    raw = JSON.parse(readFileSync(file, 'utf8'));
  } catch (error) {
    throw refuse((error as Error).message); // SyntaxError, EACCES.
  }
  const parsed = added.safeParse(raw);
  if (parsed.success) return parsed.data;
  throw refuse(z.prettifyError(parsed.error));
}

/** Writes the added folders in one step. Throws ConfigError for too many. */
export function writeAdded(dirs: Pick<UserDirs, 'stateDir'>, folders: readonly string[]): void {
  if (folders.length > ADDED_MAX)
    throw new ConfigError(
      `${ADDED_MAX} workspaces are already added, which is the maximum; remove one with \`ringfence workspace remove DIR\``,
    );
  const fresh = `${addedFile(dirs)}.${process.pid}`;
  writeFileSync(fresh, `${JSON.stringify(folders, null, 2)}\n`, { mode: 0o600 });
  renameSync(fresh, addedFile(dirs));
}

/** The workspace of a daemon for which none is named: where it starts; for a service, which starts in `/`, the first added one. */
export const startFolder = (cwd: string, dirs: Pick<UserDirs, 'stateDir'>): string =>
  (cwd === '/' ? readAdded(dirs).find((it) => existsSync(it)) : undefined) ?? cwd;
