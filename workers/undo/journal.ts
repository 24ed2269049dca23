/** The undo journal of one job: what a change replaces is on disk before the change becomes visible. */
import * as fs from 'node:fs';
import type { FileChange } from '../../src/base/call.ts';
import { roomIn } from '../../src/base/disk.ts';
import type { Limits } from '../../src/base/limits.ts';
import type { JournalReport } from '../../src/hosts/shadow/journal-report.ts';
import { below, codeOf } from '../context/anchor.ts';
import type { Change, ChangeRecorder, DirEntry } from './changes.ts';
import { type BlobKeeper, boundsOf, imageAt, isKept, NONE, UNKNOWN } from './images.ts';
import { type Blob, type Image, type JournalEntry, Spool } from './spool.ts';

export interface JournalLocation {
  /** Absolute path of the workspace's spool. */
  readonly folder: string;
  /** Key of the call. */
  readonly key: string;
}

/** Stores the blobs of one call; small ones wait in memory to be written. */
class BlobWriter implements BlobKeeper {
  readonly pending: Buffer[] = [];
  readonly #spool: Spool;
  #at = 0;

  constructor(spool: Spool) {
    this.#spool = spool;
  }

  keepSmall(bytes: Buffer): Blob {
    const blob = { at: this.#at, bytes: bytes.length };
    this.#at += bytes.length;
    this.pending.push(bytes);
    return blob;
  }

  large(fd: number, size: number): { blob: Blob; path: string } {
    const { file, path } = this.#spool.keepLarge(fd, size);
    return { blob: { file, bytes: size }, path };
  }
}

export class Journal implements ChangeRecorder, Disposable {
  readonly #spool: Spool;
  readonly #limits: Limits;
  readonly #bounds: ReturnType<typeof boundsOf>;
  readonly #paths = new Set<string>();
  /** Number of changes that can be undone, and of those that can't. */
  #undoableChanges = 0;
  #lostChanges = 0;
  #defers = false;

  constructor({ folder, key }: JournalLocation, limits: Limits) {
    this.#spool = new Spool(folder, key);
    this.#limits = limits;
    this.#bounds = boundsOf(limits, roomIn(folder, limits));
  }

  preparing({ realPath }: DirEntry, temporary: string): void {
    try {
      this.#spool.note({ kind: 'prepare', path: realPath, pre: NONE, post: NONE, passing: [temporary] });
    } catch (error) {
      this.#failed(error);
    }
  }

  /** Keeps what a change replaces. Never refuses a change: one that can't be kept can't be undone, and the result says so. */
  recordBefore(change: Change): void {
    const { journalTextBytesMax } = this.#limits;
    const keeper = new BlobWriter(this.#spool);
    let entry: JournalEntry;
    try {
      entry = this.#entryOf(change, keeper, journalTextBytesMax);
      if (this.#defers) this.#spool.write(entry, keeper.pending);
      else this.#spool.append(entry, keeper.pending);
    } catch (error) {
      this.#failed(error);
      this.#lostChanges += 1;
      return;
    }
    for (const path of [entry.path, entry.from]) if (path !== undefined) this.#paths.add(path);
    if (isUndoable(entry)) this.#undoableChanges += 1;
    else this.#lostChanges += 1;
  }

  /**
   * Keeps a file that will be changed in place: an entry before the change, so that a crash leaves the old content, and
   * one after it with both images. Undo goes by the later one.
   */
  recordInPlace(at: DirEntry): () => void {
    const keeper = new BlobWriter(this.#spool);
    const base = { kind: 'modify', path: at.realPath } as const;
    this.#paths.add(at.realPath);
    this.#lostChanges += 1;
    let pre: Image = UNKNOWN;
    try {
      pre = this.#readImage(at, keeper);
      this.#spool.append({ ...base, pre, post: UNKNOWN }, keeper.pending);
    } catch (error) {
      this.#failed(error);
    }
    return () => {
      const entry = { ...base, pre, post: this.#readImage(at) };
      try {
        this.#spool.append(entry, keeper.pending);
      } catch (error) {
        return this.#failed(error);
      }
      if (!isUndoable(entry)) return;
      this.#lostChanges -= 1;
      this.#undoableChanges += 1;
    };
  }

  defer(): void {
    this.#defers = true;
  }

  flush(): void {
    this.#defers = false;
    try {
      this.#spool.flush();
    } catch (error) {
      this.#failed(error);
    }
  }

  /** Ends the journal; gives its report, or undefined if nothing was changed. */
  end(changed: readonly FileChange[]): JournalReport | undefined {
    using spool = this.#spool;
    if (changed.length === 0) {
      spool.remove();
      return undefined;
    }
    const undo = this.#undoableChanges === 0 ? 'none' : this.#lostChanges === 0 ? 'full' : 'partial';
    return { undo, bytes: spool.bytes, paths: [...this.#paths] };
  }

  [Symbol.dispose](): void {
    this.#spool[Symbol.dispose]();
  }

  /** Logs that the spool's disk is full or failing, and lets the change go on. */
  #failed(error: unknown): void {
    if (codeOf(error) === undefined) throw error;
    console.error(error);
  }

  #entryOf(change: Change, keeper: BlobWriter, textBytesMax: number): JournalEntry {
    const { kind, at, from, temporary, aside } = change;
    if (kind === 'chmod') return chmodEntry(change);
    const pre = kind === 'mkdir' ? NONE : this.#readImage(at, keeper);
    const post = (): Image => {
      if (kind === 'delete') return NONE;
      if (kind === 'mkdir') return { type: 'directory', mode: 0o755, hash: '' };
      if (kind === 'rename') return from ? this.#readImage(from) : UNKNOWN;
      if (temporary === undefined) return UNKNOWN;
      const made = { fd: at.fd, name: temporary };
      const stat = fs.lstatSync(below(made.fd, made.name));
      const isText = pre.type === 'file' && stat.isFile() && stat.size <= textBytesMax;
      // A later merge needs both contents.
      return this.#readImage(made, isText ? keeper : undefined);
    };
    return {
      kind,
      path: at.realPath,
      pre,
      post: post(),
      ...(kind === 'rename' && from && { from: from.realPath }),
      ...(aside !== undefined && { passing: [aside] }),
    };
  }

  /** Kept content counts towards the whole call's bound; content only looked at, by itself. */
  #readImage(spot: { fd: number; name: string }, keeper?: BlobWriter): Image {
    return imageAt(spot, keeper ? this.#bounds : boundsOf(this.#limits), keeper);
  }
}

/** The content of the directory does not change, and is not looked at. */
export const modeImage = (mode: number): Image => ({ type: 'directory', mode: mode & 0o777, hash: '', entries: [] });

function chmodEntry({ at, mode = 0 }: Change): JournalEntry {
  const now = fs.lstatSync(below(at.fd, at.name)).mode;
  return { kind: 'chmod', path: at.realPath, pre: modeImage(now), post: modeImage(mode) };
}

const isUndoable = ({ pre, post }: JournalEntry): boolean => isKept(pre) && post.type !== 'unknown';
