/**
 * The one way in which a call changes the file system: each visible change is told to the recorder first, then made, then
 * noted for the result. Whoever keeps pre-images is a ChangeRecorder; without one nothing is kept.
 */
import { randomBytes } from 'node:crypto';
import * as fs from 'node:fs';
import type { FileChange } from '../src/call.ts';
import { ToolError } from '../src/errors.ts';
import type { EntryType } from '../src/tools/tool.ts';
import { below, codeOf, type Place, toAccessError } from './anchor.ts';

const { O_CREAT, O_DIRECTORY, O_EXCL, O_NOFOLLOW, O_RDONLY, O_WRONLY } = fs.constants;

/** A name in an opened directory, as a call means it. */
export interface Spot extends Place {
  /** As the caller named it. */
  readonly path: string;
}

/**
 * One change that is about to be seen. `create`, `modify` and `copy`: something new stands at `at` afterwards. `rename`: what
 * stands at `from` now. `delete`: nothing. `mkdir`: an empty directory, which goes again if the call fails.
 * A directory is one change with all that is in it.
 */
export interface Change {
  readonly kind: 'create' | 'modify' | 'delete' | 'rename' | 'copy' | 'mkdir';
  /** What is changed: what is deleted or moved, else what is new. */
  readonly type: EntryType;
  /** What stands here now, if anything, is the pre-image; it is reached by the descriptor, never by a full name. */
  readonly at: Spot;
  /** Where it comes from, of `rename` and `copy`. */
  readonly from?: Spot;
  /** What will stand there, made ready under this name beside it. */
  readonly temporary?: string;
  /** Where the old one is beside it until the change is whole. */
  readonly aside?: string;
}

/** Told of each change before it is seen; what it throws keeps the change from being made. */
export interface ChangeRecorder {
  /** Told of each name under which something is about to be made ready beside `at`. */
  preparing?(at: Spot, temporary: string): void;
  before(change: Change): void;
}

/** Keeps nothing. */
export const NO_RECORDER: ChangeRecorder = { before: () => undefined };

/** A name for what is being made ready, in the directory where it will stand. */
const temporaryName = (): string => `.ringfence-${randomBytes(8).toString('hex')}.tmp`;

export interface Putting {
  readonly type: EntryType;
  /** Whether what stands there may be replaced. */
  readonly overwrite: boolean;
  /** Whether nothing stood there when it was looked at. */
  readonly created: boolean;
  readonly copyOf?: Spot;
  /** Whether what is replaced stays under another name beside it, which is the caller's to remove. */
  readonly keepsOld?: boolean;
  /** Throws where what is there is not what may be replaced. */
  readonly assertSame?: () => void;
}

export class Changes {
  readonly #recorder: ChangeRecorder;
  readonly #noted: FileChange[] = [];

  constructor(recorder: ChangeRecorder) {
    this.#recorder = recorder;
  }

  /** What was changed so far, for the result of the call. */
  get noted(): readonly FileChange[] {
    return this.#noted;
  }

  /** A name under which what is to stand at `to` is made ready beside it. */
  temporaryFor(to: Spot): string {
    const name = temporaryName();
    this.#recorder.preparing?.(to, name);
    return name;
  }

  /** All of it was taken back, or all but the first ones. */
  forget(first = 0): void {
    this.#noted.length = first;
  }

