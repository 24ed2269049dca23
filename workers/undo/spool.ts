/**
 * One call's undo journal in the spool of its workspace: a file of entries, each a line of JSON followed by its
 * bytes, and a folder for large files. A folder per call would cost the disk as much again as the entry. Only the
 * write host's sandbox shows the spool.
 */
import { createHash, type Hash } from 'node:crypto';
import * as fs from 'node:fs';
import { join } from 'node:path';
import * as z from 'zod';
import { openFile } from '../../src/base/disk.ts';
import { ToolError } from '../../src/base/errors.ts';
import { inSpool } from '../../src/base/paths.ts';
import { codeOf } from '../context/anchor.ts';
import { chunksOf, writeAll, writeNew } from './changes.ts';

const { O_APPEND, O_CREAT, O_NOFOLLOW, O_RDONLY, O_RDWR } = fs.constants;

const blob = z.union([
  /** Offset in the bytes after the line. */
  z.strictObject({ at: z.int().min(0), bytes: z.int().min(0) }),
  z.strictObject({ file: z.string().regex(/^large-\d+$/), bytes: z.int().min(0) }),
]);
const mode = z.int().min(0).max(0o777);
const file = z.strictObject({
  type: z.literal('file'),
  mode,
  bytes: z.int().min(0),
  hash: z.string(),
  blob: blob.optional(),
});
/** `target`: the link's bytes, one character each. */
const symlink = z.strictObject({ type: z.literal('symlink'), target: z.string() });
const leaf = z.discriminatedUnion('type', [file, symlink, z.strictObject({ type: z.literal('directory'), mode })]);
const directory = z.strictObject({
  type: z.literal('directory'),
  mode,
  hash: z.string(),
  /** All entries below, parents first; absent if not kept. */
  entries: z.array(z.tuple([z.string(), leaf])).optional(),
});
const image = z.discriminatedUnion('type', [
  z.strictObject({ type: z.literal('none') }),
  z.strictObject({ type: z.literal('unknown') }),
  file,
  symlink,
  directory,
]);
const temporary = z.string().regex(/^\.ringfence-[0-9a-f]{16}\.tmp$/);

const entry = z.strictObject({
  /** `prepare`: nothing is visible yet except `passing`. */
  kind: z.enum(['prepare', 'create', 'modify', 'delete', 'rename', 'copy', 'mkdir', 'chmod']),
  /** Relative to the workspace, without links. */
  path: z.string(),
  /** Image before the change. */
  pre: image,
  /** Image after the change. */
  post: image,
  /** For a rename: the former path. */
  from: z.string().optional(),
  /** Temporary names beside the path that exist only during the change. */
  passing: z.array(temporary).optional(),
  /** Something else that stands there by now is left alone and is no conflict: git ignores it. */
  yields: z.boolean().optional(),
  /** Number of bytes after the line. */
  tail: z.int().min(0),
});

export type Blob = z.output<typeof blob>;
export type Leaf = z.output<typeof leaf>;
export type Image = z.output<typeof image>;
export type JournalEntry = Omit<z.output<typeof entry>, 'tail'>;
/** Reads a blob in chunks. */
export type BlobReader = (blob: Blob) => Iterable<Uint8Array>;

export interface ReadableEntry {
  readonly entry: JournalEntry;
  readonly read: BlobReader;
}

/** File name of a call's journal; the gateway derives it from session and call id. */
const KEY = /^[0-9a-f]{64}$/;

export class Spool implements Disposable {
  readonly #file: string;
  readonly #folder: string;
  #fd: number | undefined;
  /** Number of files in the folder; undefined until one is kept. */
  #large: number | undefined;
  /** Paths of files that `flush` flushes with the entries: of thousands, each flush of its own would take as long as all. */
  readonly #unflushed: string[] = [];

  /** Creates nothing until something is kept. */
  constructor(spool: string, key: string) {
    if (!KEY.test(key)) throw new Error(`not the key of a call: ${key}`);
    const { file, folder } = inSpool(key);
    this.#file = join(spool, file);
    this.#folder = join(spool, folder);
  }

