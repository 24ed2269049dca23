/** Long work on one thread, in pieces short enough for the calls that wait meanwhile. */
import { setImmediate } from 'node:timers/promises';
import type { Powers } from '../powers.ts';

const SLICE_MS = 10;

/** Counts how long it is since the event loop had its turn. */
export class Pacer {
  readonly #powers: Powers;
  #since: number;

  constructor(powers: Powers) {
    this.#powers = powers;
    this.#since = powers.monotonicMs();
  }

  /** Lets the event loop run when its last turn is longer ago than SLICE_MS. Gives whether it did: then anything may have closed. */
  async pause(): Promise<boolean> {
    if (this.#powers.monotonicMs() - this.#since < SLICE_MS) return false;
    await setImmediate();
    this.#since = this.#powers.monotonicMs();
    return true;
  }
}