  /** What was made ready beside `to` under a temporary name stands there in one step. Gives the name of what `keepsOld` keeps. */
  put(temporary: string, to: Spot, putting: Putting): { aside?: string } {
    const { type, overwrite, created, copyOf, keepsOld = false, assertSame } = putting;
    const kind = created ? 'create' : 'modify';
    const kept = keepsOld && !created ? { aside: temporaryName() } : {};
    this.#recorder.before({
      type,
      at: to,
      temporary,
      ...kept,
      ...(copyOf ? { kind: 'copy', from: copyOf } : { kind }),
    });
    // Last, so that no more than the step itself stands between what was looked at and what is replaced.
    assertSame?.();
    const aside = kept.aside && below(to.fd, kept.aside);
    if (aside) attempt(to.path, () => fs.linkSync(below(to.fd, to.name), aside));
    try {
      settle(below(to.fd, temporary), to, { type, overwrite });
    } catch (error) {
      if (aside) fs.rmSync(aside, { force: true });
      throw error;
    }
    this.#note(to, type, kind);
    return kept;
  }

  /** Several files, each made ready beside its place: all of them, or none. Hard links hold the old ones meanwhile. */
  putAll(files: readonly { temporary: string; to: Spot; assertSame: () => void }[]): void {
    const asides = files.map(temporaryName);
    for (const [index, { to, temporary }] of files.entries())
      this.#recorder.before({ kind: 'modify', type: 'file', at: to, temporary, aside: asides[index] as string });
    const backups: { at: string; to: Spot }[] = [];
    try {
      // A crash in between leaves some new and some old: the recorder has them all by now.
      for (const [index, { temporary, to, assertSame }] of files.entries()) {
        assertSame();
        const at = below(to.fd, asides[index] as string);
        attempt(to.path, () => fs.linkSync(below(to.fd, to.name), at));
        backups.push({ at, to });
        settle(below(to.fd, temporary), to, { type: 'file', overwrite: true });
      }
    } catch (error) {
      // To rename a link onto the very file that it is does nothing, hence the removal.
      for (const { at, to } of backups.reverse()) {
        fs.renameSync(at, below(to.fd, to.name));
        fs.rmSync(at, { force: true });
      }
      throw error;
    }
    for (const { at, to } of backups) {
      fs.rmSync(at, { force: true });
      this.#note(to, 'file', 'modify');
    }
  }

  /** Moves what stands at `from`. Throws EXDEV as it is, unless `to` is on the same mount. */
  move(from: Spot, to: Spot, { type, overwrite }: { type: EntryType; overwrite: boolean }): void {
    this.#recorder.before({ kind: 'rename', type, at: to, from });
    settle(below(from.fd, from.name), to, { type, overwrite, fromPath: from.path });
    this.#note(to, type, 'rename', from);
  }

  /** What `move` recorded and could not do from one mount to another: `temporary` is a copy beside `to`, `remove` takes the old one away. */
  async moveByCopy(temporary: string, to: Spot, by: MoveByCopy): Promise<void> {
    settle(below(to.fd, temporary), to, by);
    this.#note(to, by.type, 'rename', by.from);
    await by.remove();
  }

  /** Removes what is no directory. */
  unlink(at: Spot, type: EntryType): void {
    this.#recorder.before({ kind: 'delete', type, at });
    attempt(at.path, () => fs.unlinkSync(below(at.fd, at.name)));
    this.#note(at, type, 'delete');
  }

  /** A directory is gone in one step, under a temporary name beside it, which is left to the caller to remove. */
  setAside(at: Spot): string {
    const name = temporaryName();
    this.#recorder.before({ kind: 'delete', type: 'directory', at, aside: name });
    attempt(at.path, () => fs.renameSync(below(at.fd, at.name), below(at.fd, name)));
    this.#note(at, 'directory', 'delete');
    return name;
  }

  /** What could not be removed is seen again. */
  putBack(name: string, at: Spot): void {
    settle(below(at.fd, name), at, { type: 'directory', overwrite: false });
  }

  /** A directory on the way to a place; noted by `keepDirectory`, since it goes again when nothing comes to stand in it. */
  makeDirectory(at: Spot): void {
    this.#recorder.before({ kind: 'mkdir', type: 'directory', at });
    makeDirectory(below(at.fd, at.name), 0o755);
  }

  keepDirectory(path: string): void {
    this.#noted.push({ path: `${path}/`, kind: 'create' });
  }

  #note({ path }: Spot, type: EntryType, kind: FileChange['kind'], from?: Spot): void {
    const named = (it: string) => (type === 'directory' && !it.endsWith('/') ? `${it}/` : it);
    this.#noted.push({ path: named(path), kind, ...(from && { from: named(from.path) }) });
  }
}

export interface MoveByCopy {
  readonly from: Spot;
  readonly type: EntryType;
  readonly overwrite: boolean;
  remove(): Promise<void>;
}

interface Settling {
  readonly type: EntryType;
  readonly overwrite: boolean;
  /** As the caller named what is moved, where it did. */
  readonly fromPath?: string;
}

/** From a name to a spot in one step. Without `overwrite`, and with directories always, it fails where anything stands. */
function settle(from: string, to: Spot, { type, overwrite, fromPath = to.path }: Settling): void {
  const at = below(to.fd, to.name);
  attempt(to.path, () => {
    if (type === 'directory') {
      // A rename replaces an empty directory and no other: ours, or one that somebody put in its place.
      fs.mkdirSync(at, 0o700);
      try {
        fs.renameSync(from, at);
      } catch (error) {
        fs.rmdirSync(at);
        throw error;
      }
    } else if (overwrite) fs.renameSync(from, at);
    else {
      fs.linkSync(from, at); // Fails where the name exists by now; a rename would replace it.
      try {
        attempt(fromPath, () => fs.unlinkSync(from));
      } catch (error) {
        fs.unlinkSync(at); // The old name stays, so that the new one must not.
        throw error;
      }
    }
  });
}

