/**
 * Checkpoints of the audit log, stored both in the database and in an append-only file beside it (only retention rewrites the file). A
 * truncated or restored database is detected because `verify` compares the two.
 */
import {
  appendFileSync,
  closeSync,
  createReadStream,
  existsSync,
  fstatSync,
  openSync,
  readSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { open } from 'node:fs/promises';
import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { openFile } from '../../base/disk.ts';
import { atomically } from '../database.ts';
import type { Checkpoint, SigningKey } from './chain.ts';

/**
 * Schema of the checkpoints. `checkpoints_end` proves which row is the last one, so that nobody without the key can delete rows unnoticed.
 */
export const CHECKPOINT_SCHEMA = `CREATE TABLE IF NOT EXISTS checkpoints (
  seq INTEGER PRIMARY KEY, hash TEXT NOT NULL, at TEXT NOT NULL, signature TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS checkpoints_end (
  id INTEGER PRIMARY KEY CHECK (id = 1), seq INTEGER NOT NULL, seal TEXT NOT NULL) STRICT;`;

/** Longest accepted line. Ours have about 230 characters; a longer one is not ours and would have to be held in memory. */
const LINE_CHARS_MAX = 1024;

const lineOf = ({ seq, hash, at, signature }: Checkpoint): string =>
  `${JSON.stringify({ seq, hash, at, signature })}\n`;

/** Parses a line of the file; undefined unless it is exactly what `Checkpoints.add` writes. */
export function parseCheckpoint(line: string): Checkpoint | undefined {
  try {
    const checkpoint = JSON.parse(line) as Checkpoint;
    return Number.isSafeInteger(checkpoint.seq) && lineOf(checkpoint) === `${line}\n` ? checkpoint : undefined;
  } catch {
    return undefined; // Not JSON, or null.
  }
}

interface TableEnd {
  readonly database: DatabaseSync;
  readonly key: SigningKey;
  /** Seq of the last checkpoint in the file. */
  readonly inFile: number;
  /** Seq of the last checkpoint in the table. */
  readonly inTable: number;
}

/** Describes how the table of checkpoints was tampered with since its last row was written; undefined if it is intact. */
export function problemOfTable({ database, key, inFile, inTable }: TableEnd): string | undefined {
  if (inFile < inTable) return 'its file of checkpoints was cut';
  const end = database.prepare('SELECT seq, seal FROM checkpoints_end').get() as
    | { seq: number; seal: string }
    | undefined;
  // Older versions wrote no proof; then both places must have the same end.
  const isProven = end ? key.sealTableEnd(inTable) === end.seal && end.seq === inTable : inFile === inTable;
  return isProven ? undefined : 'rows of its table of checkpoints were deleted';
}

export class Checkpoints {
  readonly path: string;
  /** Describes how the table was tampered with since its last row was written; undefined if it is intact. */
  readonly problem: string | undefined;
  readonly #database: DatabaseSync;
  readonly #key: SigningKey;
  readonly #insert: StatementSync;
  readonly #setEnd: StatementSync;
  #last: Checkpoint | undefined;
  #lastInTable: number;

  /** Removes a last line that a full disk left unfinished. Throws file system and SQLite errors. */
  constructor(database: DatabaseSync, path: string, key: SigningKey) {
    this.path = path;
    this.#database = database;
    this.#key = key;
    this.#insert = database.prepare(
      'INSERT OR REPLACE INTO checkpoints (seq, hash, at, signature) VALUES (?, ?, ?, ?)',
    );
    this.#setEnd = database.prepare('INSERT OR REPLACE INTO checkpoints_end (id, seq, seal) VALUES (1, ?, ?)');
    this.#last = readLast(path);
    const row = database.prepare('SELECT max(seq) AS last FROM checkpoints').get() as { last: number | null };
    this.#lastInTable = row.last ?? 0;
    this.problem = problemOfTable({ database, key, inFile: this.#last?.seq ?? 0, inTable: this.#lastInTable });
  }

  /** The last checkpoint in the file. */
  get last(): Checkpoint | undefined {
    return this.#last;
  }

  /** Seq of the last row written, or found when the log was opened; kept in memory, so changes on disk don't affect it. */
  get lastInTable(): number {
    return this.#lastInTable;
  }

  /** Size of the file in bytes. Throws if there is none. */
  get fileBytes(): number {
    return statSync(this.path).size;
  }

  /**
   * Stores a checkpoint in both places or in neither; only a kill at this moment leaves an extra line in the file. Throws file system and
   * SQLite errors.
   */
  add(checkpoint: Checkpoint): void {
    const before = statSync(this.path, { throwIfNoEntry: false })?.size ?? 0;
    try {
      atomically(this.#database, () => {
        this.#insertRow(checkpoint);
        appendFileSync(this.path, lineOf(checkpoint), { mode: 0o600 });
      });
    } catch (error) {
      if (existsSync(this.path)) truncateSync(this.path, before);
      throw error;
    }
    this.#last = checkpoint;
    this.#lastInTable = checkpoint.seq;
  }

  /** Copies the file's last line to the table if the daemon was killed between the two writes. Throws SQLite errors. */
  complete(): void {
    if (this.problem !== undefined || !this.#last || this.#last.seq === this.#lastInTable) return;
    this.#insertRow(this.#last);
    this.#lastInTable = this.#last.seq;
  }

  #insertRow({ seq, hash, at, signature }: Checkpoint): void {
    this.#insert.run(seq, hash, at, signature);
    this.#setEnd.run(seq, this.#key.sealTableEnd(seq));
  }

  /** Removes the file's lines before the checkpoint with `seq`. Lines may be appended at the same time. */
  async trimFile(seq: number): Promise<void> {
    let offset = 0;
    for await (const { line, start } of linesOf(this.path, this.fileBytes)) {
      if (parseCheckpoint(line)?.seq !== seq) continue;
      offset = start;
      break;
    }
    if (offset === 0) return;
    const copy = `${this.path}.new`;
    let copied = offset;
    writeFileSync(copy, '', { mode: 0o600 });
    await using from = await open(this.path, 'r');
    await using to = await open(copy, 'a');
    for (const block = Buffer.allocUnsafe(COPY_BYTES); ; ) {
      const { bytesRead } = await from.read(block, 0, block.length, copied);
      copied += bytesRead;
      await to.appendFile(block.subarray(0, bytesRead));
      // The last block and the rename happen in one turn of the event loop, since later appends would be missed.
      if (this.fileBytes - copied < COPY_BYTES) break;
    }
    await to.sync();
    if (!this.#database.isOpen) return rmSync(copy); // The next run of the daemon trims the file.
    copyRest(this.path, copy, copied);
    renameSync(copy, this.path);
  }
}

const COPY_BYTES = 64 * 1024;

function copyRest(from: string, to: string, offset: number): void {
  const source = openSync(from, 'r');
  const target = openSync(to, 'a');
  try {
    const rest = Buffer.alloc(fstatSync(source).size - offset);
    writeSync(target, rest, 0, readSync(source, rest, 0, rest.length, offset));
  } finally {
    closeSync(source);
    closeSync(target);
  }
}

/** The lines of the first `bytes` of the file; text after the last newline is no line. Throws for an overlong line. */
export async function* linesOf(path: string, bytes: number): AsyncGenerator<{ line: string; start: number }> {
  if (bytes === 0) return;
  let rest = '';
  let start = 0;
  for await (const chunk of createReadStream(path, { encoding: 'latin1', end: bytes - 1 })) {
    const lines = (rest + chunk).split('\n');
    rest = lines.pop() as string;
    if (rest.length > LINE_CHARS_MAX) throw new Error(`${path} has a line that is not a checkpoint`);
    for (const line of lines) {
      yield { line, start };
      start += line.length + 1;
    }
  }
}

function readLast(path: string): Checkpoint | undefined {
  const size = statSync(path, { throwIfNoEntry: false })?.size ?? 0;
  if (size === 0) return undefined;
  using opened = openFile(path, 'r+');
  const tail = Buffer.alloc(Math.min(size, 2 * LINE_CHARS_MAX));
  readSync(opened.fd, tail, 0, tail.length, size - tail.length);
  const text = tail.toString('latin1');
  const end = text.lastIndexOf('\n');
  const torn = text.length - 1 - end;
  if (torn > 0 && torn <= LINE_CHARS_MAX) truncateSync(path, size - torn);
  return parseCheckpoint(text.slice(text.lastIndexOf('\n', end - 1) + 1, Math.max(end, 0)));
}
