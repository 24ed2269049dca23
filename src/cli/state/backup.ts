/**
 * `ringfence backup` and `ringfence restore`: the state directory as one file, and back. A daemon may run while its
 * state is copied; none may while it is replaced.
 */
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { findUserDirs, lockFile } from '../../daemon/user-dirs.ts';
import { systemPowers } from '../../powers.ts';
import { version } from '../../runtime.ts';
import { acquireLock } from '../../store/database.ts';
import { parseJson } from '../../text/json.ts';
import { isRecord } from '../../text/values.ts';
import type { CliCaller } from '../connect.ts';
import { CliError, EXIT, harmless, print, printJson } from '../output.ts';

/** Form of the backups that this version writes, and the newest that it reads. */
const FORMAT = 1;
/** A file in each backup: `{format, version, createdAt}`. */
const ABOUT = 'backup.json';
/** What a daemon makes anew, what is kept for an hour only, and what belongs to a daemon that runs. */
const LEFT_OUT =
  /^(homes|code|results|daemon\.log.*|daemon\.lock.*|endpoint\.json|.*\.sock(\.json)?|.*\.db-(wal|shm|journal))$/;

interface BackupFlags {
  readonly json?: boolean;
}

/** Writes the state directory to a new file that only its owner can read. Returns the exit code. */
export async function backup(file: string, { json }: BackupFlags, { flags, env, cwd }: CliCaller): Promise<number> {
  const { stateDir } = findUserDirs(flags, env);
  const path = resolve(cwd, file);
  if (existsSync(path)) throw new CliError(EXIT.USAGE, `${harmless(path)} exists; choose another name`);
  if (!existsSync(stateDir))
    throw new CliError(EXIT.USAGE, `there is no state directory ${harmless(stateDir)}; choose one with --state`);
  const folder = makeFolderIn(dirname(path), 'backup');
  try {
    const copy = join(folder, 'state');
    mkdirSync(copy, { mode: 0o700 });
    copyState(stateDir, copy);
    const about = { format: FORMAT, version, createdAt: new Date(systemPowers().now()).toISOString() };
    writeFileSync(join(copy, ABOUT), JSON.stringify(about), { mode: 0o600 });
    const packed = join(folder, 'packed');
    writeFileSync(packed, '', { mode: 0o600 });
    await tar(['--create', '--gzip', '--file', packed, '--directory', copy, '.']);
    renameSync(packed, path);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
  const { size: bytes } = statSync(path);
  if (json) printJson({ file: path, bytes, stateDir });
  else {
    print(`${harmless(path)}: ${bytes} bytes`);
    print('It holds tokens and the key of the record; keep it where no agent can read it.');
  }
  return EXIT.OK;
}

/** Replaces the state directory by a backup; the old one is kept beside it. Returns the exit code. */
export async function restore(file: string, { json }: BackupFlags, { flags, env, cwd }: CliCaller): Promise<number> {
  const { stateDir } = findUserDirs(flags, env);
  const path = resolve(cwd, file);
  if (!existsSync(path)) throw new CliError(EXIT.USAGE, `there is no file ${harmless(path)}`);
  mkdirSync(dirname(stateDir), { recursive: true, mode: 0o700 });
  const folder = makeFolderIn(dirname(stateDir), 'restore');
  try {
    await tar(['--extract', '--gzip', '--no-same-owner', '--file', path, '--directory', folder]);
    assertBackup(folder, path);
    const previousState = replaceState(stateDir, folder);
    if (json) printJson({ stateDir, kept: previousState ?? null });
    else {
      print(`${harmless(stateDir)} is as it was when ${harmless(path)} was written`);
      if (previousState !== undefined) print(`What was there before is in ${harmless(previousState)}.`);
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
  return EXIT.OK;
}

/**
 * Copies plain files before databases: what a file tells of a database, such as the checkpoints of the audit log, is
 * then never newer than the copy of the database.
 */
function copyState(from: string, to: string): void {
  const names = readdirSync(from).filter((it) => !LEFT_OUT.test(it));
  const isDatabase = (name: string) => name.endsWith('.db');
  for (const name of names.filter((it) => !isDatabase(it))) copyEntry(join(from, name), join(to, name));
  for (const name of names.filter(isDatabase)) {
    using database = new DatabaseSync(join(from, name), { timeout: 5000 });
    database.prepare('VACUUM INTO ?').run(join(to, name));
  }
}

/** A running daemon may remove files while they are copied. */
const COPIES_MAX = 5;

function copyEntry(from: string, to: string): void {
  for (let copies = 1; ; copies++) {
    try {
      return cpSync(from, to, { recursive: true, verbatimSymlinks: true, preserveTimestamps: true });
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT' || copies === COPIES_MAX) throw error;
      rmSync(to, { recursive: true, force: true });
    }
  }
}

/** Throws CliError unless a folder holds an unpacked backup that this version can read. */
function assertBackup(folder: string, path: string): void {
  const about = existsSync(join(folder, ABOUT)) ? parseJson(readFileSync(join(folder, ABOUT), 'utf8')) : undefined;
  if (!isRecord(about) || typeof about.format !== 'number')
    throw new CliError(EXIT.USAGE, `${harmless(path)} is no backup of Ringfence`);
  if (about.format <= FORMAT) return;
  const writer = harmless(String(about.version));
  throw new CliError(
    EXIT.USAGE,
    `${harmless(path)} has format ${about.format}, written by version ${writer}; this version reads up to ${FORMAT}: upgrade first`,
  );
}

/** Moves `fresh` to the state directory; returns where the old one is now. Throws CliError if a daemon uses it. */
function replaceState(stateDir: string, fresh: string): string | undefined {
  writeFileSync(lockFile(fresh), '', { mode: 0o600 });
  if (!existsSync(stateDir)) {
    renameSync(fresh, stateDir);
    return undefined;
  }
  using lock = acquireLock(lockFile(stateDir));
  if (!lock) throw new CliError(EXIT.USAGE, `a daemon uses ${harmless(stateDir)}; stop it first: ringfence stop`);
  const previousState = `${stateDir}.before-${systemPowers().now()}`;
  renameSync(stateDir, previousState);
  renameSync(fresh, stateDir);
  return previousState;
}

/** A new folder that only its owner can enter. Throws CliError if there can be none. */
function makeFolderIn(parent: string, purpose: string): string {
  try {
    return mkdtempSync(join(parent, `.ringfence-${purpose}-`));
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new CliError(EXIT.USAGE, `nothing can be written in ${harmless(parent)}: ${code}`);
  }
}

/** Runs tar. Throws CliError with what it says if it fails. */
async function tar(args: readonly string[]): Promise<void> {
  const { execa } = await import('execa');
  const { exitCode, stderr, originalMessage } = await execa('tar', args, { reject: false });
  if (exitCode === 0) return;
  throw new CliError(EXIT.FAILED, `tar failed: ${harmless(stderr || (originalMessage ?? ''))}`);
}
