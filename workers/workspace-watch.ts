/** Reports what changes in a host's workspace while commands run, using a watching thread. */
import { extname } from 'node:path';
import { Worker } from 'node:worker_threads';
import type { FilesChanged } from '../src/hosts/job.ts';
import type { Limits } from '../src/limits.ts';
import type { Powers } from '../src/powers.ts';
import type { WatchBounds } from './watch/watched-names.ts';

export interface WatchSetup extends Omit<WatchBounds, 'queueMax'> {
  readonly workspace: string;
}
export interface WatchMessage {
  readonly run: number;
  readonly over?: true;
}
/** Without `changed`, acknowledges that changes count from now on. */
export interface FromWatch {
  readonly run: number;
  readonly changed?: FilesChanged;
}

/** The most paths checked; each check takes up to 70 µs. */
const JUDGED_MAX = 1000;

export class WorkspaceWatch {
  readonly #worker: Worker;
  readonly #limits: Limits;
  readonly #powers: Powers;
  readonly #pendingAnswers = new Map<number, (answer: FromWatch | undefined) => void>();
  #runs = 0;
  #isLost = false;

  /** `workspace` is absolute and without links. */
  constructor(workspace: string, limits: Limits, powers: Powers) {
    this.#limits = limits;
    this.#powers = powers;
    this.#worker = new Worker(new URL(`./watch-thread${extname(import.meta.url)}`, import.meta.url), {
      workerData: {
        workspace,
        directoriesMax: limits.watchedDirectoriesMax,
        namesMax: limits.watchedNamesMax,
      } satisfies WatchSetup,
      // The young generation holds one turn's events; without a bound V8 takes 16 MiB for it.
      resourceLimits: { maxOldGenerationSizeMb: limits.watchHeapMb, maxYoungGenerationSizeMb: 2 },
    });
    this.#worker.unref();
    this.#worker.on('message', (message: FromWatch) => this.#pendingAnswers.get(message.run)?.(message));
    // Out of memory, or no /proc.
    this.#worker.on('error', () => this.#onLost());
  }

  /** Begins to count changes; resolves when a command may start. */
  async begin(): Promise<WatchedRun> {
    const run = ++this.#runs;
    const began = await this.#requestAnswer({ run });
    return { end: (isRefused) => this.#endRun({ run, isLate: began === undefined }, isRefused) };
  }

  async #endRun({ run, isLate }: { run: number; isLate: boolean }, isRefused: IsRefused): Promise<FilesChanged> {
    const answer = await this.#requestAnswer({ run, over: true });
    if (this.#isLost) return { unknown: 'unwatched' };
    if (isLate || !answer?.changed) return { unknown: 'late' };
    const { changed } = answer;
    if ('unknown' in changed) return changed;
    const shown = changed.files.slice(0, JUDGED_MAX).filter(({ path }) => !isRefused(path));
    const total = changed.total - (changed.files.length - shown.length);
    return { files: shown.slice(0, this.#limits.filesChangedMax), total };
  }

  /** The thread's answer; undefined if it did not come in time, because the thread is busy or gone. */
  #requestAnswer(message: WatchMessage): Promise<FromWatch | undefined> {
    if (this.#isLost) return Promise.resolve(undefined);
    return new Promise((resolve) => {
      const settle = (answer?: FromWatch) => {
        timer.cancel();
        this.#pendingAnswers.delete(message.run);
        resolve(answer);
      };
      const timer = this.#powers.after(this.#limits.watchAnswerMs, settle);
      this.#pendingAnswers.set(message.run, settle);
      this.#worker.postMessage(message);
    });
  }

  #onLost(): void {
    this.#isLost = true;
    for (const settle of this.#pendingAnswers.values()) settle(undefined);
  }
}

type IsRefused = (path: string) => boolean;

export interface WatchedRun {
  /** The changes since then, without paths for which `isRefused` is true. */
  end(isRefused: IsRefused): Promise<FilesChanged>;
}