/** Runs one step; what it fails with is told in the words of a tool, but EXDEV, which callers know how to go around. */
function attempt<T>(path: string, step: () => T): T {
  try {
    return step();
  } catch (error) {
    throw toChangeError(error, path);
  }
}

/** An error of a change, in the words of a tool. */
export function toChangeError(error: unknown, path: string): unknown {
  if (error instanceof ToolError) return error;
  switch (codeOf(error)) {
    case 'EXDEV':
      return error;
    case 'EBUSY':
      // A mount stands there: the policy holds the name itself.
      return new ToolError('SANDBOX_DENIED', `\`${path}\` is held in this sandbox`, { details: { path } });
    case 'EEXIST':
    case 'ENOTEMPTY':
      return exists(path);
    case 'EISDIR':
    case 'ENOTDIR':
      return new ToolError('CONFLICT', `\`${path}\` changed while it was used`);
    case 'EINVAL':
      return new ToolError('INPUT_INVALID', `\`${path}\` lies in what would be moved there`);
    default:
      return toAccessError(error, path);
  }
}

/** ALREADY_EXISTS, in the same words wherever it is found out. */
export const exists = (path: string): ToolError =>
  new ToolError('ALREADY_EXISTS', `\`${path}\` exists and overwrite is false`);

/** Writes a new file with all its bytes on the disk, under a name that nobody has. */
export function writeNew(at: string, mode: number, chunks: Iterable<Uint8Array>): void {
  for (const _ of writingNew(at, mode, chunks)); // To the end, without a pause.
}

/**
 * The same in steps: it pauses after each `FLUSH_BYTES`, which are on the disk then. A caller that stops there leaves half a
 * file behind.
 */
export function* writingNew(at: string, mode: number, chunks: Iterable<Uint8Array>): Generator<void, void> {
  const fd = fs.openSync(at, O_CREAT | O_EXCL | O_NOFOLLOW | O_WRONLY, 0o600);
  try {
    let unflushed = 0;
    for (const chunk of inSteps(chunks)) {
      writeAll(fd, chunk);
      unflushed += chunk.length;
      if (unflushed < FLUSH_BYTES) continue;
      unflushed = 0;
      fs.fdatasyncSync(fd);
      yield;
    }
    fs.fchmodSync(fd, mode);
    fs.fsyncSync(fd);
  } finally {
    fs.closeSync(fd);
  }
}

/**
 * Bytes between two flushes. Nothing can interrupt a flush, so that a call whose time is over waits for the one that is under
 * way; flushing once at the end kept such calls for seconds where the disk was busy.
 */
const FLUSH_BYTES = 8 * 1024 * 1024;

function* inSteps(chunks: Iterable<Uint8Array>): Generator<Uint8Array> {
  for (const chunk of chunks)
    for (let at = 0; at < chunk.length; at += FLUSH_BYTES) yield chunk.subarray(at, at + FLUSH_BYTES);
}

/** All of `bytes`, however many the kernel takes at once. */
export function writeAll(fd: number, bytes: Uint8Array): void {
  for (let at = 0; at < bytes.length; ) at += fs.writeSync(fd, bytes, at);
}

const CHUNK_BYTES = 1024 * 1024;

/** An opened file from where it stands, at most `bytesMax` of it. Each chunk is overwritten by the next one. */
export function* chunksOf(fd: number, bytesMax: number): Generator<Uint8Array> {
  const chunk = Buffer.allocUnsafe(Math.min(CHUNK_BYTES, Math.max(1, bytesMax)));
  for (let left = bytesMax; left > 0; ) {
    const got = fs.readSync(fd, chunk, 0, Math.min(left, chunk.length), null);
    if (got === 0) return;
    yield chunk.subarray(0, got);
    left -= got;
  }
}

/** A directory with these permissions, whatever the umask, which is the strictest in our hosts. */
export function makeDirectory(at: string, mode: number): void {
  fs.mkdirSync(at, 0o700);
  const fd = fs.openSync(at, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  try {
    // What somebody put in its place meanwhile keeps its own.
    if ((fs.fstatSync(fd).mode & 0o7777) === 0o700) fs.fchmodSync(fd, mode);
  } finally {
    fs.closeSync(fd);
  }
}
