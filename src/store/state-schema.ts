/**
 * The schema version of a state directory: a newer one is refused, and an older one is brought up to date. Migrations
 * change copies of files. The files of the state are replaced only when all migrations have succeeded, so that a
 * migration that fails or is killed leaves the state as it was.
 */

import { existsSync, fsyncSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import * as z from 'zod';
import { openFile, replaceFile } from '../base/disk.ts';
import { UsageError } from '../base/errors.ts';
import type { Limits } from '../base/limits.ts';
import type { Powers } from '../base/powers.ts';
import { parseJson } from '../base/text/json.ts';
import { archivedNames, BACKUPS, copyEntry, MIGRATING, packState } from './state-archive.ts';
import { MIGRATIONS, type Migration } from './state-migrations.ts';

/** A state that this version can't use, in words for the person who started the daemon. */
export class SchemaError extends UsageError {
  /** The message without its advice, for a state that is still in a backup. */
  readonly reason: string;

  constructor(reason: string, { advice = '', cause }: { advice?: string; cause?: unknown } = {}) {
    super(`${reason}${advice}`, { cause });
    this.reason = reason;
  }
}

/** Version of a state with data from before there was a schema file. */
const FIRST = 1;
const FILE = 'schema.json';
const FILE_BYTES_MAX = 16 * 1024;

const schemaText = z.object({
  version: z.int().min(FIRST),
  /** The version of Ringfence that brought the state to this schema version. */
  writtenBy: z.string().max(128),
  /** Present while migrated files are moved to their places. */
  moves: z.unknown().optional(),
});
const fileNames = z.array(z.string().regex(/^\w[\w.-]*$/)).max(64);

interface Schema {
  readonly version: number;
  readonly writtenBy: string;
  /** Files that migrations may have changed or made. */
  readonly moves?: readonly string[];
}

export interface StateOptions {
  /** The state directory, which this process has locked and not opened. */
  readonly stateDir: string;
  /** The version of this program. */
  readonly version: string;
  readonly limits: Pick<Limits, 'schemaBackupsMax'>;
  readonly powers: Pick<Powers, 'now' | 'log'>;
  readonly migrations?: readonly Migration[];
}

/** The schema version of a state directory; undefined if it has no schema file. Throws SchemaError unless this program knows it. */
export const schemaVersion = (stateDir: string): number | undefined =>
  readSchema(stateDir, FIRST + MIGRATIONS.length)?.version;

/** Refuses a state that a newer version of Ringfence has written, for uses without a daemon. Throws SchemaError. */
export const assertKnownState = (stateDir: string): void => void schemaVersion(stateDir);

/** Brings a state directory to the newest schema version, after a backup. Throws SchemaError if that is not possible. */
export async function openState(options: StateOptions): Promise<void> {
  const { stateDir, version, migrations = MIGRATIONS } = options;
  const newest = FIRST + migrations.length;
  const found = readSchema(stateDir, newest);
  if (found?.moves) finishMoves(stateDir, found);
  // Left by a migration that was killed before it had changed the state.
  rmSync(join(stateDir, MIGRATING), { recursive: true, force: true });
  const from = found?.version ?? (archivedNames(stateDir).length > 0 ? FIRST : newest);
  if (from < newest) await migrate(from, { ...options, migrations });
  else if (!found) writeSchema(stateDir, { version: newest, writtenBy: version });
}

async function migrate(from: number, options: Required<StateOptions>): Promise<void> {
  const { stateDir, version, migrations, powers } = options;
  const to = FIRST + migrations.length;
  const pending = migrations.slice(from - FIRST);
  const folder = join(stateDir, MIGRATING);
  const moves = [...new Set(pending.flatMap((it) => it.files))];
  const schema: Schema = { version: to, writtenBy: version, moves };
  let backup: string | undefined;
  try {
    backup = await backUp(from, options);
    mkdirSync(folder, { mode: 0o700 });
    for (const it of moves) if (existsSync(join(stateDir, it))) copyEntry(join(stateDir, it), join(folder, it));
    for (const it of pending) await it.run(folder);
    assertOnly(folder, moves);
    for (const it of readdirSync(folder)) sync(join(folder, it));
    sync(folder);
    // From here on the new version counts; a daemon that is killed now goes on with `finishMoves` when it starts again.
    writeSchema(stateDir, schema);
  } catch (error) {
    rmSync(folder, { recursive: true, force: true });
    const saved = backup === undefined ? '' : `, and ${backup} is a backup of it`;
    throw new SchemaError(
      `the state ${stateDir} could not be brought from schema version ${from} to ${to}: ${(error as Error).message}. It is as it was${saved}`,
      { cause: error },
    );
  }
  finishMoves(stateDir, schema);
  powers.log.info({ from, to, backup }, 'the state has been brought to a newer schema version');
}

/** Writes a backup of the state as it is before the migrations, and drops those of the oldest versions. */
async function backUp(from: number, { stateDir, version, limits, powers }: StateOptions): Promise<string> {
  const backups = join(stateDir, BACKUPS);
  const folder = join(stateDir, MIGRATING);
  mkdirSync(backups, { recursive: true, mode: 0o700 });
  mkdirSync(folder, { mode: 0o700 });
  const file = join(backups, `schema-${from}.tgz`);
  await packState(stateDir, { file, folder, version }, powers);
  rmSync(folder, { recursive: true });
  const numberOf = (name: string) => Number(/^schema-(\d+)\.tgz$/.exec(name)?.[1]);
  const kept = readdirSync(backups).filter((it) => numberOf(it) < from);
  const oldestLast = kept.sort((a, b) => numberOf(b) - numberOf(a));
  for (const it of oldestLast.slice(limits.schemaBackupsMax - 1)) rmSync(join(backups, it), { force: true });
  return file;
}

/** Throws if a migration left another file, such as the write-ahead log of a database that is still open. */
function assertOnly(folder: string, files: readonly string[]): void {
  const other = readdirSync(folder).find((it) => !files.includes(it));
  if (other !== undefined) throw new Error(`a migration left ${other}, which is none of its files`);
}

/** Moves migrated files to their places; can be repeated after it was cut off. Throws SchemaError if the files are gone. */
function finishMoves(stateDir: string, { version, writtenBy, moves = [] }: Schema): void {
  sync(stateDir);
  const folder = join(stateDir, MIGRATING);
  if (!existsSync(folder))
    throw new SchemaError(
      `the state ${stateDir} is between two schema versions, and the files of the newer one are gone; restore a backup with \`ringfence restore FILE\``,
    );
  for (const it of readdirSync(folder).filter((name) => moves.includes(name))) {
    // SQLite would write the log of the old database into the new one.
    for (const end of ['-wal', '-shm', '-journal']) rmSync(join(stateDir, `${it}${end}`), { force: true });
    renameSync(join(folder, it), join(stateDir, it));
  }
  sync(stateDir);
  writeSchema(stateDir, { version, writtenBy });
  rmSync(folder, { recursive: true, force: true });
}

/** Throws SchemaError if the file is not valid, or the version is newer than `newest`. */
function readSchema(stateDir: string, newest: number): Schema | undefined {
  const path = join(stateDir, FILE);
  try {
    const stat = statSync(path, { throwIfNoEntry: false });
    if (!stat) return undefined;
    if (stat.size > FILE_BYTES_MAX) throw new Error(`it has ${stat.size} bytes of at most ${FILE_BYTES_MAX}`);
    const { version, writtenBy, moves } = schemaText.parse(parseJson(readFileSync(path, 'utf8')));
    if (version > newest) throw newerThan(newest, stateDir, { version, writtenBy });
    return { version, writtenBy, ...(moves !== undefined && { moves: fileNames.parse(moves) }) };
  } catch (error) {
    if (error instanceof SchemaError) throw error;
    const why = error instanceof z.ZodError ? z.prettifyError(error) : (error as Error).message;
    throw new SchemaError(`${FILE}, which has the schema version of the state, can't be read: ${why}`, {
      advice: `. Nothing was changed in ${stateDir}. Take the file from a backup, or restore one with \`ringfence restore FILE\``,
    });
  }
}

const newerThan = (newest: number, stateDir: string, { version, writtenBy }: Schema): SchemaError =>
  new SchemaError(
    `the state has schema version ${version}, and this version of Ringfence knows up to ${newest}: install Ringfence ${writtenBy} or later`,
    {
      advice: `, or restore a backup from before that upgrade with \`ringfence restore FILE\` (${join(stateDir, BACKUPS)} has those made by upgrades). Nothing was changed in ${stateDir}`,
    },
  );

function writeSchema(stateDir: string, schema: Schema): void {
  replaceFile(join(stateDir, FILE), `${JSON.stringify(schema)}\n`);
}

/** Waits until a file or the names in a folder are on the disk. */
function sync(path: string): void {
  using opened = openFile(path, 'r');
  fsyncSync(opened.fd);
}
