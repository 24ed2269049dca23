/**
 * Where checkpoints are kept: in the database, and in a file beside it that is only ever appended to (retention alone rewrites
 * it), so that a database that was cut, or put back to an older state, is found out. The file has all that the table has.
 */
import {
  appendFileSync,
  closeSync,
  createReadStream,
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
import type { Checkpoint } from './audit-chain.ts';

export const CHECKPOINT_SCHEMA = `CREATE TABLE IF NOT EXISTS checkpoints (
  seq INTEGER PRIMARY KEY, hash TEXT NOT NULL, at TEXT NOT NULL, signature TEXT NOT NULL) STRICT;`;

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

export class Checkpoints {
  readonly path: string;
  readonly #database: DatabaseSync;
  readonly #insert: StatementSync;
  #last: Checkpoint | undefined;

  /** Cuts off a last line that a full disk left unfinished. Throws the system's errors. */
  constructor(database: DatabaseSync, path: string) {
    this.path = path;
    this.#database = database;
    this.#insert = database.prepare(
      'INSERT OR REPLACE INTO checkpoints (seq, hash, at, signature) VALUES (?, ?, ?, ?)',
    );
    this.#last = readLast(path);
  }

  /** The last one in the file. */
  get last(): Checkpoint | undefined {
    return this.#last;
  }

  /** Seq of the last one in the table; 0 when there is none. */
  get lastInTable(): number {
    const row = this.#database.prepare('SELECT max(seq) AS last FROM checkpoints').get() as { last: number | null };
    return row.last ?? 0;
  }

  /** Bytes of the file. Throws when there is none. */
  get fileBytes(): number {
    return statSync(this.path).size;
  }

  /** Stores it: the file first, so that an end between the two leaves it with more than the table, never with less. */
  add(checkpoint: Checkpoint): void {
    const before = statSync(this.path, { throwIfNoEntry: false })?.size ?? 0;
    try {
      appendFileSync(this.path, lineOf(checkpoint), { mode: 0o600 });
    } catch (error) {
      if (before > 0) truncateSync(this.path, before);
      throw error;
    }
    this.#last = checkpoint;
    this.#insert.run(checkpoint.seq, checkpoint.hash, checkpoint.at, checkpoint.signature);
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
