/**
 * Where checkpoints are kept: in the database, and in a file beside it that is only ever appended to (retention alone rewrites
 * it), so that a database that was cut, or put back to an older state, is found out. Both have the same ones: `verify` compares.
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
import type { Checkpoint, SigningKey } from './audit-chain.ts';

/** `checkpoints_end` proves which row of `checkpoints` is the last one, so that nobody without the key can delete it unnoticed. */
export const CHECKPOINT_SCHEMA = `CREATE TABLE IF NOT EXISTS checkpoints (
  seq INTEGER PRIMARY KEY, hash TEXT NOT NULL, at TEXT NOT NULL, signature TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS checkpoints_end (
  id INTEGER PRIMARY KEY CHECK (id = 1), seq INTEGER NOT NULL, seal TEXT NOT NULL) STRICT;`;

/** Ours have about 230; a longer one is not ours, and would have to be held whole. */
const LINE_CHARS_MAX = 1024;

const lineOf = ({ seq, hash, at, signature }: Checkpoint): string =>
  `${JSON.stringify({ seq, hash, at, signature })}\n`;

/** A line of the file; undefined when it is not exactly what `Checkpoints.add` writes. */
export function parseCheckpoint(line: string): Checkpoint | undefined {
  try {
    const given = JSON.parse(line) as Checkpoint;
    return Number.isSafeInteger(given.seq) && lineOf(given) === `${line}\n` ? given : undefined;
  } catch {
    return undefined; // Not JSON, or null.
  }
}

interface TableEnd {
  readonly database: DatabaseSync;
  readonly key: SigningKey;
  /** Seq of the last checkpoint in the file. */
  readonly inFile: number;
  /** The same of the table. */
  readonly inTable: number;
}

/** What was done to the table of checkpoints since its last row was written, in words; undefined when it is as it was left. */
export function problemOfTable({ database, key, inFile, inTable }: TableEnd): string | undefined {
  if (inFile < inTable) return 'its file of checkpoints was cut';
  const end = database.prepare('SELECT seq, seal FROM checkpoints_end').get() as
    | { seq: number; seal: string }
    | undefined;
  // A log of a version that wrote no proof has the same end in both places.
  const isProven = end ? key.sealTableEnd(inTable) === end.seal && end.seq === inTable : inFile === inTable;
  return isProven ? undefined : 'rows of its table of checkpoints were deleted';
}

export class Checkpoints {
  readonly path: string;
  /** What was done to the table since its last row was written, in words; undefined when it is as it was left. */
  readonly problem: string | undefined;
  readonly #database: DatabaseSync;
  readonly #key: SigningKey;
  readonly #insert: StatementSync;
  readonly #setEnd: StatementSync;
  #last: Checkpoint | undefined;
  #lastInTable: number;

  /** Cuts off a last line that a full disk left unfinished. Throws the system's errors and those of SQLite. */
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

  /** The last one in the file. */
  get last(): Checkpoint | undefined {
    return this.#last;
  }

  /** Seq of the last row that was written, or found when the log was opened; nothing on disk changes this number. */
  get lastInTable(): number {
    return this.#lastInTable;
  }

  /** Bytes of the file. Throws when there is none. */
  get fileBytes(): number {
    return statSync(this.path).size;
  }

  /** Stores it in both places, or in neither; only a kill at this moment leaves the file with one line more. Throws. */
  add(checkpoint: Checkpoint): void {
    const before = statSync(this.path, { throwIfNoEntry: false })?.size ?? 0;
    this.#database.exec('BEGIN IMMEDIATE');
    try {
      this.#insertRow(checkpoint);
      appendFileSync(this.path, lineOf(checkpoint), { mode: 0o600 });
      this.#database.exec('COMMIT');
    } catch (error) {
      if (this.#database.isTransaction) this.#database.exec('ROLLBACK');
      if (existsSync(this.path)) truncateSync(this.path, before);
      throw error;
    }
    this.#last = checkpoint;
    this.#lastInTable = checkpoint.seq;
  }

  /** Copies the last line of the file to the table, where the daemon was killed between the two. Throws what SQLite throws. */
  complete(): void {
    if (this.problem !== undefined || !this.#last || this.#last.seq === this.#lastInTable) return;
    this.#insertRow(this.#last);
    this.#lastInTable = this.#last.seq;
  }

  #insertRow({ seq, hash, at, signature }: Checkpoint): void {
    this.#insert.run(seq, hash, at, signature);
    this.#setEnd.run(seq, this.#key.sealTableEnd(seq));
  }

  /** Forgets those in the file before the one of `seq`. Appending meanwhile is allowed. */
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
      // What is appended from here on would be missed, so the last block and the exchange are one turn of the event loop.
      if (this.fileBytes - copied < COPY_BYTES) break;
    }
    await to.sync();
    if (!this.#database.isOpen) return rmSync(copy); // The next run of the daemon does it.
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

/** Lines of the first `bytes` of the file, one by one; what stands after the last newline is no line. Throws when one is overlong. */
export async function* linesOf(path: string, bytes: number): AsyncGenerator<{ line: string; start: number }> {
  if (bytes === 0) return;
  let rest = '';
  let start = 0;
  for await (const chunk of createReadStream(path, { encoding: 'latin1', end: bytes - 1 })) {
    const lines = (rest + chunk).split('\n');
    rest = lines.pop() as string;
    if (rest.length > LINE_CHARS_MAX) throw new Error(`${path} has a line that no checkpoint makes`);
    for (const line of lines) {
      yield { line, start };
      start += line.length + 1;
    }
  }
}

function readLast(path: string): Checkpoint | undefined {
  const size = statSync(path, { throwIfNoEntry: false })?.size ?? 0;
  if (size === 0) return undefined;
  const fd = openSync(path, 'r+');
  try {
    const tail = Buffer.alloc(Math.min(size, 2 * LINE_CHARS_MAX));
    readSync(fd, tail, 0, tail.length, size - tail.length);
    const text = tail.toString('latin1');
    const end = text.lastIndexOf('\n');
    const torn = text.length - 1 - end;
    if (torn > 0 && torn <= LINE_CHARS_MAX) truncateSync(path, size - torn);
    return parseCheckpoint(text.slice(text.lastIndexOf('\n', end - 1) + 1, Math.max(end, 0)));
  } finally {
    closeSync(fd);
  }
}
