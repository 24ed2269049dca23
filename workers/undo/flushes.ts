/** Flushes many new files together: each by itself takes the disk some milliseconds. */
import * as fs from 'node:fs';
import { promisify } from 'node:util';

const { O_NOFOLLOW, O_RDONLY } = fs.constants;
const fsync = promisify(fs.fsync);
/** Files that are open at most while they wait. */
const WAITING_MAX = 128;

/** A journal that flushes what it records with the files. */
interface Recorder {
  defer?(): void;
  flush?(): void;
}

export class Flushes {
  readonly #recorder: Recorder;
  /** Open files that are not flushed yet; undefined while each is flushed at once. */
  #waiting: number[] | undefined;

  constructor(recorder: Recorder) {
    this.#recorder = recorder;
  }

  /** Whether new files wait for `flush`. */
  get defers(): boolean {
    return this.#waiting !== undefined;
  }

  /** Flushes nothing from now on until `flush`. A crash of this process loses nothing by that; a power cut may. */
  defer(): void {
    this.#recorder.defer?.();
    this.#waiting = [];
  }

  /** Keeps a new file for `flush`. */
  add(at: string): void {
    this.#waiting?.push(fs.openSync(at, O_RDONLY | O_NOFOLLOW));
  }

  /** Flushes what waits if enough does; at the end, all of it. */
  async flush({ isEnd }: { isEnd: boolean }): Promise<void> {
    const waiting = this.#waiting ?? [];
    if (!isEnd && waiting.length < WAITING_MAX) return;
    this.#waiting = isEnd ? undefined : [];
    if (isEnd) this.#recorder.flush?.();
    // The disk takes many at once nearly as fast as one.
    await Promise.allSettled(waiting.map((fd) => fsync(fd).finally(() => fs.closeSync(fd))));
  }
}
