/** A clock that a test may move forward: time passes as ever, and `advance` skips some of it. */
import type { Powers, Timer } from '../base/powers.ts';

interface Waiting {
  readonly dueMs: number;
  fire(): void;
  /** Waits for what is left of the time. */
  wait(): void;
  stop(): void;
}

export class MovableClock {
  readonly #base: Powers;
  /** Milliseconds by which this clock is ahead of a clock that nobody moves. */
  #skippedMs = 0;
  /** Milliseconds between this clock's first `now` and the system's. */
  readonly #startMs: number;
  readonly #waiting = new Set<Waiting>();

  /** `startMs` is the time, in milliseconds since the epoch, that the clock shows first; the system's when absent. */
  constructor(base: Powers, startMs?: number) {
    this.#base = base;
    this.#startMs = startMs === undefined ? 0 : startMs - base.now();
  }

  /** The powers that it was made of, with this clock. */
  get powers(): Powers {
    return {
      ...this.#base,
      now: () => this.now(),
      monotonicMs: () => this.#monotonicMs(),
      after: (delayMs, fn) => this.#after(delayMs, fn),
      every: (everyMs, fn) => this.#every(everyMs, fn),
    };
  }

  now(): number {
    return Math.round(this.#base.now() + this.#startMs + this.#skippedMs);
  }

  /**
   * Moves the clock, as if the machine had slept for `ms`: each timer that is due by then fires once, in the order in
   * which they were due.
   */
  advance(ms: number): void {
    if (!Number.isFinite(ms) || ms < 0) throw new RangeError(`a clock moves by 0 ms or more, not by ${ms}`);
    this.#skippedMs += ms;
    const nowMs = this.#monotonicMs();
    const all = [...this.#waiting];
    for (const it of all) it.stop();
    const due = all.filter((it) => it.dueMs <= nowMs).toSorted((a, b) => a.dueMs - b.dueMs);
    for (const it of all) if (it.dueMs > nowMs) it.wait();
    // A timer that fires may cancel one that is due, too.
    for (const it of due) if (this.#waiting.has(it)) it.fire();
  }

  #monotonicMs(): number {
    return this.#base.monotonicMs() + this.#skippedMs;
  }

  #after(delayMs: number, fn: () => void): Timer {
    let timer: Timer | undefined;
    const waiting: Waiting = {
      dueMs: this.#monotonicMs() + delayMs,
      fire: () => {
        timer?.cancel();
        this.#waiting.delete(waiting);
        fn();
      },
      wait: () => {
        timer = this.#base.after(Math.max(0, waiting.dueMs - this.#monotonicMs()), waiting.fire);
      },
      stop: () => timer?.cancel(),
    };
    this.#waiting.add(waiting);
    waiting.wait();
    return {
      cancel: () => {
        timer?.cancel();
        this.#waiting.delete(waiting);
      },
    };
  }

  #every(everyMs: number, fn: () => void): Timer {
    let timer: Timer;
    const begin = () => {
      timer = this.#after(everyMs, () => {
        begin();
        fn();
      });
    };
    begin();
    return { cancel: () => timer.cancel() };
  }
}
