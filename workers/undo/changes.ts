/**
 * The only way in which a call changes the file system: the recorder is told of each visible change, the change is
 * made, then noted for the result. A ChangeRecorder may keep pre-images; without one nothing is kept.
 */
import * as fs from 'node:fs';
import type { FileChange } from '../../src/base/call.ts';
import { openFile } from '../../src/base/disk.ts';
import { ToolError } from '../../src/base/errors.ts';
import type { Powers } from '../../src/base/powers.ts';
import type { EntryType } from '../../src/tools/tool.ts';
import { below, codeOf, type OpenedName, toAccessError } from '../context/anchor.ts';
import { Flushes } from './flushes.ts';

const { O_CREAT, O_DIRECTORY, O_EXCL, O_NOFOLLOW, O_RDONLY, O_WRONLY } = fs.constants;
/** Opens a name without opening what it stands for; Node does not name this flag of Linux. */
const O_PATH = 0o10000000;

/** A name in an open directory, with the path that the caller used. */
export interface DirEntry extends OpenedName {
  /** The path as the caller named it. */
  readonly path: string;
}

/**
 * One change that is about to become visible. `create`, `modify`, `copy`: something new will be at `at`. `rename`:
 * what is at `from` now. `delete`: nothing. `mkdir`: an empty directory, removed again if the call fails. A directory
 * counts as one change with all its content. `chmod`: the same directory with the permissions `mode`.
 */
export interface Change {
  readonly kind: 'create' | 'modify' | 'delete' | 'rename' | 'copy' | 'mkdir' | 'chmod';
  /** Type of the entry that is deleted or moved, else of the new one. */
  readonly type: EntryType;
  /** The present entry here, if any, is the pre-image; it is reached by descriptor, never by full name. */
  readonly at: DirEntry;
  /** The source, for `rename` and `copy`. */
  readonly from?: DirEntry;
  /** Temporary name beside `at` under which the new entry was prepared. */
  readonly temporary?: string;
  /** Name beside `at` that keeps the old entry until the change is complete. */
  readonly aside?: string;
  readonly mode?: number;
}

/** Called for each change before it becomes visible; throwing prevents the change. */
export interface ChangeRecorder {
  /** Called for each temporary name that is about to be used beside `at`. */
  preparing?(at: DirEntry, temporary: string): void;
  recordBefore(change: Change): void;
  /** From now on what is recorded is flushed by `flush`, not at once. */
  defer?(): void;
  flush?(): void;
  /** Called before a file is changed in place; what it gives is called after the change. */
  recordInPlace?(at: DirEntry): () => void;
}

/** A recorder that keeps nothing. */
export const NO_RECORDER: ChangeRecorder = { recordBefore: () => undefined };

export interface PutOptions {
  readonly type: EntryType;
  /** Whether an existing entry may be replaced. */
  readonly overwrite: boolean;
  /** Whether there was no entry before. */
  readonly created: boolean;
  readonly copyOf?: DirEntry;
  /** Whether the replaced entry stays under another name beside it, for the caller to remove. */
  readonly keepsOld?: boolean;
  /** Throws if the existing entry must not be replaced. */
  readonly assertSame?: () => void;
}

export class Changes {
  readonly #recorder: ChangeRecorder;
  readonly #powers: Pick<Powers, 'secret'>;
  readonly #noted: FileChange[] = [];
  readonly flushes: Flushes;

  constructor(recorder: ChangeRecorder, powers: Pick<Powers, 'secret'>) {
    this.#recorder = recorder;
    this.flushes = new Flushes(recorder);
    this.#powers = powers;
  }

  /** The changes so far, for the result of the call. */
  get noted(): readonly FileChange[] {
    return this.#noted;
  }

  /** A temporary name beside `to` for preparing its new entry. */
  temporaryFor(to: DirEntry): string {
    const name = this.#temporaryName();
    this.#recorder.preparing?.(to, name);
    return name;
  }

  /** Drops the noted changes after `first`, because they were rolled back. */
  forget(first = 0): void {
    this.#noted.length = first;
  }

