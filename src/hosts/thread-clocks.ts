/**
 * Holds jobs to their CPU time by the clocks of their threads, which a host reads on demand. Jobs that share a thread
 * are charged equal parts of the time in which they do.
 */
import type { Powers, Timer } from '../base/powers.ts';
import type { ThreadClock } from './job.ts';

/** The limit and the CPU time of a job that exceeded it, in ms. */
export interface OverTime {
  readonly limit: number;
  readonly used: number;
}

export interface JobInThread {
  readonly id: number;
  /** How many jobs were sent to the thread before. */
  readonly index: number;
}

interface LimitedJob {
  readonly limitMs: number;
  usedMs: number;
  /** The thread's CPU time at the last look. */
  seenMs: number | undefined;
  /** Whether another job was ever seen in its thread, so that its own use is unknown. */
  isShared: boolean;
  isOver: boolean;
}

export interface ThreadClocksOptions {
  readonly everyMs: number;
  readonly powers: Pick<Powers, 'after'>;
  /** Asks the host for the clocks of the threads with these jobs. */
  look(jobs: Iterable<number>): void;
  /** Called once for a job over its limit that was always alone in its thread. */
  onOver(job: number, over: OverTime): void;
  /** Called for a thread with several jobs, one of which is over its limit; nobody knows which. */
  onSharedOver(thread: number): void;
}

export class ThreadClocks implements Disposable {
  readonly #jobs = new Map<number, LimitedJob>();
  readonly #options: ThreadClocksOptions;
  #timer: Timer | undefined;
  #answer: PromiseWithResolvers<void> | undefined;

  constructor(options: ThreadClocksOptions) {
    this.#options = options;
  }

  begin(job: number, limitMs: number): void {
    this.#jobs.set(job, { limitMs, usedMs: 0, seenMs: undefined, isShared: false, isOver: false });
    if (!this.#timer) this.#lookLater();
  }

  end(job: number): void {
    this.#jobs.delete(job);
  }

  /** Asks the host for no clocks; resolves when it answers any question about clocks. */
  answers(): Promise<void> {
    this.#answer ??= Promise.withResolvers();
    this.#options.look([]);
    return this.#answer.promise;
  }

  /** Takes an answer of the host; `inside` gives the jobs in a thread. */
  takeAll(clocks: readonly ThreadClock[], inside: (thread: number) => readonly JobInThread[]): void {
    this.#answer?.resolve();
    this.#answer = undefined;
    for (const it of clocks) this.take(it, inside(it.thread));
  }

  /** Takes the clock of a thread that has these jobs in progress, some of which it may not have begun. */
  take({ thread, cpuMs, begun, begunMs }: ThreadClock, jobs: readonly JobInThread[]): void {
    const inside = jobs.filter((it) => it.index < begun);
    for (const { id, index } of inside) {
      const job = this.#jobs.get(id);
      if (!job) continue;
      // The thread tells the time only of its newest job.
      job.seenMs ??= index === begun - 1 ? begunMs : cpuMs;
      job.usedMs += Math.max(0, cpuMs - job.seenMs) / inside.length;
      job.seenMs = cpuMs;
      job.isShared ||= inside.length > 1;
      if (job.usedMs <= job.limitMs || job.isOver) continue;
      job.isOver = true;
      if (job.isShared) this.#options.onSharedOver(thread);
      else this.#options.onOver(id, { limit: job.limitMs, used: Math.round(job.usedMs) });
    }
  }

  [Symbol.dispose](): void {
    this.#jobs.clear();
    this.#timer?.cancel();
  }

  #lookLater(): void {
    this.#timer = this.#options.powers.after(this.#options.everyMs, () => {
      this.#timer = undefined;
      if (this.#jobs.size === 0) return;
      this.#options.look(this.#jobs.keys());
      this.#lookLater();
    });
  }
}
