/**
 * `ringfence backup` and `ringfence restore`: the state directory as one file, and back. A daemon may run while its
 * state is copied; none may while it is replaced.
 */
import {
  existsSync,
  mkdirSync,
  mkdtempDisposableSync,
  readFileSync,
  renameSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { systemPowers } from '../../base/powers.ts';
import { version } from '../../base/runtime.ts';
import { parseJson } from '../../base/text/json.ts';
import { isRecord } from '../../base/text/values.ts';
import { findUserDirs, lockFile } from '../../daemon/user-dirs.ts';
import { secretsFolder } from '../../services/secrets/secret-files.ts';
import { acquireLock } from '../../store/database.ts';
import { ABOUT, FORMAT, packState, unpackState } from '../../store/state-archive.ts';
import { SchemaError, schemaVersion } from '../../store/state-schema.ts';
import type { CliCaller } from '../connect.ts';
import { EXIT, harmless, type JsonFlag, print, printJson, UsageError } from '../output.ts';

/** Writes the state directory to a new file that only its owner can read. Returns the exit code. */
export async function backup(file: string, { json }: JsonFlag, { flags, env, cwd }: CliCaller): Promise<number> {
  const { stateDir } = findUserDirs(flags, env);
  const path = resolve(cwd, file);
  if (existsSync(path)) throw new UsageError(`${harmless(path)} exists; choose another name`);
  if (!existsSync(stateDir))
    throw new UsageError(`there is no state directory ${harmless(stateDir)}; choose one with --state`);
  using folder = makeFolderIn(dirname(path), 'backup');
  await packState(stateDir, { file: path, folder: folder.path, version }, systemPowers());
  const { size: bytes } = statSync(path);
  if (json) printJson({ file: path, bytes, stateDir });
  else {
    print(`${harmless(path)}: ${bytes} bytes`);
    print('It holds tokens and the key of the record; keep it where no agent can read it. Secrets are left out.');
  }
  return EXIT.OK;
}

/** Replaces the state directory by a backup; the old one is kept beside it. Returns the exit code. */
export async function restore(file: string, { json }: JsonFlag, { flags, env, cwd }: CliCaller): Promise<number> {
  const { stateDir } = findUserDirs(flags, env);
  const path = resolve(cwd, file);
  if (!existsSync(path)) throw new UsageError(`there is no file ${harmless(path)}`);
  mkdirSync(dirname(stateDir), { recursive: true, mode: 0o700 });
  using folder = makeFolderIn(dirname(stateDir), 'restore');
  await unpackState(path, folder.path);
  assertBackup(folder.path, path);
  const previousState = replaceState(stateDir, folder.path);
  if (json) printJson({ stateDir, kept: previousState ?? null });
  else {
    print(`${harmless(stateDir)} is as it was when ${harmless(path)} was written`);
    if (previousState !== undefined) print(`What was there before is in ${harmless(previousState)}.`);
  }
  return EXIT.OK;
}

/** Throws UsageError unless a folder holds an unpacked backup that this version can read. */
function assertBackup(folder: string, path: string): void {
  const about = existsSync(join(folder, ABOUT)) ? parseJson(readFileSync(join(folder, ABOUT), 'utf8')) : undefined;
  if (!isRecord(about) || typeof about.format !== 'number')
    throw new UsageError(`${harmless(path)} is no backup of Ringfence`);
  const writer = harmless(String(about.version));
  if (about.format > FORMAT)
    throw new UsageError(
      `${harmless(path)} has format ${about.format}, written by version ${writer}; this version reads up to ${FORMAT}: upgrade first`,
    );
  try {
    schemaVersion(folder);
  } catch (error) {
    if (!(error instanceof SchemaError)) throw error;
    throw new UsageError(`${harmless(path)} can't be used here: ${harmless(error.reason)}`);
  }
}

/** Moves `fresh` to the state directory; returns where the old one is now. Throws UsageError if a daemon uses it. */
function replaceState(stateDir: string, fresh: string): string | undefined {
  writeFileSync(lockFile(fresh), '', { mode: 0o600 });
  if (!existsSync(stateDir)) {
    renameSync(fresh, stateDir);
    return undefined;
  }
  using lock = acquireLock(lockFile(stateDir));
  if (!lock) throw new UsageError(`a daemon uses ${harmless(stateDir)}; stop it first: ringfence stop`);
  const previousState = `${stateDir}.before-${systemPowers().now()}`;
  renameSync(stateDir, previousState);
  renameSync(fresh, stateDir);
  // Backups hold no secrets, so those of the old state stay in use.
  const secrets = secretsFolder(previousState);
  if (existsSync(secrets)) renameSync(secrets, secretsFolder(stateDir));
  return previousState;
}

/** A new folder that only its owner can enter. Throws UsageError if there can be none. */
function makeFolderIn(parent: string, purpose: string) {
  try {
    return mkdtempDisposableSync(join(parent, `.ringfence-${purpose}-`));
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new UsageError(`nothing can be written in ${harmless(parent)}: ${code}`);
  }
}
