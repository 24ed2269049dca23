/**
 * What one call keeps in the spool of its workspace, so that it can be undone: a file, in which each entry is a line of JSON and
 * the bytes that it keeps behind it, and a folder beside it where it keeps large files. A folder for each call would cost the
 * disk as much again as the entry. No sandbox but the write host's holds the spool.
 */
import * as fs from 'node:fs';
import { join } from 'node:path';
import * as z from 'zod';
import { ToolError } from '../src/errors.ts';
import { inSpool } from '../src/paths.ts';
import { codeOf } from './anchor.ts';
import { chunksOf, writeAll, writeNew } from './changes.ts';

const { O_APPEND, O_CREAT, O_NOFOLLOW, O_RDONLY, O_RDWR } = fs.constants;

const blob = z.union([
  /** In the bytes behind the line. */
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
/** `target`: its bytes, a character each. */
const symlink = z.strictObject({ type: z.literal('symlink'), target: z.string() });
const leaf = z.discriminatedUnion('type', [file, symlink, z.strictObject({ type: z.literal('directory'), mode })]);
const directory = z.strictObject({
  type: z.literal('directory'),
  mode,
  hash: z.string(),
  /** All that is in it, parents first; absent where it is not kept. */
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
  /** `prepare`: nothing is to be seen yet, but `passing`. */
  kind: z.enum(['prepare', 'create', 'modify', 'delete', 'rename', 'copy', 'mkdir']),
  /** Relative to the workspace, without links. */
  path: z.string(),
  /** What stood there. */
  pre: image,
  /** What stands there since. */
  post: image,
  /** Of a rename: where what stands there came from. */
  from: z.string().optional(),
  /** Names beside it that are there only while the change is made. */
  passing: z.array(temporary).optional(),
  /** Bytes behind the line. */
  tail: z.int().min(0),
});

export type Blob = z.output<typeof blob>;
export type Leaf = z.output<typeof leaf>;
export type Image = z.output<typeof image>;
export type Entry = Omit<z.output<typeof entry>, 'tail'>;
/** Gives what was kept, a chunk at a time. */
export type BlobReader = (blob: Blob) => Iterable<Uint8Array>;

export interface KeptEntry {
  readonly entry: Entry;
  readonly read: BlobReader;
}

/** Name of a call's file; the gateway makes it from session and call id. */
const KEY = /^[0-9a-f]{64}$/;

export class Spool implements Disposable {
  readonly #file: string;
  readonly #folder: string;
  #fd: number | undefined;
  /** Files in the folder; undefined until one is kept. */
  #large: number | undefined;

  /** Nothing is made before something is kept. */
  constructor(spool: string, key: string) {
    if (!KEY.test(key)) throw new Error(`not the key of a call: ${key}`);
    const { file, folder } = inSpool(key);
    this.#file = join(spool, file);
    this.#folder = join(spool, folder);
  }

  /** Survives this process, if not a power cut. */
  note(entry: Entry): void {
    writeAll(this.#open(), Buffer.from(`${JSON.stringify({ ...entry, tail: 0 })}\n`));
  }

  /** On the disk when it returns. Where a crash cuts the line short, its change was never made. */
  append(entry: Entry, blobs: readonly Uint8Array[]): void {
    const tail = blobs.reduce((sum, it) => sum + it.length, 0);
    const fd = this.#open();
    writeAll(fd, Buffer.concat([Buffer.from(`${JSON.stringify({ ...entry, tail })}\n`), ...blobs]));
    fs.fsyncSync(fd);
  }

  /** Keeps `bytes` of a file that was just opened; no copy is made where the file system can share its blocks. */
  keepLarge(fd: number, bytes: number): { file: string; path: string } {
    if (this.#large === undefined) {
      fs.mkdirSync(this.#folder, { recursive: true, mode: 0o700 });
      // An attempt before this one may have left some.
      this.#large = fs.readdirSync(this.#folder).length;
    }
    const name = `large-${this.#large++}`;
    const path = join(this.#folder, name);
    if (!cloned(fd, path)) writeNew(path, 0o600, chunksOf(fd, bytes));
    return { file: name, path };
  }

  /** In the order in which they were made; none where there is no such call. Throws CONFLICT for what is none of ours. */
  entries(): KeptEntry[] {
    return this.#scan().found;
  }

  /** The whole entries, and where the last of them ends. */
  #scan(): { found: KeptEntry[]; end: number } {
    let bytes: Buffer;
    try {
      bytes = fs.readFileSync(this.#file);
    } catch (error) {
      if (codeOf(error) === 'ENOENT') return { found: [], end: 0 };
      throw error;
    }
    const found: KeptEntry[] = [];
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

  /** What it takes on the disk. */
  get bytes(): number {
    if (this.#fd === undefined) return 0;
    const large = this.#large === undefined ? [] : fs.readdirSync(this.#folder);
    return large.reduce((sum, it) => sum + fs.lstatSync(join(this.#folder, it)).size, fs.fstatSync(this.#fd).size);
  }

  /** Nothing of the call is left to undo. */
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
    // An attempt before this one may have left entries, and a crash the half of one.
    if (fs.fstatSync(this.#fd).size > 0) fs.ftruncateSync(this.#fd, this.#scan().end);
    return this.#fd;
  }

  #reader(tail: Buffer): BlobReader {
    const folder = this.#folder;
    return function* (blob) {
      if ('at' in blob) return yield tail.subarray(blob.at, blob.at + blob.bytes);
      const fd = fs.openSync(join(folder, blob.file), O_RDONLY | O_NOFOLLOW);
      try {
        yield* chunksOf(fd, blob.bytes);
      } finally {
        fs.closeSync(fd);
      }
    };
  }
}

/** Whether `path` is now a file that shares the blocks of an opened one. */
function cloned(fd: number, path: string): boolean {
  try {
    fs.copyFileSync(`/proc/self/fd/${fd}`, path, fs.constants.COPYFILE_FICLONE_FORCE | fs.constants.COPYFILE_EXCL);
  } catch {
    return false; // ENOTSUP, EINVAL, EXDEV: this file system can't; nothing was made then.
  }
  const clone = fs.openSync(path, O_RDONLY | O_NOFOLLOW);
  try {
    fs.fsyncSync(clone);
  } finally {
    fs.closeSync(clone);
  }
  return true;
}

function toEntry(line: string): z.output<typeof entry> {
  try {
    return entry.parse(JSON.parse(line));
  } catch (cause) {
    // ZodError, SyntaxError: somebody else wrote it.
    throw new ToolError('CONFLICT', 'the journal of this call is not what it was', { cause });
  }
}