  /** Moves the entry prepared under a temporary name to `to` in one step. Gives the name that `keepsOld` uses. */
  put(temporary: string, to: DirEntry, putting: PutOptions): { aside?: string } {
    const { type, overwrite, created, copyOf, keepsOld = false, assertSame } = putting;
    const kind = created ? 'create' : 'modify';
    const asideName = keepsOld && !created ? { aside: this.#temporaryName() } : {};
    this.#recorder.recordBefore({
      type,
      at: to,
      temporary,
      ...asideName,
      ...(copyOf ? { kind: 'copy', from: copyOf } : { kind }),
    });
    // Checked last, so that only the step itself is between the check and the replacement.
    assertSame?.();
    const aside = asideName.aside && below(to.fd, asideName.aside);
    if (aside) attempt(to.path, () => fs.linkSync(below(to.fd, to.name), aside));
    try {
      settle(below(to.fd, temporary), to, { type, overwrite });
    } catch (error) {
      if (aside) fs.rmSync(aside, { force: true });
      throw error;
    }
    this.#note(to, type, kind);
    return asideName;
  }

  /** Replaces several prepared files: all of them or none. Hard links keep the old ones meanwhile. */
  putAll(files: readonly { temporary: string; to: DirEntry; assertSame: () => void }[]): void {
    const asides = files.map(() => this.#temporaryName());
    for (const [index, { to, temporary }] of files.entries())
      this.#recorder.recordBefore({ kind: 'modify', type: 'file', at: to, temporary, aside: asides[index] as string });
    const backups: { at: string; to: DirEntry }[] = [];
    try {
      // After a crash in between some files are new and some old; the recorder has all of them by now.
      for (const [index, { temporary, to, assertSame }] of files.entries()) {
        assertSame();
        const at = below(to.fd, asides[index] as string);
        attempt(to.path, () => fs.linkSync(below(to.fd, to.name), at));
        backups.push({ at, to });
        settle(below(to.fd, temporary), to, { type: 'file', overwrite: true });
      }
    } catch (error) {
      // Renaming a hard link onto its own file does nothing, hence the removal.
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

  /** Lets `change` write into the file at `at`. One that throws has changed nothing. */
  async editInPlace<T>(at: DirEntry, change: (changed: () => void) => Promise<T>): Promise<T> {
    const recorded = this.#recorder.recordInPlace?.(at);
    return change(() => {
      recorded?.();
      this.#note(at, 'file', 'modify');
    });
  }

  /** Moves the entry at `from`. Throws EXDEV unchanged if `to` is on another mount. */
  move(from: DirEntry, to: DirEntry, { type, overwrite }: { type: EntryType; overwrite: boolean }): void {
    this.#recorder.recordBefore({ kind: 'rename', type, at: to, from });
    settle(below(from.fd, from.name), to, { type, overwrite, fromPath: from.path });
    this.#note(to, type, 'rename', from);
  }

  /** Completes a recorded `move` across mounts: `temporary` is a copy beside `to`, `remove` deletes the original. */
  async moveByCopy(temporary: string, to: DirEntry, by: MoveByCopy): Promise<void> {
    settle(below(to.fd, temporary), to, by);
    this.#note(to, by.type, 'rename', by.from);
    await by.remove();
  }

  /** Removes an entry that is not a directory. */
  unlink(at: DirEntry, type: EntryType): void {
    this.#recorder.recordBefore({ kind: 'delete', type, at });
    attempt(at.path, () => fs.unlinkSync(below(at.fd, at.name)));
    this.#note(at, type, 'delete');
  }

  /** Removes a directory in one step by renaming it to a temporary name, which the caller then deletes. */
  setAside(at: DirEntry): string {
    const name = this.#temporaryName();
    this.#recorder.recordBefore({ kind: 'delete', type: 'directory', at, aside: name });
    attempt(at.path, () => fs.renameSync(below(at.fd, at.name), below(at.fd, name)));
    this.#note(at, 'directory', 'delete');
    return name;
  }

  /** Restores an entry that could not be deleted. */
  putBack(name: string, at: DirEntry): void {
    settle(below(at.fd, name), at, { type: 'directory', overwrite: false });
  }

  /** Makes a parent directory; `keepDirectory` notes it, since it is removed again if nothing is put into it. */
  makeDirectory(at: DirEntry): void {
    this.#recorder.recordBefore({ kind: 'mkdir', type: 'directory', at });
    makeDirectory(below(at.fd, at.name), 0o755);
  }

  /** Sets the permissions of a directory, which itself may not be open to us. */
  setMode(at: DirEntry, mode: number): void {
    this.#recorder.recordBefore({ kind: 'chmod', type: 'directory', at, mode });
    attempt(at.path, () => {
      using folder = openFile(below(at.fd, at.name), O_PATH | O_DIRECTORY | O_NOFOLLOW);
      fs.chmodSync(`/proc/self/fd/${folder.fd}`, mode);
    });
    this.#note(at, 'directory', 'modify');
  }

  keepDirectory(path: string): void {
    this.#noted.push({ path: `${path}/`, kind: 'create' });
  }

  /** A temporary name, in the directory of the final one. */
  #temporaryName(): string {
    return `.ringfence-${this.#powers.secret().slice(0, 16)}.tmp`;
  }

  #note({ path }: DirEntry, type: EntryType, kind: FileChange['kind'], from?: DirEntry): void {
    const named = (it: string) => (type === 'directory' && !it.endsWith('/') ? `${it}/` : it);
    this.#noted.push({ path: named(path), kind, from: from && named(from.path) });
  }
}

export interface MoveByCopy {
  readonly from: DirEntry;
  readonly type: EntryType;
  readonly overwrite: boolean;
  remove(): Promise<void>;
}

interface PendingMove {
  readonly type: EntryType;
  readonly overwrite: boolean;
  /** The path of the moved entry as the caller named it, if given. */
  readonly fromPath?: string;
}

