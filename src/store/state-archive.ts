/** The state directory as one file: written by `ringfence backup` and before a migration. */

import {
  chmodSync,
  cpSync,
  existsSync,
  lchownSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { OperatorError } from '../base/errors.ts';
import type { Powers } from '../base/powers.ts';
import { parseCheckpoint } from './audit/checkpoints.ts';

/** Form of the archives that this version writes, and the newest that it reads. */
export const FORMAT = 1;
/** A file in each archive: `{format, version, createdAt}`. */
export const ABOUT = 'backup.json';
/** Archives and unfinished files of migrations, in the state directory. */
export const BACKUPS = 'backups';
export const MIGRATING = 'migrating';
/** What a daemon makes anew, what is kept for an hour only, what belongs to a daemon that runs, and secrets: an archive gets copied. */
const LEFT_OUT =
  /^(homes|code|results|web-cache|secrets|images|toolchains|toolchain-programs|backups|migrating|daemon\.log.*|daemon\.lock.*|endpoint\.json|.*\.sock(\.json)?|.*\.db-(wal|shm|journal))$/;

/** The program tar failed; the message is what tar says. */
export class ArchiveError extends OperatorError {}

interface PackOptions {
  /** The archive; only its owner can read it. A file of that name is replaced. */
  readonly file: string;
  /** An empty folder on the disk of `file`, which the caller removes. */
  readonly folder: string;
  /** The version of this program. */
  readonly version: string;
}

/** Writes a state directory to a file. A daemon may run meanwhile. Throws ArchiveError. */
export async function packState(
  stateDir: string,
  { file, folder, version }: PackOptions,
  { now }: Pick<Powers, 'now'>,
): Promise<void> {
  const copy = join(folder, 'state');
  mkdirSync(copy, { mode: 0o700 });
  copyState(stateDir, copy);
  const about = { format: FORMAT, version, createdAt: new Date(now()).toISOString() };
  writeFileSync(join(copy, ABOUT), JSON.stringify(about), { mode: 0o600 });
  const packed = join(folder, 'packed');
  writeFileSync(packed, '', { mode: 0o600 });
  await tar(['--create', '--gzip', '--numeric-owner', '--file', packed, '--directory', copy, '.']);
  renameSync(packed, file);
}

/**
 * Unpacks an archive into a folder. Root's undo data holds files of others, which keep their owners; the archive of
 * another user becomes root's as a whole. Throws ArchiveError.
 */
export async function unpackState(file: string, folder: string): Promise<void> {
  const owners = isRoot() && (await isOfRoot(file)) ? ['--same-owner', '--numeric-owner'] : ['--no-same-owner'];
  await tar(['--extract', '--gzip', ...owners, '--file', file, '--directory', folder]);
}

/** Whether root's state is in an archive, by the owner of its first entry, the folder. */
async function isOfRoot(file: string): Promise<boolean> {
  const options = ['--list', '--verbose', '--gzip', '--numeric-owner', '--occurrence=1'];
  try {
    return /^d\S+ 0\//.test(await tar([...options, '--file', file, './']));
  } catch (error) {
    // An archive without that entry is none of ours; extracting tells what is wrong with any other.
    if (error instanceof ArchiveError) return false;
    throw error;
  }
}

const isRoot = (): boolean => process.getuid?.() === 0;

/** Gives a copy, in a folder that only root can enter, the owners of its original. */
function copyOwners(from: string, to: string): void {
  const stat = lstatSync(from);
  lchownSync(to, stat.uid, stat.gid);
  // The kernel takes the set-user-id bit away when the owner changes.
  if (!stat.isSymbolicLink()) chmodSync(to, stat.mode & 0o7777);
  if (stat.isDirectory()) for (const it of readdirSync(to)) copyOwners(join(from, it), join(to, it));
}

/** Names in a state directory that an archive holds. */
export const archivedNames = (stateDir: string): string[] => readdirSync(stateDir).filter((it) => !LEFT_OUT.test(it));

const isDatabase = (name: string): boolean => name.endsWith('.db');

const CHECKPOINTS = 'audit.checkpoints';
const RECORD = 'audit.db';

function copyState(from: string, to: string): void {
  const names = archivedNames(from);
  const record = names.includes(RECORD) ? [RECORD, CHECKPOINTS] : [];
  for (const name of names.filter((it) => !record.includes(it))) copyEntry(join(from, name), join(to, name));
  if (record.length > 0) copyRecord(from, to);
}

/**
 * Copies the audit log and its file of checkpoints so that they agree. A daemon may sign between the two copies, so lines
 * that are newer than both the copied database and the file before it are left out of the copied file.
 */
function copyRecord(from: string, to: string): void {
  const linesOfFile = () => readLines(join(from, CHECKPOINTS));
  for (let copies = 1; ; copies++) {
    const before = linesOfFile();
    rmSync(join(to, RECORD), { force: true });
    copyEntry(join(from, RECORD), join(to, RECORD));
    const after = linesOfFile();
    // Old lines were dropped meanwhile, with entries that the copied database still has.
    if (after[0] !== before[0] && copies < COPIES_MAX) continue;
    const signed = Math.max(lastSigned(join(to, RECORD)), ...before.slice(-1).map(seqOf));
    const kept = after.filter((it) => seqOf(it) <= signed);
    if (after.length > 0) writeFileSync(join(to, CHECKPOINTS), kept.join(''), { mode: 0o600 });
    return;
  }
}

const readLines = (path: string): string[] => (existsSync(path) ? readFileSync(path, 'latin1').split(/(?<=\n)/) : []);

/** Entry that a line of the file of checkpoints signs. A line that is none of ours counts as old, so that it is copied. */
const seqOf = (line: string): number => parseCheckpoint(line.trimEnd())?.seq ?? 0;

function lastSigned(path: string): number {
  using database = new DatabaseSync(path, { readOnly: true });
  const hasAny = database.prepare("SELECT 1 FROM sqlite_schema WHERE name = 'checkpoints'").get() !== undefined;
  if (!hasAny) return 0;
  return (database.prepare('SELECT max(seq) AS last FROM checkpoints').get() as { last: number | null }).last ?? 0;
}

/** Copies a file, a folder or a database with what its write-ahead log holds. */
export function copyEntry(from: string, to: string): void {
  if (!isDatabase(from)) return copyFiles(from, to);
  using database = new DatabaseSync(from, { timeout: 5000 });
  database.prepare('VACUUM INTO ?').run(to);
}

/** A running daemon may remove files while they are copied. */
const COPIES_MAX = 5;

function copyFiles(from: string, to: string): void {
  for (let copies = 1; ; copies++) {
    try {
      cpSync(from, to, { recursive: true, verbatimSymlinks: true, preserveTimestamps: true });
      if (isRoot()) copyOwners(from, to);
      return;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT' || copies === COPIES_MAX) throw error;
      rmSync(to, { recursive: true, force: true });
    }
  }
}

/** Gives what the program prints. Throws ArchiveError. */
async function tar(args: readonly string[]): Promise<string> {
  const { execa } = await import('execa');
  const { exitCode, stdout, stderr, originalMessage } = await execa('tar', args, { reject: false });
  if (exitCode !== 0) throw new ArchiveError(`tar failed: ${stderr || (originalMessage ?? '')}`);
  return stdout;
}