  /** Appends an entry without a flush: it survives this process, but maybe not a power cut. */
  note(entry: JournalEntry): void {
    writeAll(this.#open(), Buffer.from(`${JSON.stringify({ ...entry, tail: 0 })}\n`));
  }

  /** Appends an entry and flushes it. If a crash cuts the line short, its change was never made. */
  append(entry: JournalEntry, blobs: readonly Uint8Array[]): void {
    this.write(entry, blobs);
    this.flush();
  }

  /** Appends an entry; `flush` follows. */
  write(entry: JournalEntry, blobs: readonly Uint8Array[]): void {
    const tail = blobs.reduce((sum, it) => sum + it.length, 0);
    writeAll(this.#open(), Buffer.concat([Buffer.from(`${JSON.stringify({ ...entry, tail })}\n`), ...blobs]));
  }

  flush(): void {
    for (const it of this.#unflushed.splice(0)) flushFile(it);
    fs.fsyncSync(this.#open());
  }

  /** Keeps `bytes` of a file that was just opened; shares its blocks instead of copying if the file system can. */
  keepLarge(fd: number, bytes: number): { file: string; path: string } {
    const large = this.#nextLarge();
    if (!cloned(fd, large.path)) writeNew(large.path, 0o600, chunksOf(fd, bytes));
    return large;
  }

  /** Keeps the content of a large file; `flush` follows. */
  keepChunks(chunks: Iterable<Uint8Array>): { file: string } {
    const { file, path } = this.#nextLarge();
    writeNew(path, 0o600, chunks, false);
    this.#unflushed.push(path);
    return { file };
  }

  /** The same for a file that may be larger than our memory, with the SHA-256 of what was read. */
  keepHashed(chunks: Iterable<Uint8Array>): { file: string; hash: string } {
    const hash = createHash('sha256');
    const { file } = this.keepChunks(hashing(chunks, hash));
    return { file, hash: hash.digest('hex') };
  }

  #nextLarge(): { file: string; path: string } {
    if (this.#large === undefined) {
      fs.mkdirSync(this.#folder, { recursive: true, mode: 0o700 });
      // An earlier attempt may have left some.
      this.#large = fs.readdirSync(this.#folder).length;
    }
    const file = `large-${this.#large++}`;
    return { file, path: join(this.#folder, file) };
  }

  /** The entries in order; empty if there is no such call. Throws CONFLICT for an invalid file. */
  entries(): ReadableEntry[] {
    return this.#scan().found;
  }

  /** The complete entries, and the offset after the last one. */
  #scan(): { found: ReadableEntry[]; end: number } {
    let bytes: Buffer;
    try {
      bytes = fs.readFileSync(this.#file);
    } catch (error) {
      if (codeOf(error) === 'ENOENT') return { found: [], end: 0 };
      throw error;
    }
    const found: ReadableEntry[] = [];
    let at = 0;
    while (at < bytes.length) {
      const end = bytes.indexOf('\n', at);
      if (end < 0) break;
      const { tail, ...rest } = toEntry(bytes.toString('utf8', at, end));
      if (end + 1 + tail > bytes.length) break;
      found.push({ entry: rest, read: this.#reader(bytes.subarray(end + 1, end + 1 + tail)) });
      at = end + 1 + tail;
    }
    return { found, end: at };
  }

  /** Bytes that it takes on the disk. */
  get bytes(): number {
    if (this.#fd === undefined) return 0;
    const large = this.#large === undefined ? [] : fs.readdirSync(this.#folder);
    return large.reduce((sum, it) => sum + fs.lstatSync(join(this.#folder, it)).size, fs.fstatSync(this.#fd).size);
  }

  /** Deletes the journal. */
  remove(): void {
    fs.rmSync(this.#file, { force: true });
    fs.rmSync(this.#folder, { recursive: true, force: true });
  }

  [Symbol.dispose](): void {
    if (this.#fd !== undefined) fs.closeSync(this.#fd);
    this.#fd = undefined;
  }

  #open(): number {
    if (this.#fd !== undefined) return this.#fd;
    this.#fd = fs.openSync(this.#file, O_CREAT | O_APPEND | O_NOFOLLOW | O_RDWR, 0o600);
    // An earlier attempt may have left entries, and a crash a partial one.
    if (fs.fstatSync(this.#fd).size > 0) fs.ftruncateSync(this.#fd, this.#scan().end);
    return this.#fd;
  }

  #reader(tail: Buffer): BlobReader {
    const folder = this.#folder;
    return function* (blob) {
      if ('at' in blob) return yield tail.subarray(blob.at, blob.at + blob.bytes);
      using opened = openFile(join(folder, blob.file), O_RDONLY | O_NOFOLLOW);
      yield* chunksOf(opened.fd, blob.bytes);
    };
  }
}

/** The same chunks, each hashed as it passes. */
function* hashing(chunks: Iterable<Uint8Array>, hash: Hash): Generator<Uint8Array> {
  for (const it of chunks) {
    hash.update(it);
    yield it;
  }
}

/** Clones an open file to `path` with shared blocks; false if the file system can't. */
function cloned(fd: number, path: string): boolean {
  try {
    fs.copyFileSync(`/proc/self/fd/${fd}`, path, fs.constants.COPYFILE_FICLONE_FORCE | fs.constants.COPYFILE_EXCL);
  } catch {
    return false; // ENOTSUP, EINVAL, EXDEV: not supported here; nothing was created.
  }
  flushFile(path);
  return true;
}

function flushFile(path: string): void {
  using file = openFile(path, O_RDONLY | O_NOFOLLOW);
  fs.fsyncSync(file.fd);
}

function toEntry(line: string): z.output<typeof entry> {
  try {
    return entry.parse(JSON.parse(line));
  } catch (cause) {
    // ZodError, SyntaxError: we did not write this.
    throw new ToolError('CONFLICT', 'the undo journal of this call was changed, so the call can not be undone', {
      cause,
    });
  }
}