/** Moves a prepared entry to its place in one step. Fails if anything is there, unless `overwrite` is set and it is not a directory. */
function settle(from: string, to: DirEntry, { type, overwrite, fromPath = to.path }: PendingMove): void {
  const at = below(to.fd, to.name);
  attempt(to.path, () => {
    if (type === 'directory') {
      // A rename replaces only an empty directory: the one made here, or one that somebody put in its place.
      fs.mkdirSync(at, 0o700);
      try {
        fs.renameSync(from, at);
      } catch (error) {
        fs.rmdirSync(at);
        throw error;
      }
    } else if (overwrite) fs.renameSync(from, at);
    else {
      fs.linkSync(from, at); // Fails if the name exists by now; a rename would replace it.
      try {
        attempt(fromPath, () => fs.unlinkSync(from));
      } catch (error) {
        fs.unlinkSync(at); // The old name stays, so the new one must go.
        throw error;
      }
    }
  });
}

/** Runs one step, and turns its error into a tool's error, except EXDEV, which callers handle. */
function attempt<T>(path: string, step: () => T): T {
  try {
    return step();
  } catch (error) {
    throw toChangeError(error, path);
  }
}

/** Turns an error of a change into a tool's error. */
export function toChangeError(error: unknown, path: string): unknown {
  if (error instanceof ToolError) return error;
  switch (codeOf(error)) {
    case 'EXDEV':
      return error;
    case 'EBUSY':
      // A mount point: the policy protects the name itself.
      return new ToolError('SANDBOX_DENIED', `\`${path}\` is a mount of this sandbox and can't be changed`, {
        details: { path },
      });
    case 'EEXIST':
    case 'ENOTEMPTY':
      return exists(path);
    case 'EISDIR':
    case 'ENOTDIR':
      return new ToolError('CONFLICT', `\`${path}\` changed while it was used`);
    case 'EINVAL':
      return new ToolError('INPUT_INVALID', `\`${path}\` lies inside the directory that would be moved there`);
    default:
      return toAccessError(error, path);
  }
}

/** ALREADY_EXISTS with the same message everywhere. */
export const exists = (path: string): ToolError =>
  new ToolError('ALREADY_EXISTS', `\`${path}\` exists and overwrite is false`);

/** Writes a new file under a free name, and flushes it to disk, unless the caller does. */
export function writeNew(at: string, mode: number, chunks: Iterable<Uint8Array>, flushes = true): void {
  for (const _ of writingNew(at, mode, chunks, flushes)); // Runs to the end without a pause.
}

/**
 * Writes a new file in steps: pauses after each `FLUSH_BYTES`, which are then flushed. A caller that stops early
 * leaves a partial file.
 */
export function* writingNew(
  at: string,
  mode: number,
  chunks: Iterable<Uint8Array>,
  flushes = true,
): Generator<void, void> {
  using opened = openFile(at, O_CREAT | O_EXCL | O_NOFOLLOW | O_WRONLY, 0o600);
  let unflushed = 0;
  for (const chunk of inSteps(chunks)) {
    writeAll(opened.fd, chunk);
    unflushed += chunk.length;
    if (unflushed < FLUSH_BYTES) continue;
    unflushed = 0;
    fs.fdatasyncSync(opened.fd);
    yield;
  }
  fs.fchmodSync(opened.fd, mode);
  if (flushes) fs.fsyncSync(opened.fd);
}

/**
 * Bytes between two flushes. A flush can't be interrupted, so a call out of time waits for the present one; a single
 * flush at the end kept such calls for seconds on a busy disk.
 */
const FLUSH_BYTES = 8 * 1024 * 1024;

function* inSteps(chunks: Iterable<Uint8Array>): Generator<Uint8Array> {
  for (const chunk of chunks)
    for (let at = 0; at < chunk.length; at += FLUSH_BYTES) yield chunk.subarray(at, at + FLUSH_BYTES);
}

/** Writes all of `bytes`, in as many writes as the kernel needs. */
export function writeAll(fd: number, bytes: Uint8Array): void {
  for (let at = 0; at < bytes.length; ) at += fs.writeSync(fd, bytes, at);
}

const CHUNK_BYTES = 1024 * 1024;

/** Reads an open file from its present position, at most `bytesMax` bytes. The chunks share one buffer. */
export function* chunksOf(fd: number, bytesMax: number): Generator<Uint8Array> {
  const chunk = Buffer.allocUnsafe(Math.min(CHUNK_BYTES, Math.max(1, bytesMax)));
  for (let left = bytesMax; left > 0; ) {
    const got = fs.readSync(fd, chunk, 0, Math.min(left, chunk.length), null);
    if (got === 0) return;
    yield chunk.subarray(0, got);
    left -= got;
  }
}

/** Makes a directory with these permissions under any umask; our hosts have the strictest. */
export function makeDirectory(at: string, mode: number): void {
  fs.mkdirSync(at, 0o700);
  using folder = openFile(at, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  // An entry that somebody put in its place keeps its own permissions.
  if ((fs.fstatSync(folder.fd).mode & 0o7777) === 0o700) fs.fchmodSync(folder.fd, mode);
}
