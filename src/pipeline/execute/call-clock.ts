import type { Powers, Timer } from '../../base/powers.ts';

/** The remaining time of a program or a task. The clock stops while one of the program's calls waits for a person, up to a bound. */
export class CallClock {
  readonly #powers: Powers;
  readonly #onEnd: () => void;
  #leftMs: number;
  #pauseLeftMs: number;
  #sinceMs = 0;
  #pauses = 0;
  #timer: Timer | undefined;

  constructor(ms: number, { powers, pausedMsMax }: { powers: Powers; pausedMsMax: number }, onEnd: () => void) {
    this.#leftMs = ms;
    this.#pauseLeftMs = pausedMsMax;
    this.#powers = powers;
    this.#onEnd = onEnd;
  }

  start(): void {
    this.#sinceMs = this.#powers.monotonicMs();
    this.#set();
  }

  /** Counts one more or one fewer call that waits for a person. */
  pause(change: 1 | -1): void {
    if (!this.#timer) return;
    this.#count();
    this.#pauses += change;
    this.#set();
  }

  stop(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
  }

  #count(): void {
    const now = this.#powers.monotonicMs();
    const passedMs = now - this.#sinceMs;
    const pausedMs = this.#pauses > 0 ? Math.min(passedMs, this.#pauseLeftMs) : 0;
    this.#pauseLeftMs -= pausedMs;
    this.#leftMs -= passedMs - pausedMs;
    this.#sinceMs = now;
  }

  #set(): void {
    this.#timer?.cancel();
    // A pause beyond its bound counts as the program's own time.
    const ms = this.#pauses > 0 ? this.#pauseLeftMs + this.#leftMs : this.#leftMs;
    this.#timer = this.#powers.after(Math.max(ms, 0), this.#onEnd);
  }
}
