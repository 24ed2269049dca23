/**
 * Keeps room for the audit log and other essential files on the disk of the state directory. Data kept for convenience is dropped for it,
 * oldest first: answers of web servers, outputs of calls, then undo data.
 */
import { readdirSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { type Disk, diskOf, reserveOf } from '../base/disk.ts';
import type { Limits } from '../base/limits.ts';
import type { Powers, Timer } from '../base/powers.ts';

/** Drops the oldest item immediately; false if nothing is left to drop. */
export type DropOldest = () => boolean;

export interface DiskRoomOptions {
  readonly stateDir: string;
  readonly limits: Limits;
  readonly powers: Powers;
  /** Measures the disk; the disk of `stateDir` by default. */
  readonly readDisk?: () => Disk;
}

/** Longest age of the disk measurement while data is being kept, in milliseconds. */
const LOOK_MS = 100;
/** Milliseconds between measurements otherwise, since other programs fill disks as well. */
const WATCH_MS = 5_000;
/** Kinds of droppable data, in the order in which they are dropped. */
const ORDER = ['web', 'results', 'undo'] as const;

export class DiskRoom implements Disposable {
  readonly #options: DiskRoomOptions;
  readonly #tenants = new Map<(typeof ORDER)[number], DropOldest>();
  #disk: Disk;
  #lookedAtMs: number;
  /** Bytes written since that measurement. */
  #writtenBytes = 0;
  /** Bytes of files that are being removed. */
  #leavingBytes = 0;
  #watch: Timer | undefined;
  #isLow = false;

  constructor(options: DiskRoomOptions) {
    this.#options = options;
    this.#disk = this.#readDisk();
    this.#lookedAtMs = options.powers.monotonicMs();
    this.#watchLater();
  }

  /** Reported by `status`. */
  get status(): { freeBytes: number; reserveBytes: number; advice?: string } {
    const { freeBytes } = this.#currentDisk();
    const reserveBytes = reserveOf(this.#disk, this.#options.limits);
    const { stateDir } = this.#options;
    return { freeBytes, reserveBytes, ...(freeBytes < reserveBytes && { advice: adviceFor(stateDir) }) };
  }

  /** Registers the function that drops the oldest item of a kind. */
  register(kind: (typeof ORDER)[number], drop: DropOldest): void {
    this.#tenants.set(kind, drop);
  }

  /** Whether `bytes` more may be kept, in addition to `waitingBytes` that are about to be written. */
  has(bytes: number, waitingBytes = 0): boolean {
    const { powers, limits } = this.#options;
    if (powers.monotonicMs() - this.#lookedAtMs > LOOK_MS) this.#currentDisk();
    const free = this.#disk.freeBytes - this.#writtenBytes - waitingBytes + this.#leavingBytes;
    return free - bytes >= reserveOf(this.#disk, limits);
  }

  /** Counts bytes that are now on the disk. */
  wrote(bytes: number): void {
    this.#writtenBytes += bytes;
  }

  /** Counts a file of `bytes` as being removed until `done` settles. */
  leaves(bytes: number, done: Promise<unknown>): void {
    this.#leavingBytes += bytes;
    const gone = () => {
      this.#leavingBytes -= bytes;
      this.#lookedAtMs = Number.NEGATIVE_INFINITY;
    };
    done.then(gone, gone);
  }

  /** Drops data until the reserve is free. Returns whether anything was dropped. */
  makeRoom(): boolean {
    let hasDropped = false;
    this.#currentDisk();
    while (!this.has(0)) {
      if (!ORDER.some((kind) => this.#dropOne(kind))) break;
      hasDropped = true;
      this.#currentDisk();
    }
    this.#tellWhenLow();
    return hasDropped;
  }

  /** Drops the oldest item of a kind; false if there is none, or if the disk is too full even to note that it is gone. */
  #dropOne(kind: (typeof ORDER)[number]): boolean {
    try {
      return this.#tenants.get(kind)?.() === true;
    } catch (error) {
      // Not thrown: the callers are a timer and the audit log, which reports its own failure.
      // Logged once while the disk is low.
      if (!this.#isLow)
        this.#options.powers.log.warn({ error, kind }, 'nothing could be dropped to make room on the disk');
      return false;
    }
  }

  [Symbol.dispose](): void {
    this.#watch?.cancel();
  }

  #readDisk(): Disk {
    const { readDisk, stateDir } = this.#options;
    return readDisk ? readDisk() : diskOf(stateDir);
  }

  #currentDisk(): Disk {
    this.#disk = this.#readDisk();
    this.#lookedAtMs = this.#options.powers.monotonicMs();
    this.#writtenBytes = 0;
    return this.#disk;
  }

  #watchLater(): void {
    this.#watch = this.#options.powers.after(WATCH_MS, () => {
      this.#currentDisk();
      if (this.has(0)) this.#isLow = false;
      else this.makeRoom();
      this.#watchLater();
    });
  }

  #tellWhenLow(): void {
    const wasLow = this.#isLow;
    this.#isLow = !this.has(0);
    const { powers, stateDir } = this.#options;
    if (this.#isLow && !wasLow)
      powers.log.warn({ ...this.status }, `the disk has little space for the audit log: ${adviceFor(stateDir)}`);
  }
}

/**
 * Makes room before any database is opened, which fails on a full disk that an earlier daemon may have filled. Returns advice for a person
 * if not enough room could be made.
 */
export function makeRoomAtStart(stateDir: string, limits: Limits, { log }: Pick<Powers, 'log'>): string | undefined {
  const isLow = () => {
    const disk = diskOf(stateDir);
    return disk.freeBytes < reserveOf(disk, limits);
  };
  if (!isLow()) return undefined;
  let dropped = 0;
  for (const path of [...oldestFirst(join(stateDir, 'results')), ...oldestFirst(join(stateDir, 'journal'))]) {
    if (!isLow()) break;
    rmSync(path, { force: true });
    dropped += 1;
  }
  if (dropped > 0) log.warn({ dropped }, 'the disk was full: deleted kept outputs and undo data');
  return diskOf(stateDir).freeBytes < START_BYTES ? adviceFor(stateDir) : undefined;
}

/** Bytes that the databases need before the first call. */
const START_BYTES = 2 * 1024 * 1024;

interface StoredFile {
  readonly path: string;
  readonly bytes: number;
  readonly mtimeMs: number;
}

/** All files below a folder without following links; none if the folder is missing. */
function filesIn(folder: string): StoredFile[] {
  let entries: ReturnType<typeof readDirectory>;
  try {
    entries = readDirectory(folder);
  } catch {
    return []; // ENOENT: nothing has been kept yet.
  }
  return entries.flatMap((it): StoredFile[] => {
    const path = join(folder, it.name);
    if (it.isDirectory()) return filesIn(path);
    const stat = it.isFile() ? statSync(path, { throwIfNoEntry: false }) : undefined;
    return stat ? [{ path, bytes: stat.size, mtimeMs: stat.mtimeMs }] : [];
  });
}

const readDirectory = (folder: string) => readdirSync(folder, { withFileTypes: true });

const oldestFirst = (folder: string): string[] =>
  filesIn(folder)
    .sort((a, b) => a.mtimeMs - b.mtimeMs)
    .map((it) => it.path);

/** Files that must not be deleted: the audit log, and what the daemon needs to run. */
const RECORD =
  /^(audit|approvals|costs|calls|tools|providers|undo)\.(db|db-wal|db-shm|key|checkpoints)$|\.token$|^daemon\.lock/;
const TOLD_MAX = 3;

/** Names the largest deletable files in the state directory, in words for a person. */
function adviceFor(stateDir: string): string {
  const largest = filesIn(stateDir)
    .filter(({ path }) => !RECORD.test(path.slice(stateDir.length + 1)))
    .sort((a, b) => b.bytes - a.bytes)
    .slice(0, TOLD_MAX)
    .map(({ path, bytes }) => `${path} (${Math.ceil(bytes / 1024)} KiB)`);
  const own = largest.length > 0 ? `delete ${largest.join(', ')}, or ` : '';
  return `${own}make room on the disk of ${stateDir}, or name another one with --state`;
}
