/** Measures the CPU time of jobs by the clock of their thread. Jobs that share a thread are charged equal parts of the time in which they do. */
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
    const nowMs = threadCpuMs();
    const sinceMs = nowMs - this.#seenMs;
    this.#seenMs = nowMs;
    for (const [job, usedMs] of this.#used) this.#used.set(job, usedMs + sinceMs / this.#used.size);
    return nowMs;
  }
}

/** CPU time of this thread in ms. */
export function threadCpuMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
}
