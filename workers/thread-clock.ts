/** CPU time of jobs by the clock of their thread. Jobs that share a thread share what it uses while they are in it, in equal parts. */
import { statOf } from '../src/sandbox/proc.ts';
import type { JobPlaces } from './job-places.ts';

/** In a worker thread: what each of its jobs used, for its result. */
export class JobClock {
  readonly #used = new Map<number, number>();
  #seenMs = 0;

  /** Gives the thread's clock. */
  begin(job: number): number {
    const nowMs = this.#share();
    this.#used.set(job, 0);
    return nowMs;
  }

  /** 0 where it was told already. */
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

/** A job that used more CPU time than it may. */
export interface OverTime {
  readonly limit: number;
  readonly used: number;
}

interface Watched {
  readonly place: number;
  readonly cpuMs: number | undefined;
  usedMs: number;
  /** The thread's clock when it was looked at last. */
  seenMs: number | undefined;
  /** Whether another job was ever in its thread: then what it used itself is not known. */
  shared: boolean;
  told: boolean;
}

export interface ThreadWatchOptions {
  readonly places: JobPlaces;
  readonly everyMs: number;
  /** Called once of a job that was alone in its thread all the time. */
  onOver(job: number, over: OverTime): void;
  /** Called of a thread of several jobs, of which one is over its limit, and nobody knows which. */
  onSharedOver(threadId: number): void;
}

/** In the main thread of a host, which no job keeps busy: looks at the clocks of threads whose jobs have a limit. */
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

  /** Jobs that were begun, by the kernel's number of their thread. */
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
