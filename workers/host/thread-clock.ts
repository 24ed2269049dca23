/**
 * Measures the CPU time of jobs by the clock of their thread. Jobs that share a thread are charged equal parts of the
 * time in which they do.
 */
import { statOf } from '../../src/sandbox/proc.ts';
import type { JobPlaces } from './thread-slots.ts';

/** Adds up the CPU time of each job, in a worker thread. */
export class JobClock {
  readonly #used = new Map<number, number>();
  #seenMs = 0;

  /** Begins a job; gives the thread's CPU time in ms. */
  begin(job: number): number {
    const nowMs = this.#share();
    this.#used.set(job, 0);
    return nowMs;
  }

  /** Ends a job; gives its CPU time in ms, 0 if it was given before. */
  end(job: number): number {
    if (!this.#used.has(job)) return 0;
    this.#share();
    const usedMs = this.#used.get(job) ?? 0;
    this.#used.delete(job);
    return usedMs;
  }

  #share(): number {
    const { user, system } = process.threadCpuUsage();
    const nowMs = (user + system) / 1000;
    const sinceMs = nowMs - this.#seenMs;
    this.#seenMs = nowMs;
    for (const [job, usedMs] of this.#used) this.#used.set(job, usedMs + sinceMs / this.#used.size);
    return nowMs;
  }
}

/** The limit and the CPU time of a job that exceeded it, in ms. */
export interface OverTime {
  readonly limit: number;
  readonly used: number;
}

interface Watched {
  readonly place: number;
  readonly cpuMs: number | undefined;
  usedMs: number;
  /** The thread's CPU time at the last look. */
  seenMs: number | undefined;
  /** Whether another job was ever in its thread, so that its own use is unknown. */
  shared: boolean;
  told: boolean;
}

export interface ThreadWatchOptions {
  readonly places: JobPlaces;
  readonly everyMs: number;
  /** Called once for a job over its limit that was always alone in its thread. */
  onOver(job: number, over: OverTime): void;
  /** Called for a thread with several jobs, one of which is over its limit; nobody knows which. */
  onSharedOver(threadId: number): void;
}

/** Watches the clocks of threads whose jobs have a limit; runs in a host's main thread, which no job blocks. */
export class ThreadWatch {
  readonly #jobs = new Map<number, Watched>();
  readonly #options: ThreadWatchOptions;
  #limited = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(options: ThreadWatchOptions) {
    this.#options = options;
  }

  begin(job: number, place: number, cpuMs: number | undefined): void {
    this.#jobs.set(job, { place, cpuMs, usedMs: 0, seenMs: undefined, shared: false, told: false });
    if (cpuMs === undefined) return;
    this.#limited += 1;
    this.#timer ??= setInterval(() => this.#look(), this.#options.everyMs);
  }

  end(job: number): void {
    const known = this.#jobs.get(job);
    this.#jobs.delete(job);
    if (known?.cpuMs === undefined) return;
    this.#limited -= 1;
    if (this.#limited > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  #look(): void {
    for (const [thread, jobs] of this.#byThread()) {
      const nowMs = statOf(`self/task/${thread}`)?.ownCpuMs;
      if (nowMs !== undefined) this.#count(jobs, nowMs);
    }
  }

  /** Jobs in progress, grouped by the kernel's id of their thread. */
  #byThread(): Map<number, [number, Watched][]> {
    const threads = new Map<number, [number, Watched][]>();
    for (const [id, job] of this.#jobs) {
      const seat = this.#options.places.seatOf(job.place);
      if (!seat) continue;
      job.seenMs ??= seat.begunMs;
      const mates = threads.get(seat.taskId);
      if (mates) mates.push([id, job]);
      else threads.set(seat.taskId, [[id, job]]);
    }
    return threads;
  }

  #count(jobs: readonly [number, Watched][], nowMs: number): void {
    for (const [id, job] of jobs) {
      job.usedMs += Math.max(0, nowMs - (job.seenMs ?? nowMs)) / jobs.length;
      job.seenMs = nowMs;
      job.shared ||= jobs.length > 1;
      if (job.cpuMs === undefined || job.usedMs <= job.cpuMs || job.told) continue;
      job.told = true;
      const seat = this.#options.places.seatOf(job.place);
      if (!job.shared) this.#options.onOver(id, { limit: job.cpuMs, used: Math.round(job.usedMs) });
      else if (seat) this.#options.onSharedOver(seat.threadId);
    }
  }
}
