/** Divides long work on one thread into slices that are short enough for waiting calls. */
import { setImmediate } from 'node:timers/promises';
import type { Powers } from '../base/powers.ts';

const SLICE_MS = 10;

/** Tracks the time since the event loop last ran. */
export class TimeSlices {
  readonly #powers: Powers;
  #since: number;

  constructor(powers: Powers) {
    this.#powers = powers;
    this.#since = powers.monotonicMs();
  }

  /**
   * Lets the event loop run if its last turn is more than SLICE_MS ago. Returns whether it did, since the caller's resources may then be
   * closed.
   */
  async pause(): Promise<boolean> {
    if (this.#powers.monotonicMs() - this.#since < SLICE_MS) return false;
    await setImmediate();
    this.#since = this.#powers.monotonicMs();
    return true;
  }
}
